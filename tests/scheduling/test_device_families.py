"""A second device family, registered like whole cards: it chooses nodes, and names the devices that pods get."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pytest

from events.codec import event_of
from events.decision import Decision
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.normalize import JsonObject
from projections import snapshot
from projections.device_family import (
    FAMILIES,
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
    register_families,
)
from projections.devices import Device, NodeDevices
from projections.nodes import NodeFacts
from projections.pod_class import Amounts
from tests.checkout import ROOT
from tests.scheduling.builders import EngineHarness, gone, raw

SLOT = "example.com/slot"
LABEL = "example.com/slots"


class Slots(DeviceFamily):
    """Slots in a row. A pod gets neighbours: the shortest free row that is long enough, and there the first ones."""

    name = "slots"

    def discover(self, sources: DeviceSources) -> Discovered:
        """Read the names of the slots from a label."""
        if LABEL not in sources.labels or not sources.amounts.get(SLOT):
            return Discovered()
        names = sources.labels[LABEL].split("-")
        devices = tuple(Device(name, number) for number, name in enumerate(names))
        return Discovered(devices={SLOT: NodeDevices(self.name, SLOT, devices)})

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Every slot is asked for by its number."""
        return request.get(SLOT, 0)

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return the rows of free slots."""
        taken = [name for use in uses for name in use.devices]
        rows: list[list[str]] = [[]]
        for name in node.devices[SLOT].names:
            if name in taken:
                rows.append([])
            else:
                rows[-1].append(name)
        return tuple([tuple(row) for row in rows if row])

    def job_problem(self, request: DeviceRequest) -> tuple[str, str]:
        """Several pods of a job may ask for pairs only."""
        count = request.pod_class.amounts[SLOT]
        if request.job.is_distributed and count % 2:
            return "InvalidResourceRequest", f"{count} slots are no pairs, in a job of several pods"
        return "", ""

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Pods that request no slot may be anywhere."""
        count = request.pod_class.amounts.get(SLOT, 0)
        return SlotFit(count) if count else None


@dataclass(frozen=True)
class SlotFit(DeviceFit):
    """A node serves the pod if enough neighbours are free there; the fewer remain beside them, the better."""

    count: int

    @property
    def reason(self) -> str:
        """Say how many neighbours are missing."""
        return f"node(s) had no {self.count} slots in a row"

    def points(self, available: Hashable) -> int:
        """Return a hundred points for each slot that does not remain beside those of the pod."""
        row = self._shortest(available)
        return 100_000 * (100 - len(row)) if row else -1

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the first slots of the shortest row."""
        return self._shortest(available)[: self.count]

    def obstacle(self, available: Hashable) -> str:
        """Name the free slots."""
        assert isinstance(available, tuple)
        return f"free slots: {' '.join(name for row in available for name in row) or 'none'}"

    def _shortest(self, rows: Hashable) -> tuple[str, ...]:
        """Return the shortest row of free slots that is long enough, the first of equals; () if there is none."""
        assert isinstance(rows, tuple)
        return min([row for row in rows if len(row) >= self.count], key=len, default=())


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The family is in the table for the test."""
    register_families(Slots())
    yield
    del FAMILIES[Slots.name]


def node(name: str, slots: str) -> bytes:
    """A node with these slots."""
    count = len(slots.split("-"))
    amounts = {"cpu": "64", "pods": "110", SLOT: str(count)}
    metadata = {"labels": {LABEL: slots}}
    return raw("Node", name, metadata=metadata, spec={}, status={"allocatable": amounts})


def pod(
    name: str,
    slots: int,
    *,
    on: str = "",
    phase: str = "Pending",
    group: str = "",
    priority: int = 0,
) -> bytes:
    """A pod that requests slots, perhaps of a gang."""
    requests: JsonObject = {"cpu": "1", **({SLOT: str(slots)} if slots else {})}
    annotations: JsonObject = {"scheduling.k8s.io/group-name": group} if group else {}
    spec: JsonObject = {
        "schedulerName": "muster",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        **({"nodeName": on} if on else {}),
    }
    return raw(
        "Pod", name, metadata={"annotations": annotations}, spec=spec, status={"phase": phase}
    )


