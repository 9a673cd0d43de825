"""An exception out of the evaluation of one pod group, or of one object: all others are served."""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from msgspec import Raw

from engine import outcomes, pending_requests
from engine.batch import Batch
from engine.engine import Engine
from events.codec import event_of
from events.daemon import PolicyChanged
from events.decision import INTERNAL_ERROR
from events.decisions.action_failed import ActionFailed
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import Accepted, Answer, ObjectSeen
from events.normalize import JsonObject
from features.table import FEATURES
from projections.internal_error import InternalError
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.snapshot import restore, take
from projections.state import State
from projections.suspensions import RETRY_MAX_NS, RETRY_NS
from projections.views import now
from projections.views.project import Views
from replay.log_replay import Replay
from scheduling import hyper_node_placement
from scheduling.actions import allocate, backfill, enqueue
from scheduling.group_trial import GroupTrial
from scheduling.quota import queue_order
from scheduling.requeue import RequeueCheck, is_cycle_due
from scheduling.single_pods import SinglePods
from scheduling.victims import preempt_reclaim
from tests.properties.witness import same
from tests.scheduling.builders import SECOND, EngineHarness, node, pod, raw

BAD, GOOD = "default/bad", "default/podgroup-uid-good"


def grouped(name: str, group: str = "bad", **spec: object) -> bytes:
    """A pod of a PodGroup."""
    annotations = {"scheduling.k8s.io/group-name": group}
    return pod(name, metadata={"annotations": annotations}, spec=spec)


def pod_group(name: str = "bad", least: int = 2, **spec: object) -> bytes:
    """A PodGroup."""
    return raw("PodGroup", name, spec={"minMember": least, **spec})


class Broken(EngineHarness):
    """A step whose errors are kept, and a replay that follows it record by record."""

    def __init__(self, policy: dict[str, object] | None = None) -> None:
        self.replay = Replay()
        self.contents: dict[str, bytes] = {}
        self.errors: list[InternalError] = []
        super().__init__(policy=policy)

    def start(
        self, policy: dict[str, object] | None = None, pod_labels: tuple[str, ...] = ()
    ) -> None:
        self.engine = Engine(self.engine.state, self.engine.head, on_error=self.errors.append)
        super().start(policy, pod_labels)

    def begin(self, *pods: bytes, groups: tuple[bytes, ...] = (), nodes: int = 3) -> None:
        """Show nodes of four cpus, pod groups and pods; and hold a cycle."""
        self.show_all("Node", *(node(f"n{number}") for number in range(nodes)))
        self.show_all("Queue")
        self.show_all("PodGroup", *groups)
        self.show_all("Pod", *pods)
        self.show_the_rest()
        self.cycle()

    def said(self) -> list[tuple[str, str]]:
        """Of each decision since this was last asked the group, and its code or that it was bound."""
        records, self.records = self.records, []
        found = []
        for event in map(event_of, records):
            if isinstance(event, PodGroupUnschedulable):
                found.append((event.pod_group, event.code))
            elif isinstance(event, GangBindDecided):
                found.append((event.pod_group, "bound"))
            elif isinstance(event, ActionFailed):
                found.append((event.action, event.message))
        return found

    def keep(self, batch: Batch | None) -> None:
        """Take in a batch that a test asked of the step itself."""
        self._keep(batch)

    def _keep(self, batch: Batch | None) -> None:
        super()._keep(batch)
        if batch is None:
            return
        self.contents.update((one.digest, one.content) for one in batch.objects)
        for record in batch.records:
            content = None if record.object is None else self.contents[record.object]
            divergence = self.replay.take(record, content)
            assert divergence is None, divergence
        assert self.replay.finish() is None
        self.replay.state.validate()
        same(self.replay.state, restore(take(self.state), FEATURES))


def raising(monkeypatch: pytest.MonkeyPatch, module: object, name: str, key: str = BAD) -> None:
    """Let a production function raise when it is asked about the pod group of this key."""
    real: Callable[..., object] = getattr(module, name)

    def bug(*args: object, **named: object) -> object:
        for one in args:
            found = one.head if hasattr(one, "head") else getattr(one, "group", one)
            if isinstance(found, PodGroup) and found.key == key:
                raise KeyError("x" * 100_000)
        return real(*args, **named)

    monkeypatch.setattr(module, name, bug)


