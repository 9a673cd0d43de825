"""An engine to drive step by step, and objects to show it."""

from typing import Final

import msgspec
from msgspec import Raw

from engine.batch import Batch
from engine.engine import Engine
from events.daemon import DaemonStarted, PolicyChanged
from events.messages import DeletionSeen, ListCompleted, ListStarted, ObjectSeen, WatchMessage
from events.normalize import JsonObject
from events.record import GENESIS, Record
from features.table import FEATURES
from projections.device_family import DeviceFamily
from projections.feature import Feature, FeatureTable
from projections.feature_device_families import families_of
from projections.internal_error import OnError, ignore
from projections.kind_table import REQUIRED
from projections.state import State
from scheduling.device_family_table import FAMILIES
from scheduling.plugin_table import PLUGINS
from scheduling.standing_tables import STANDING_TABLES

SECOND = 1_000_000_000


ALL_FAMILIES: Final = families_of(FEATURES)
"""The device families of muster."""


def features_with(*families: DeviceFamily) -> FeatureTable:
    """All features, and device families of a test."""
    tests = Feature(name="device families of a test", hooks=families)
    return FeatureTable((*FEATURES, tests), PLUGINS, (*FAMILIES, *STANDING_TABLES))


class EngineHarness:
    """A started engine, and the records that it made since they were last read."""

    def __init__(
        self,
        *,
        updates_status: bool = False,
        policy: dict[str, object] | None = None,
        on_error: OnError = ignore,
        features: FeatureTable = FEATURES,
    ) -> None:
        self.engine = Engine(State(features), GENESIS, on_error=on_error)
        self.engine.updates_status = updates_status
        self.now_ns = 0
        self.records: list[Record] = []
        self.batches: list[Batch] = []
        """All that it has made."""
        self.start(policy)

    @property
    def state(self) -> State:
        """What is true so far."""
        return self.engine.state

    def start(
        self, policy: dict[str, object] | None = None, pod_labels: tuple[str, ...] = ()
    ) -> None:
        """Begin an epoch, as a daemon that was restarted does, perhaps with another policy."""
        changed = None
        if policy is not None:
            changed = PolicyChanged(source="test", policy=Raw(msgspec.json.encode(policy)))
        started = DaemonStarted(
            holder="test",
            version="0",
            period_ns=SECOND,
            scheduler_names=("muster",),
            pod_labels=pod_labels,
        )
        self._keep(self.engine.start(started, changed, self.engine.head.epoch + 1, self.now_ns))

    def change_policy(self, policy: dict[str, object]) -> None:
        """Other rules hold from the next cycle on."""
        changed = PolicyChanged(source="test", policy=Raw(msgspec.json.encode(policy)))
        self._keep(self.engine.change_policy(changed, self.now_ns))

    def see(self, *messages: WatchMessage) -> None:
        """Show it something."""
        self._keep(self.engine.observe(messages, self.now_ns))

    def show_all(self, resource: str, *raws: bytes, revision: str = "1") -> None:
        """Show it all that there is of a kind."""
        shown = [ObjectSeen(raw) for raw in raws]
        self.see(ListStarted(resource), *shown, ListCompleted(resource, revision, len(raws)))

    def show_the_rest(self) -> None:
        """All other kinds that are required are listed, and there is nothing of them."""
        for resource in REQUIRED:
            if resource not in self.state.listed:
                self.show_all(resource)

    def cycle(self, seconds: int = 1) -> None:
        """Time passes, and a cycle is held if one is due."""
        self.now_ns += seconds * SECOND
        self._keep(self.engine.cycle(self.now_ns))

    def kinds(self) -> list[str]:
        """Kind and subject of each record since this was last asked, in short."""
        records, self.records = self.records, []
        return [f"{one.kind.partition('.')[0]} {one.subject}" for one in records]

    def _keep(self, batch: Batch | None) -> None:
        if batch is not None:
            self.records += batch.records
            self.batches.append(batch)
        self.state.validate()


def raw(kind: str, name: str, uid: str = "", **parts: object) -> bytes:
    """An object as an API server shows it. `parts` are `metadata`, `spec`, `status` ..."""
    meta: JsonObject = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": "7"}
    if kind in ("Pod", "PodGroup", "Job"):
        meta["namespace"] = "default"
    more = parts.pop("metadata", {})
    assert isinstance(more, dict)
    return msgspec.json.encode({"kind": kind, "metadata": {**meta, **more}, **parts})


def node(name: str, uid: str = "", cpu: int = 4, labels: dict[str, str] | None = None) -> bytes:
    """A node with some cpus and as many cards."""
    amounts = {"cpu": str(cpu), "pods": "110", "example.com/card": str(cpu)}
    metadata = {"labels": labels or {}}
    return raw("Node", name, uid, metadata=metadata, spec={}, status={"allocatable": amounts})


def pod(
    name: str,
    uid: str = "",
    *,
    on: str = "",
    phase: str = "Pending",
    reason: str = "",
    cards: int = 0,
    **parts: object,
) -> bytes:
    """A pod that asks for one cpu, and perhaps cards."""
    requests: JsonObject = {"cpu": "1", **({"example.com/card": str(cards)} if cards else {})}
    spec: JsonObject = {
        "schedulerName": "muster",
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        **({"nodeName": on} if on else {}),
    }
    more = parts.pop("spec", {})
    assert isinstance(more, dict)
    status: JsonObject = {"phase": phase, **({"reason": reason} if reason else {})}
    harness = parts.pop("status", {})
    assert isinstance(harness, dict)
    return raw("Pod", name, uid, spec={**spec, **more}, status={**status, **harness}, **parts)


def gone(raw: bytes) -> DeletionSeen:
    """It was deleted."""
    return DeletionSeen(raw)
