"""Would manifests be placed now: they are added to a fork of State as if they had just been created.

Cycles are held on that fork as the daemon would hold them, with all other waiting pods. Controllers of
workloads (pods of a Job once its group is admitted) run in a simulated cluster of their own. Nothing reaches a
log or a real cluster.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from engine.batch import Batch
from engine.engine import Engine
from engine.ingest import FIRST_LISTS
from events.codec import event_of
from events.daemon import DaemonStarted, PolicyChanged
from events.decisions.eviction import EvictionDecided
from events.errors import UsageError
from events.messages import Accepted, Answer, ObjectSeen, PodGroupPhaseRequest
from events.record import GENESIS, Head, Record
from events.watch import WatchOpened
from features.table import FEATURES
from projections.kind_table import REQUIRED
from projections.pod_groups import WAITING, PodGroup
from projections.pods import Pod
from projections.state import State
from projections.volumes.facts import VOLUME_KINDS
from projections.volumes.kind_status import NOT_LISTED
from replay.log_time import format_time
from replay.node_rows import PodNodes, pod_nodes
from scheduling.explanation import EveryNode, Waiting
from simulator.cluster import SimulatedCluster
from simulator.manifest import LocatedManifest
from simulator.scenario import Apply, Scenario

LISTED: Final = ("", NOT_LISTED)
"""Reasons why a kind about volumes is not listed that do not count: none, and that the log ends before the list."""

ROUNDS_MAX: Final = 16
"""The most cycles that are held."""

ERA_NS: Final = 1
"""Part of every uid given to the objects of the manifests: no object of a cluster has it."""


class FittedPod(Struct, frozen=True):
    """A pod that would be bound."""

    pod: str
    node: str
    cards: dict[str, int]
    devices: tuple[str, ...] = ()
    """Names of the devices that it would get."""


class FittedPodGroup(Struct, frozen=True):
    """A pod group of the manifests, and what would become of it."""

    pod_group: str
    queue: str
    phase: str
    placed: tuple[FittedPod, ...]
    waits: tuple[str, ...]
    """Pods that would not be bound."""
    evicts: tuple[str, ...]
    """Pods of other groups that would be evicted for it."""
    waiting: Waiting | None
    """What it would wait for, level by level."""
    nodes: tuple[PodNodes, ...] = ()
    """All nodes, before any pod of the group is placed, for the first pod of each equivalence class alone."""

    @property
    def fits(self) -> bool:
        """Return True if no pod of the group would wait."""
        return not self.waits and self.phase != WAITING


class Fit(Struct, frozen=True):
    """The answer to a `fit`."""

    fits: bool
    position: int
    """The position of State."""
    at: str
    at_ns: int
    """The time of State's last cycle."""
    pod_groups: tuple[FittedPodGroup, ...]
    not_ours: tuple[str, ...]
    """Pods that name another scheduler, and pod groups of such pods."""


def state_at_start(
    scenario: Scenario, policy: PolicyChanged, scheduler_names: tuple[str, ...]
) -> State:
    """Return State with the cluster of a scenario and its steps at time 0, before the first cycle."""
    state = State(FEATURES)
    engine = Engine(state, GENESIS)
    started = DaemonStarted(
        holder="fit",
        version="",
        period_ns=scenario.period_ns,
        scheduler_names=scheduler_names,
        volume_kinds=VOLUME_KINDS,
    )
    engine.start(started, policy, 1, 0)
    at_start = tuple(one for one in scenario.steps if one.at_ns == 0)
    simulated = SimulatedCluster(structs.replace(scenario, steps=at_start))
    simulated.advance(0)
    engine.observe(simulated.poll_watch(), 0)
    return state