def test_others_are_bound_in_the_same_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, allocate, "place_gang")
    harness = Broken()
    harness.begin(grouped("b0"), grouped("b1"), pod("good"), groups=(pod_group(),))
    assert sorted(harness.said()) == [(BAD, INTERNAL_ERROR), (GOOD, "bound")]
    [error] = harness.errors
    assert (error.subject, error.activity) == (f"PodGroup/{BAD}", "allocate")
    refusal = harness.state.cluster.groups[BAD].decided.refusals["allocate"]
    assert refusal.message == (
        "internal error of muster in allocate: KeyError in scheduling.actions.allocate._place"
    )


def test_what_was_tried_is_given_back_when_the_trial_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = GroupTrial.place

    def bug(
        self: GroupTrial, one: Pod, there: Node, devices: tuple[str, ...], **named: bool
    ) -> None:
        real(self, one, there, devices, **named)
        if self.group.key == BAD and self.count == 2:
            raise ZeroDivisionError

    monkeypatch.setattr(GroupTrial, "place", bug)
    harness = Broken()
    pods = [grouped("b0"), grouped("b1"), grouped("b2"), *(pod(f"good{n}") for n in range(9))]
    harness.begin(*pods, groups=(pod_group(least=3),))
    said = harness.said()
    assert (BAD, INTERNAL_ERROR) in said
    assert [code for _, code in said].count("bound") == 9


def test_a_best_effort_trial_that_raises_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, backfill, "best_effort_pods")
    real: Callable[..., Iterator[object]] = hyper_node_placement.best_effort_scopes

    def bug(*args: object) -> Iterator[object]:
        yield from real(*args)
        raise ZeroDivisionError

    monkeypatch.setattr(backfill, "best_effort_scopes", bug)
    harness = Broken()
    free: JsonObject = {"containers": [{"name": "main"}]}
    harness.begin(
        grouped("b0", containers=[{"name": "main"}]),
        pod("g", spec=free),
        groups=(pod_group(least=1),),
    )
    harness.state.validate()
    assert (BAD, INTERNAL_ERROR) in harness.said()


@pytest.mark.parametrize("action", ["enqueue", "preempt"])
def test_every_action_holds_an_error_to_its_group(
    monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    policy: dict[str, object] = {
        "actions": "enqueue, allocate, preempt",
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}],
    }
    if action == "enqueue":
        raising(monkeypatch, enqueue, "precheck")
    else:
        raising(monkeypatch, preempt_reclaim, "precheck")
    harness = Broken(policy)
    harness.begin(
        *(grouped(f"b{n}") for n in range(9)), pod("good"), groups=(pod_group(least=9),), nodes=2
    )
    said = harness.said()
    assert (GOOD, "bound") in said
    assert (BAD, INTERNAL_ERROR) in said
    harness.cycle()
    assert harness.said() == []
    # What is refused by `preempt` alone is still tried by `allocate`.
    harness.see(ObjectSeen(node("n8", cpu=9)))
    harness.cycle()
    assert (BAD, "bound") in harness.said() or action == "enqueue"