def begun(*nodes: bytes, policy: dict[str, object] | None = None) -> EngineHarness:
    """A cluster with these nodes and without pods."""
    harness = EngineHarness(policy=policy)
    harness.show_all("Node", *nodes)
    harness.show_all("Pod")
    harness.show_the_rest()
    harness.cycle()
    return harness


def given(harness: EngineHarness) -> dict[str, tuple[str, ...]]:
    """Name of each pod to its node and devices."""
    pods = harness.state.cluster.pods.values()
    return {one.facts.name: (one.node, *one.devices) for one in pods if one.node}


def test_a_family_chooses_the_node_and_the_decision_names_the_devices() -> None:
    harness = begun(node("n1", "a-b-c-d"), node("n2", "x-y"))
    harness.show_all("Pod", pod("p", 2), pod("without", 0))
    harness.cycle()
    assert given(harness) == {"p": ("n2", "x", "y"), "without": ("n2",)}
    binds = [one for one in map(event_of, harness.records) if isinstance(one, GangBindDecided)]
    found = {one.pod: one.devices for event in binds for one in event.placements}
    assert found == {"default/p": ("x", "y"), "default/without": ()}


def test_pods_of_one_gang_get_different_devices_and_none_is_given_twice() -> None:
    harness = begun(node("n1", "a-b-c-d-e"))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 2}))
    harness.show_all("Pod", *(pod(f"p{index}", 2, group="g") for index in range(2)), pod("q", 1))
    harness.cycle()
    harness.cycle()
    names = [device for _, *devices in given(harness).values() for device in devices]
    assert sorted(names) == ["a", "b", "c", "d", "e"]


def test_a_node_with_enough_free_devices_of_which_none_are_neighbours_does_not_serve_the_pod() -> (
    None
):
    harness = begun(node("n1", "a-b-c"))
    harness.show_all("Pod", pod("left", 1), pod("mid", 1), pod("right", 1))
    harness.cycle()
    assert given(harness) == {"left": ("n1", "a"), "mid": ("n1", "b"), "right": ("n1", "c")}
    harness.see(gone(pod("left", 1)), gone(pod("right", 1)))
    harness.show_all("Pod", pod("mid", 1, on="n1", phase="Running"), pod("pair", 2))
    harness.cycle()
    assert "pair" not in given(harness)
    [group] = [one for one in harness.state.cluster.groups.values() if one.pending]
    refusal = group.refusals["allocate"]
    assert (refusal.message, refusal.limit, refusal.never_fits) == (
        "0/1 nodes are unavailable: 1 node(s) had no 2 slots in a row.",
        "devices",
        False,
    )
    harness.see(gone(pod("mid", 1)))
    harness.cycle()
    assert given(harness) == {"pair": ("n1", "a", "b")}


def test_devices_are_kept_while_the_pod_runs_and_across_a_snapshot() -> None:
    harness = begun(node("n1", "a-b"))
    harness.show_all("Pod", pod("p", 1))
    harness.cycle()
    harness.show_all("Pod", pod("p", 1, on="n1", phase="Running"))
    assert given(harness) == {"p": ("n1", "a")}
    payload = snapshot.take(harness.state)
    restored = snapshot.restore(payload)
    assert restored.cluster.pods["uid-p"].devices == ("a",)
    assert snapshot.take(restored) == payload
    restored.validate()
    harness.show_all("Pod", pod("p", 1, on="n1", phase="Running"), pod("q", 1))
    harness.cycle()
    assert given(harness) == {"p": ("n1", "a"), "q": ("n1", "b")}
    harness.show_all("Pod", pod("p", 1, on="n1", phase="Succeeded"), pod("r", 1))
    harness.cycle()
    assert given(harness)["r"] == ("n1", "a")


