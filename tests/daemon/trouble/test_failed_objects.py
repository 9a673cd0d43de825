"""An exception while State is being changed is held to the object: the daemon goes on, starts, and replays.

Functions of production raise when they meet the object `attack`, in the middle of a change.
"""

from collections.abc import Callable
from typing import Any

import pytest

from daemon.fold import fold
from daemon.log.memory import MemoryLog
from daemon.queries.replay import replay_log
from daemon.queries.why import why
from daemon.simulation import SimulationRun, simulate
from daemon.view_rebuild import write_views_anew
from events.cluster import ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.codec import event_of
from events.record import Record
from projections import node_updates, state
from projections.cluster import Cluster
from projections.deltas import PodChanged
from projections.disruption_budgets import Budgets
from projections.faulty_pods import FaultyPods
from projections.kinds import hyper_node, node, priority_class, volcano_queue
from projections.left_out import ApplyError, folded
from projections.pod_group_index import PodGroupIndex
from projections.pods import Pod
from simulator.scenario import parse_scenario

BEGUN = """
scenario: an object that State cannot take in
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}}
  - {kind: Queue, metadata: {name: default}, spec: {}}
  - {kind: Pod, metadata: {name: before}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
steps:
"""
AFTER = """
  - at: 4s
    apply:
      - {kind: Pod, metadata: {name: after}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
until: 8s
"""
ATTACKS: dict[str, str] = {
    "Node": "{kind: Node, metadata: {name: attack}, status: {allocatable: {cpu: 8, pods: 110}}}",
    "Pod": "{kind: Pod, metadata: {name: attack}, spec: {schedulerName: other, containers: [{name: m}]}}",
    "faulty Pod": (
        "{kind: Pod, metadata: {name: attack, labels: {fault-type: software}}, "
        "spec: {schedulerName: other, containers: [{name: m}]}}"
    ),
    "PodGroup": "{kind: PodGroup, metadata: {name: attack}, spec: {minMember: 1}}",
    "Queue": "{kind: Queue, metadata: {name: attack}, spec: {weight: 2}}",
    "PriorityClass": "{kind: PriorityClass, metadata: {name: attack}, value: 7}",
    "HyperNode": "{kind: HyperNode, metadata: {name: attack}, spec: {tier: 1}}",
    "PodDisruptionBudget": (
        "{kind: PodDisruptionBudget, metadata: {name: attack}, spec: {selector: {matchLabels: {a: b}}}}"
    ),
}

Wrong = tuple[str, object, str, bool]
"""Kind of the attack; where the function is, and its name; whether it raises after it has done its work."""

CHANGES: dict[str, Wrong] = {
    "counting a pod": ("Pod", Cluster, "change_of", False),
    "counting a pod, after it": ("Pod", Cluster, "change_of", True),
    "an index": ("faulty Pod", FaultyPods, "_update", False),
    "put_node": ("Node", node, "put_node", False),
    "_changed of a node": ("Node", node_updates, "_changed", False),
    "putting a pod group, after it": ("PodGroup", PodGroupIndex, "put_object", True),
    "settling a pod group": ("PodGroup", PodGroupIndex, "_find_place", False),
    "put_queue, after it": ("Queue", volcano_queue, "put_queue", True),
    "put_priority_class": ("PriorityClass", priority_class, "put_priority_class", True),
    "put_hyper_node, after it": ("HyperNode", hyper_node, "put_hyper_node", True),
    "the table of budgets": ("PodDisruptionBudget", Budgets, "put", True),
}


def mentions(one: object) -> bool:
    """Whether an argument is about the object `attack`."""
    if isinstance(one, Cluster):
        return False
    facts = getattr(one, "facts", None) or one
    names = (one, getattr(facts, "name", ""), getattr(one, "key", ""))
    return any(isinstance(name, str) and name.rpartition("/")[2] == "attack" for name in names)


def break_(monkeypatch: pytest.MonkeyPatch, where: object, name: str, is_after: bool) -> None:
    """Let a function raise when it is called for the attack."""
    real: Callable[..., object] = getattr(where, name)

    def broken(*args: object, **named: object) -> object:
        if not any(map(mentions, args)):
            return real(*args, **named)
        if is_after:
            real(*args, **named)
        raise IndexError("pop from an empty list")

    monkeypatch.setattr(where, name, broken)


async def daemon(log: MemoryLog, *steps: str) -> SimulationRun:
    """A daemon on the log, in a cluster in which this happens."""
    return await simulate(
        parse_scenario(BEGUN + "".join(steps) + AFTER, "a.yaml"), log, with_views=True
    )


def apply(at: str, attack: str) -> str:
    return f"  - {{at: {at}, apply: [{attack}]}}\n"


def records(log: MemoryLog, kind: type) -> list[Record]:
    """The records of one kind that are about the attack."""
    found = [one for one in log.memory.records if one.subject.endswith("/attack")]
    return [one for one in found if isinstance(event_of(one), kind)]


async def assert_sound(log: MemoryLog, ended: SimulationRun, first: int = 1) -> None:
    """Others were served; State adds up, is folded as it is, and from a position on is decided again as it was."""
    pods = {pod.key: pod.node for pod in ended.state.cluster.pods.values()}
    assert pods["default/before"] == pods["default/after"] == "n1"
    ended.state.validate()
    (await fold(log)).validate()
    replayed = await replay_log(log, first)
    assert replayed.divergence is None


