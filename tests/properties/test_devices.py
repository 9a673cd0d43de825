"""Named devices over any history: no device is given twice, all are accounted for, and releasing one frees exactly it."""

from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.engine import Engine
from engine.pending_requests import bindings_and_evictions
from events.messages import (
    Accepted,
    Answer,
    BindRequest,
    EvictRequest,
    ObjectSeen,
    OutcomeUnknown,
    Rejected,
    Reply,
)
from projections import snapshot
from projections.device_uses import uses_of
from projections.pods import Pod
from tests.example_count import examples
from tests.scheduling.builders import EngineHarness, gone
from tests.scheduling.slots import REAL, WITH_SLOTS, Slots, slot_node, slot_pod

NODES: Final = {"n1": "a-b-c-d", "n2": "w-x-y"}
DELETED: Final = "2026-01-01T00:00:00Z"
POLICY: Final[dict[str, object]] = {
    "actions": "enqueue, allocate, preempt, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": "predicates"}, {"name": "nodeorder"}]},
    ],
}


class Devices(RuleBasedStateMachine):
    """A server whose answers may be lost, late or refusals; pods that terminate slowly; a daemon that restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = EngineHarness(policy=POLICY, features=WITH_SLOTS)
        self.count = 0
        self.shown: dict[str, tuple[int, int]] = {}
        """Name of each pod that the server has to its slots and priority."""
        self.on: dict[str, tuple[str, dict[str, str]]] = {}
        """Name of each pod that the server has bound to its node and annotations."""
        self.leaving: dict[str, None] = {}
        self.broken: dict[str, str] = dict.fromkeys(NODES, "")

    @initialize()
    def begin(self) -> None:
        """There are two nodes."""
        self.harness.show_all("Node", *(slot_node(name, slots) for name, slots in NODES.items()))
        self.harness.show_the_rest()

    def _object(self, name: str) -> bytes:
        slots, priority = self.shown[name]
        node, annotations = self.on.get(name, ("", {}))
        more = {"deletionTimestamp": DELETED} if name in self.leaving else {}
        phase = "Running" if node else "Pending"
        return slot_pod(
            name, slots, on=node, phase=phase, priority=priority, annotations=annotations, **more
        )

    @rule(asked=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=3))
    def create(self, asked: list[tuple[int, int]]) -> None:
        """Pods come, each with a number of slots and a priority, and a cycle is held."""
        for slots, priority in asked:
            name = f"p{self.count}"
            self.count += 1
            self.shown[name] = (slots, priority)
            self.harness.see(ObjectSeen(self._object(name)))
        self.harness.cycle(61)

    @rule()
    def cycle(self) -> None:
        """A cycle is held if one is due."""
        self.harness.cycle(61)

    @rule(data=st.data(), is_shown=st.booleans())
    def answer(self, data: st.DataObject, *, is_shown: bool) -> None:
        """The server answers all requests, one way or the other, or answers are lost; watch events may follow."""
        for request in bindings_and_evictions(self.harness.state):
            if isinstance(request, BindRequest | EvictRequest):
                what = data.draw(
                    st.sampled_from(["accepted", "accepted", "refused", "lost", "lost but done"])
                )
                reply = self._reply(request, what)
                self.harness.engine.report([Answer(request, reply)], self.harness.now_ns)
                if is_shown and request.name in self.shown:
                    self.harness.see(ObjectSeen(self._object(request.name)))

    def _reply(self, request: BindRequest | EvictRequest, what: str) -> Reply:
        """Carry out a request, or not, and return what the scheduler is told."""
        name = request.name
        if name not in self.shown:
            return Rejected("NotFound", "no such pod")
        if isinstance(request, EvictRequest):
            if what in ("accepted", "lost but done"):
                self.leaving[name] = None
        elif name in self.on:
            # An earlier request of the same decision was carried out, and its answer was lost.
            return Accepted()
        elif what in ("accepted", "lost but done"):
            self.on[name] = (request.node, dict(request.annotations))
        if what == "accepted":
            return Accepted()
        return Rejected("Forbidden", "no") if what == "refused" else OutcomeUnknown("no answer")

    @precondition(lambda self: self.shown)
    @rule(data=st.data())
    def observe(self, data: st.DataObject) -> None:
        """A watch event shows a pod as it is."""
        self.harness.see(ObjectSeen(self._object(data.draw(st.sampled_from(sorted(self.shown))))))

    @precondition(lambda self: self.on)
    @rule(data=st.data(), is_gone=st.booleans())
    def end(self, data: st.DataObject, *, is_gone: bool) -> None:
        """A pod begins to terminate, or is gone."""
        name = data.draw(st.sampled_from(sorted(self.on)))
        self.leaving[name] = None
        last = self._object(name)
        if is_gone:
            for kept in (self.shown, self.on, self.leaving):
                del kept[name]
        self.harness.see(gone(last) if is_gone else ObjectSeen(last))

    @precondition(lambda self: self.on)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        """The device plugin states the devices that were decided."""
        name = data.draw(st.sampled_from(sorted(self.on)))
        devices = self._pods().get(f"uid-{name}")
        if devices is not None and devices.devices and devices.facts.node:
            self.on[name][1][REAL] = "-".join(devices.devices)
            self.harness.see(ObjectSeen(self._object(name)))

    @rule(node=st.sampled_from(sorted(NODES)), index=st.integers(-1, 3))
    def break_device(self, node: str, index: int) -> None:
        """One device of a node breaks, or all are whole again."""
        names = NODES[node].split("-")
        self.broken[node] = names[index] if 0 <= index < len(names) else ""
        self.harness.see(ObjectSeen(slot_node(node, NODES[node], self.broken[node])))

    @rule()
    def restart(self) -> None:
        """The daemon ends, and starts from a snapshot."""
        restored = snapshot.restore(snapshot.take(self.harness.state), WITH_SLOTS)
        self.harness.engine = Engine(restored, self.harness.engine.head)
        self.harness.start()
        for resource in ("Node", "Pod"):
            raws = [slot_node(name, slots, self.broken[name]) for name, slots in NODES.items()]
            if resource == "Pod":
                raws = [self._object(name) for name in self.shown]
            self.harness.show_all(resource, *raws)
        self.harness.show_the_rest()

    def _pods(self) -> dict[str, Pod]:
        return self.harness.state.cluster.pods

    @invariant()
    def no_device_has_two_pods(self) -> None:
        """No node has an error, and each pod on a node has as many devices as it asks for."""
        cluster = self.harness.state.cluster
        assert cluster.device_holders.errors == {}
        for pod in cluster.pods.values():
            if pod.occupies:
                assert len(pod.devices) == pod.pod_class.amounts["example.com/slot"], pod.key

    @invariant()
    def free_used_and_broken_devices_are_all(self) -> None:
        """Each device of a node is free, used or broken."""
        cluster = self.harness.state.cluster
        family = cluster.device_families[Slots.name]
        for name, slots in NODES.items():
            node = cluster.nodes.nodes.get(name)
            if node is None or node.facts is None:
                continue
            uses = uses_of(node, cluster.pods, family)
            used = {device for one in uses for device in one.devices}
            rows = family.available(node.facts, uses)
            assert isinstance(rows, tuple)
            free = {device for row in rows for device in row}
            broken = {one for one in self.broken[name].split("-") if one}
            assert free | used | broken == set(slots.split("-"))
            assert not free & (used | broken)
            held = [d for uid in node.pods for d in cluster.pods[uid].devices]
            assert len(held) == len(set(held))


def test_no_device_is_given_twice_in_any_history() -> None:
    profile = settings(
        max_examples=examples(60),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Devices, settings=profile)