def test_a_pod_that_waits_for_victims_gets_its_devices_when_they_are_gone() -> None:
    named = [{"name": one} for one in ("priority", "conformance", "predicates")]
    harness = begun(
        node("n1", "a-b"),
        policy={"actions": "enqueue, allocate, preempt", "tiers": [{"plugins": named}]},
    )
    harness.show_all("Pod", pod("low", 1), pod("other", 1))
    harness.cycle()
    running = [pod(one, 1, on="n1", phase="Running") for one in ("low", "other")]
    harness.show_all("Pod", *running, pod("high", 2, priority=10))
    harness.cycle()
    nominated = [one for one in map(event_of, harness.records) if isinstance(one, PipelineDecided)]
    assert [one.devices for event in nominated for one in event.placements] == [("a", "b")]
    harness.see(*(gone(one) for one in running))
    harness.cycle()
    assert given(harness) == {"high": ("n1", "a", "b")}


def test_a_pod_is_evicted_whose_device_is_in_the_way() -> None:
    named = [{"name": one} for one in ("priority", "conformance", "predicates")]
    harness = begun(
        node("n1", "a-b-c"),
        policy={"actions": "enqueue, allocate, preempt", "tiers": [{"plugins": named}]},
    )
    harness.show_all("Pod", pod("left", 1), pod("mid", 1), pod("right", 1))
    harness.cycle()
    harness.see(gone(pod("left", 1)), gone(pod("right", 1)))
    harness.show_all("Pod", pod("mid", 1, on="n1", phase="Running"), pod("high", 2, priority=10))
    harness.cycle()
    events = [one for one in map(event_of, harness.records) if isinstance(one, EvictionDecided)]
    assert [one.pod for event in events for one in event.evictions] == ["default/mid"]


def test_a_group_whose_requests_a_family_refuses_is_unschedulable_until_it_changes() -> None:
    harness = begun(node("n1", "a-b-c-d"))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 2}))
    harness.show_all("Pod", pod("p0", 2, group="g"), pod("p1", 1, group="g"), pod("q", 1))
    harness.cycle()
    assert given(harness) == {"q": ("n1", "a")}
    refusal = harness.state.cluster.groups["default/g"].refusals["allocate"]
    text = "1 slots are no pairs, in a job of several pods"
    assert (refusal.code, refusal.message) == ("InvalidResourceRequest", text)
    harness.show_all("Node", node("n1", "a-b-c-d"), node("n2", "x-y-z"))
    harness.see(gone(pod("q", 1)))
    records = len(harness.records)
    harness.cycle()
    decided = [one for one in map(event_of, harness.records[records:]) if isinstance(one, Decision)]
    assert decided == []
    harness.show_all("Pod", pod("p0", 2, group="g"), pod("p2", 2, group="g"))
    harness.cycle()
    assert given(harness) == {"p0": ("n2", "x", "y"), "p2": ("n1", "a", "b")}


def test_devices_are_omitted_from_records_of_families_that_name_none() -> None:
    harness = begun(node("n1", "a-b"))
    harness.show_all("Pod", pod("without", 0))
    harness.cycle()
    [event] = [one for one in map(event_of, harness.records) if isinstance(one, GangBindDecided)]
    assert b"devices" not in msgspec.json.encode(event.placements)


@pytest.mark.parametrize("text", ["gpu.shared", "nvidia.com/mig-", "whole_cards"])
def test_no_module_but_its_own_names_whole_cards(text: str) -> None:
    allowed = {"scheduling/device_families/whole_cards.py", "scheduling/device_family_table.py"}
    packages = ("projections", "scheduling", "engine", "replay", "daemon")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    naming = {path.relative_to(ROOT).as_posix() for path in files if text in path.read_text()}
    assert naming <= allowed
    assert naming