@pytest.mark.parametrize("change", CHANGES)
async def test_the_daemon_goes_on_and_records_the_object_as_unreadable(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, where, name, is_after = CHANGES[change]
    break_(monkeypatch, where, name, is_after)
    log = MemoryLog()
    ended = await daemon(log, apply("2s", ATTACKS[kind]))
    await assert_sound(log, ended)
    assert records(log, ObjectUnreadable)
    assert not records(log, ObjectObserved), "what State could not take in is not in the log"
    event = event_of(records(log, ObjectUnreadable)[0])
    assert isinstance(event, ObjectUnreadable)
    assert "IndexError in projections." in event.reason
    monkeypatch.undo()
    await assert_sound(log, ended)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_start_leaves_out_a_record_that_state_cannot_apply(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, where, name, is_after = CHANGES[change]
    log = MemoryLog()
    await daemon(log, apply("2s", ATTACKS[kind]))
    assert records(log, ObjectObserved)
    before = log.head.position
    break_(monkeypatch, where, name, is_after)
    await assert_sound(log, await daemon(log), before + 1)
    (await write_views_anew(log)).state.validate()
    assert (await why(log, "Pod/default/after")).subject == "Pod/default/after"


async def test_many_records_that_cannot_be_applied_are_left_out_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each fold begins where the last record was left out, so that a start ends in time."""
    log = MemoryLog()
    attacks = [ATTACKS["Pod"].replace("attack", f"attack, namespace: n{n}") for n in range(10)]
    steps = [apply(f"{2000 + 100 * n}ms", attack) for n, attack in enumerate(attacks)]
    await daemon(log, *steps)
    break_(monkeypatch, Cluster, "change_of", True)
    applied = 0
    real = state.State.apply

    def counted(*args: Any, **named: Any) -> None:
        nonlocal applied
        applied += 1
        real(*args, **named)

    monkeypatch.setattr(state.State, "apply", counted)
    folded_state = await fold(log)
    folded_state.validate()
    assert len(folded_state.left_out) == 10
    assert applied < 5 * log.head.position
    assert "default/after" in {pod.key for pod in folded_state.cluster.pods.values()}


DELETIONS: dict[str, tuple[object, str, int | None]] = {
    "Node": (node, "drop_node", None),
    "Pod": (Cluster, "change_of", 2),
    "PodGroup": (PodGroupIndex, "drop_object", None),
    "Queue": (volcano_queue, "put_queue", 1),
}
"""Kind to a function that deletes, and which argument is None then, if it does not delete only."""


@pytest.mark.parametrize("kind", DELETIONS)
async def test_an_object_whose_deletion_raises_stays_as_it_was_last_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, none = DELETIONS[kind]
    log = MemoryLog()
    real: Callable[..., object] = getattr(where, name)

    def broken(*args: object, **named: object) -> object:
        result = real(*args, **named)
        if (none is None or args[none] is None) and any(map(mentions, args)):
            raise KeyError("attack")
        return result

    monkeypatch.setattr(where, name, broken)
    delete = f"  - {{at: 3s, delete: [{{kind: {kind}, name: attack}}]}}\n"
    ended = await daemon(log, apply("2s", ATTACKS[kind]), delete)
    await assert_sound(log, ended)
    assert records(log, ObjectUnreadable)
    assert not records(log, ObjectDeleted)


async def test_many_objects_of_one_namespace_cost_three_folds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant has thousands; after three the others of the kind and namespace are not tried."""
    folds = 0
    real = Cluster.change_of

    def broken(self: Cluster, old: Pod | None, new: Pod | None) -> PodChanged:
        nonlocal folds
        if any(one is not None and one.key.startswith("tenant/") for one in (old, new)):
            folds += 1
            raise KeyError("a bug")
        return real(self, old, new)

    monkeypatch.setattr(Cluster, "change_of", broken)
    pods = ", ".join(
        f"{{kind: Pod, metadata: {{name: p{n}, namespace: tenant}}, spec: {{containers: [{{name: m}}]}}}}"
        for n in range(20)
    )
    log = MemoryLog()
    ended = await daemon(log, f"  - {{at: 2s, apply: [{pods}]}}\n")
    await assert_sound(log, ended)
    assert folds == 3
    shown = {one.subject for one in log.memory.records if one.kind == ObjectUnreadable.kind}
    assert len(shown) == 20


async def test_what_follows_from_a_record_that_is_left_out_is_left_out_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A binding of a pod that State does not know cannot be applied; the daemon starts all the same."""
    log = MemoryLog()
    pod = "{kind: Pod, metadata: {name: attack}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}"
    await daemon(log, apply("2s", pod))
    break_(monkeypatch, Cluster, "replace_pod", True)
    ended = await daemon(log)
    pods = {item.key: item.node for item in ended.state.cluster.pods.values()}
    assert pods == {"default/before": "n1", "default/after": "n1"}
    ended.state.validate()
    (await fold(log)).validate()
    await replay_log(log)  # It diverges: the pod that was decided about is not known here.


async def test_a_record_that_everything_else_needs_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cycle that cannot be opened is no fault of one object."""
    log = MemoryLog()
    await daemon(log)

    def broken(*_: object) -> None:
        raise AssertionError("time runs backwards")

    monkeypatch.setattr(state, "open_cycle", broken)
    with pytest.raises(AssertionError):
        await fold(log)


async def test_a_record_is_left_out_once() -> None:
    """What raises although it is left out ends the fold."""
    log = MemoryLog()
    await daemon(log)
    error = ApplyError(1, "Daemon//x", "a bug")

    async def never(_: object) -> None:
        raise error

    with pytest.raises(ApplyError):
        await folded(never)