class FitSimulation:
    """Adds manifests to a fork of a State; the State itself is only read."""

    def __init__(
        self,
        state: State,
        manifests: Sequence[LocatedManifest],
        policy: PolicyChanged | None = None,
    ) -> None:
        self._state = state = state.fork()
        self._position, self._now_ns = state.position, state.now_ns
        self._step = Engine(state, Head(position=state.position, digest="0" * 64, epoch=0))
        steps = tuple(Apply(0, one.kind, one.manifest) for one in manifests)
        self._simulated = SimulatedCluster(
            Scenario(name="fit", steps=steps), state.now_ns, era_ns=ERA_NS
        )
        self._simulated.poll_watch()
        self._simulated.advance(0)
        self._evicts: dict[str, list[str]] = {}
        self._pods: dict[str, None] = {}
        self._groups: dict[str, None] = {}
        self._nodes: dict[str, tuple[PodNodes, ...]] = {}
        self._begin(policy)

    def answer(self) -> Fit:
        """Hold cycles until nothing more changes. Raises UsageError if the manifests hold no pod."""
        for _ in range(ROUNDS_MAX):
            is_new = self._show()
            self._judge_nodes()
            batch = self._step.cycle(self._now_ns)
            self._note(batch)
            self._set_phases()
            if batch is None and not is_new:
                break
        cluster = self._state.cluster
        pods = [cluster.pods[uid] for uid in self._pods if uid in cluster.pods]
        keys = {**self._groups, **dict.fromkeys(one.group_key for one in pods if one.group_key)}
        groups = [cluster.groups[key] for key in keys if key in cluster.groups]
        fitted = tuple(self._fitted(one) for one in groups if not one.is_foreign)
        others = (
            *(one.key for one in pods if not one.group_key),
            *(one.key for one in groups if one.is_foreign),
        )
        if not fitted and not others:
            raise UsageError("nothing in the manifest asks for a node")
        return Fit(
            fits=not others and all(one.fits for one in fitted),
            position=self._position,
            at=format_time(self._now_ns, self._now_ns),
            at_ns=self._now_ns,
            pod_groups=fitted,
            not_ours=others,
        )

    def _begin(self, policy: PolicyChanged | None) -> None:
        """Treat every kind as listed completely, though the log may end before that; but not one about volumes that the
        daemon may not list, or that is not served."""
        cluster = self._state.cluster
        unlisted = {kind: why for kind, why in cluster.volume_kinds.items() if why not in LISTED}
        started = DaemonStarted(
            holder="fit",
            version="",
            period_ns=self._state.period_ns,
            scheduler_names=cluster.scheduler_names,
            volume_kinds=tuple(cluster.volume_kinds),
        )
        self._step.start(started, policy, 1, self._now_ns)
        cluster.volume_kinds.update(unlisted)
        volumes = [kind for kind in cluster.volume_kinds if kind not in unlisted]
        kinds = dict.fromkeys((*FIRST_LISTS, *REQUIRED, *volumes))
        seen = [
            WatchOpened(
                resource=kind, resource_version=self._state.watched.get(kind, ""), is_resumed=True
            )
            for kind in kinds
        ]
        self._step.observe(seen, self._now_ns)

    def _show(self) -> bool:
        """Pass new objects of the simulated cluster to State; return True if there were any."""
        taken = [one for one in self._simulated.poll_watch() if isinstance(one, ObjectSeen)]
        batch = self._step.observe(taken, self._now_ns)
        for record in () if batch is None else batch.records:
            kind, _, key = record.subject.partition("/")
            if kind == "Pod" and (uid := getattr(event_of(record), "uid", "")):
                self._pods[uid] = None
            elif kind == "PodGroup":
                self._groups[key] = None
        return bool(taken)

    def _judge_nodes(self) -> None:
        """Judge all nodes for the groups that have pods for the first time."""
        cluster = self._state.cluster
        pods = [cluster.pods[uid] for uid in self._pods if uid in cluster.pods]
        for key in dict.fromkeys(one.group_key for one in pods):
            group = cluster.groups.get(key)
            if group is not None and group.pending and key not in self._nodes:
                judged = self._step.decider.explain(EveryNode(group)).judged
                self._nodes[key] = tuple(pod_nodes(one) for one in judged)

    def _note(self, batch: Batch | None) -> None:
        records: Sequence[Record] = () if batch is None else batch.records
        for record in records:
            event = event_of(record)
            if isinstance(event, EvictionDecided):
                evicted = self._evicts.setdefault(event.in_favour_of, [])
                evicted += [one.pod for one in event.evictions]

    def _set_phases(self) -> None:
        """Set the phases of the manifests' groups: controllers wait for them."""
        asked = [
            one for one in self._step.urgent_requests() if isinstance(one, PodGroupPhaseRequest)
        ]
        for one in asked:
            if f"{one.namespace}/{one.name}" in self._groups:
                self._simulated.set_phase(one)
            self._step.report([Answer(one, Accepted())], self._now_ns)

    def _fitted(self, group: PodGroup) -> FittedPodGroup:
        ours = sorted(
            (pod for uid, pod in group.pods.items() if uid in self._pods),
            key=group.task_key,
        )
        waits = tuple(pod.key for pod in ours if not pod.node)
        needs_answer = bool(waits) or group.decided.phase == WAITING
        answer = self._step.decider.explain(group).waiting if needs_answer else None
        if answer is not None and answer.since > self._position:
            # The record of this refusal is in no log.
            answer = structs.replace(answer, since=0)
        return FittedPodGroup(
            pod_group=group.key,
            queue=group.queue,
            phase=group.decided.phase,
            placed=tuple(self._place(pod) for pod in ours if pod.node),
            waits=waits,
            evicts=tuple(self._evicts.get(group.key, ())),
            waiting=answer,
            nodes=self._nodes.get(group.key, ()),
        )

    def _place(self, pod: Pod) -> FittedPod:
        known = self._state.cluster.cards.resource
        cards = {name: amount for name, amount in pod.charge or () if name in known}
        return FittedPod(pod.key, pod.node, cards, pod.devices)