def test_it_is_tried_again_after_a_time_that_doubles_and_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raising(monkeypatch, allocate, "place_gang")
    harness = Broken()
    harness.begin(grouped("b0"), grouped("b1"), groups=(pod_group(),))
    assert harness.said() == [(BAD, INTERNAL_ERROR)]
    tried_after = []
    for _ in range(7):
        since = harness.state.now_ns
        harness.cycle(seconds=1)
        assert harness.said() == []
        deadline = harness.state.next_deadline_ns
        assert deadline is not None
        assert not is_cycle_due(harness.state, deadline - 1)
        harness.cycle(seconds=(deadline - harness.now_ns) // SECOND)
        assert harness.said() == [(BAD, INTERNAL_ERROR)]
        tried_after.append(harness.state.now_ns - since)
    most = RETRY_MAX_NS
    assert tried_after == [min(most, RETRY_NS << number) for number in range(7)]
    monkeypatch.undo()
    harness.cycle(seconds=most // SECOND)
    assert harness.said() == [(BAD, "bound")]
    assert harness.state.cluster.internal_errors.groups == {}


@pytest.mark.parametrize("change", ["pod", "group", "policy"])
def test_it_is_tried_again_when_it_changes(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    raising(monkeypatch, allocate, "place_gang")
    raising(monkeypatch, SinglePods, "placement")
    harness = Broken()
    harness.begin(grouped("b0"), grouped("b1"), groups=(pod_group(),))
    harness.said()
    harness.see(ObjectSeen(node("n9")))
    harness.cycle()
    assert harness.said() == []
    if change == "pod":
        harness.see(ObjectSeen(grouped("b2")))
    elif change == "group":
        harness.see(ObjectSeen(pod_group(least=1)))
    else:
        policy = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}
        changed = PolicyChanged(source="test", policy=Raw(msgspec.json.encode(policy)))
        harness.keep(harness.engine.change_policy(changed, harness.now_ns))
    harness.cycle()
    assert harness.said() == [(BAD, INTERNAL_ERROR)]
    assert harness.state.cluster.internal_errors.groups[BAD]["allocate"].count == 2


def test_a_restart_from_a_snapshot_waits_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, allocate, "place_gang")
    harness = Broken()
    harness.begin(grouped("b0"), grouped("b1"), groups=(pod_group(),))
    state = restore(take(harness.state), FEATURES)
    assert state.cluster.internal_errors.groups == harness.state.cluster.internal_errors.groups
    assert state.next_deadline_ns == harness.state.next_deadline_ns
    assert not is_cycle_due(state, harness.now_ns + SECOND)
    state.validate()


def test_a_release_in_which_it_is_mended_reports_another_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raising(monkeypatch, allocate, "place_gang")
    harness = Broken()
    harness.begin(grouped("b0"), grouped("b1"), groups=(pod_group(),))
    monkeypatch.undo()
    replay = Replay()
    found = [replay.take(one, harness.contents.get(one.object or "")) for one in harness.records]
    parted = [one for one in found if one is not None]
    assert [one.what for one in parted[:1]] == ["another decision"]


def test_an_error_in_the_order_of_queues_costs_the_order_and_not_the_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bug(*_args: object) -> object:
        raise IndexError

    monkeypatch.setattr(queue_order, "quota_of", bug)
    harness = Broken()
    harness.begin(pod("good"), pod("other"))
    said = harness.said()
    assert [code for _, code in said].count("bound") == 2
    assert [(key, text) for key, text in said if key == "allocate"] == [
        (
            "allocate",
            "internal error of muster in allocate: IndexError in scheduling.quota.queue_order.ordering_rules",
        )
    ]
    harness.see(ObjectSeen(pod("third")))
    harness.cycle()
    assert harness.said() == [("default/podgroup-uid-third", "bound")]


def test_an_action_that_raises_is_looked_at_again_and_others_are_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bug(*_args: object) -> object:
        raise IndexError

    with monkeypatch.context() as patch:
        patch.setattr(allocate, "iterate_queues", bug)
        harness = Broken()
        free: JsonObject = {"containers": [{"name": "main"}]}
        harness.begin(pod("good"), pod("free", spec=free))
        said = harness.said()
        assert said[0][0] == "allocate"
        assert said[1:] == [("default/podgroup-uid-free", "bound")]
        harness.cycle()
        assert harness.said() == []
    deadline = harness.state.next_deadline_ns
    assert deadline is not None
    harness.cycle(seconds=(deadline - harness.now_ns) // SECOND)
    assert harness.said() == [(GOOD, "bound")]


def test_what_raises_when_it_is_asked_whether_it_could_change_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raising(monkeypatch, RequeueCheck, "_happened")
    harness = Broken()
    harness.begin(*(grouped(f"b{n}") for n in range(9)), groups=(pod_group(least=9),), nodes=2)
    assert harness.said() == [(BAD, "NotEnoughResources")]

    def bug(*_args: object) -> object:
        raise IndexError

    monkeypatch.setattr(RequeueCheck, "_has_room_on_freed_nodes", bug)
    harness.see(ObjectSeen(node("n8", cpu=9)))
    harness.cycle()
    assert harness.said() == [(BAD, "bound")]


def test_a_decision_that_cannot_be_applied_still_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Broken()

    def bug(*_args: object) -> object:
        raise AssertionError("kept 1, counted 2")

    monkeypatch.setattr(State, "apply", bug)
    with pytest.raises(AssertionError, match="counted 2"):
        harness.begin(pod("good"))


def test_a_trial_that_is_not_undone_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    real, leave = GroupTrial.place, GroupTrial.__exit__

    def bug(
        self: GroupTrial, one: Pod, there: Node, devices: tuple[str, ...], **named: bool
    ) -> None:
        real(self, one, there, devices, **named)
        raise ZeroDivisionError

    def leave_a_rest(self: GroupTrial, *raised: object) -> None:
        leave(self, *raised)
        self.cluster.nodes.shift(self.now[0].node, "occupied", (("cpu", 1),), 1)

    monkeypatch.setattr(GroupTrial, "place", bug)
    monkeypatch.setattr(GroupTrial, "__exit__", leave_a_rest)
    harness = Broken()
    with pytest.raises(AssertionError, match="occupied"):
        harness.begin(grouped("b0"), grouped("b1"), groups=(pod_group(),))


def test_why_says_that_it_is_an_error_of_ours_and_when_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raising(monkeypatch, allocate, "place_gang")
    harness = Broken()
    harness.begin(grouped("b0"), grouped("b1"), groups=(pod_group(),))
    answer = harness.engine.decider.explain(harness.state.cluster.groups[BAD]).waiting
    assert answer is not None
    assert answer.code == INTERNAL_ERROR
    assert "tried again when the group changes, or 5m" in answer.hurdles[-1].text


def test_what_to_ask_of_others_is_asked_when_one_object_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Broken()
    harness.engine.updates_status = True
    harness.begin(
        *(grouped(f"b{n}") for n in range(9)),
        *(grouped(f"o{n}", "other") for n in range(9)),
        groups=(pod_group(least=9), pod_group("other", least=9)),
        nodes=1,
    )

    def subjects() -> set[str]:
        return {one.name for one in harness.engine.requests()}

    with monkeypatch.context() as patch:
        raising(patch, pending_requests, "condition_updates")
        assert "other" in subjects()
    assert [one.subject for one in harness.errors] == [f"PodGroup/{BAD}"]
    with monkeypatch.context() as patch:
        raising(patch, pending_requests, "_phase")
        assert "other" in subjects()


def test_the_answers_of_others_are_recorded_when_one_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Broken()
    harness.begin(pod("good"), pod("bad"))
    asked = [one for one in harness.engine.requests() if one.name in ("good", "bad")]
    real = outcomes.outcome_of

    def bug(answer: Answer) -> object:
        if answer.request.name == "bad":
            raise IndexError
        return real(answer)

    monkeypatch.setattr("engine.engine.outcome_of", bug)
    harness.records = []
    harness.keep(
        harness.engine.report([Answer(one, Accepted(), 1, 1) for one in asked], harness.now_ns)
    )
    assert harness.kinds() == ["pod_bound Pod/default/good"]
    assert [one.activity for one in harness.errors] == ["report"]


def test_the_rows_of_others_are_made_when_one_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[InternalError] = []
    harness = Broken()
    views = Views(harness.state, errors.append)
    harness.begin(grouped("b0"), pod("good"), groups=(pod_group(),))
    real = now.group_rows

    def bug(cluster: object, key: str) -> object:
        if key == BAD:
            raise IndexError
        return real(cluster, key)  # type: ignore[arg-type]

    monkeypatch.setattr(now, "group_rows", bug)
    harness.state.cluster.changed_rows.groups[BAD] = harness.state.cluster.changed_rows.groups[
        GOOD
    ] = None
    changes = views.rows(harness.state.position, 0)
    assert [row[0] for row in changes["pod_group"].opened] == [GOOD]
    assert [one.subject for one in errors] == [f"pod_group//{BAD}"]
