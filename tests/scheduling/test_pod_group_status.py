"""Status updates of PodGroups: phase, counts of pods, and the conditions Scheduled and Unschedulable."""

import msgspec
import pytest

from events.messages import (
    Accepted,
    Answer,
    ObjectSeen,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
    Request,
)
from events.normalize import JsonObject
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
LEAVES = {**GROUPED, "deletionTimestamp": "1970-01-01T00:01:00Z"}
NEEDS_TWO: JsonObject = {
    "schedulerName": "muster",
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
}
READY = ("Scheduled", "tasks in gang are ready to be scheduled", "")


class Member(msgspec.Struct):
    """A pod of the gang: its phase, whether it has a node, and whether it is being deleted."""

    phase: str = "Pending"
    is_placed: bool = False
    is_leaving: bool = False


def group(phase: str = "", least: int = 2, **status: object) -> bytes:
    """A PodGroup as it is shown."""
    return raw("PodGroup", "g", spec={"minMember": least}, status={"phase": phase, **status})


def member(name: str, one: Member, cards: int = 0) -> bytes:
    """A pod of the gang as it is shown."""
    metadata = LEAVES if one.is_leaving else GROUPED
    on = "n1" if one.is_placed else ""
    return pod(name, phase=one.phase, on=on, cards=cards, metadata=metadata)


def given(
    phase: str, *members: Member, least: int = 2, room: int = 4, cards: int = 0
) -> EngineHarness:
    """A gang, and a node."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=room))
    harness.show_all("PodGroup", group(phase, least))
    harness.show_all("Pod", *(member(f"p-{at}", one, cards) for at, one in enumerate(members)))
    harness.show_the_rest()
    return harness


def asked(harness: EngineHarness, kind: type[Request]) -> list[Request]:
    """What is to be asked, of one kind."""
    return [one for one in harness.engine.requests() if isinstance(one, kind)]


def answer(harness: EngineHarness, request: Request, reply: Reply) -> None:
    """The API server answers."""
    harness.engine.report([Answer(request, reply)], harness.now_ns)
    harness.state.validate()


def condition(harness: EngineHarness) -> tuple[str, str, str]:
    """Type, reason and message of what the group is to say."""
    [request] = asked(harness, PodGroupConditionRequest)
    assert isinstance(request, PodGroupConditionRequest)
    return request.type, request.reason, request.message


RUNS, WAITS = Member("Running", is_placed=True), Member()
ENDED, LOST = Member("Succeeded", is_placed=True), Member("Failed", is_placed=True)
LEAVING = Member("Running", is_placed=True, is_leaving=True)
STRAY = Member("Pending", is_leaving=True)


@pytest.mark.parametrize(
    ("before", "members", "after"),
    [
        ("Running", [RUNS, LEAVING], "Running"),
        ("Running", [LEAVING], "Pending"),
        ("Pending", [ENDED, ENDED], "Completed"),
        ("Pending", [STRAY, WAITS], "Pending"),
        ("Inqueue", [WAITS], "Inqueue"),
        ("Running", [ENDED, LOST], "Completed"),
    ],
)
def test_a_phase_follows_from_the_pods_as_the_examples_say(
    before: str, members: list[Member], after: str
) -> None:
    """The table and the examples of volcano A.2."""
    harness = given(before, *members)
    assert harness.state.cluster.groups["default/g"].decided.phase == after


def test_a_gang_that_runs_in_part_and_whose_rest_is_refused_is_unknown() -> None:
    """Volcano A.2: {Running, Pending} with the condition Unschedulable."""
    harness = given("Running", RUNS, WAITS, room=1)
    harness.cycle()
    [request] = asked(harness, PodGroupPhaseRequest)
    assert isinstance(request, PodGroupPhaseRequest)
    assert (request.phase, request.running) == ("Unknown", 1)
    assert condition(harness)[0] == "Unschedulable"


def test_a_gang_that_lost_a_pod_is_unknown_and_its_new_pod_is_placed_without_a_vote() -> None:
    harness = given("Running", RUNS, RUNS)
    harness.see(gone(member("p-0", RUNS)))
    here = harness.state.cluster.groups["default/g"]
    assert here.decided.phase == "Unknown"
    harness.see(ObjectSeen(member("p-2", WAITS)))
    assert here.decided.phase == "Unknown"
    harness.cycle()
    assert (here.decided.phase, here.is_ready) == ("Unknown", True), "until the binding is observed"
    harness.see(ObjectSeen(member("p-2", RUNS)))
    assert here.decided.phase == "Running"


def test_each_pod_group_phase_is_requested_once() -> None:
    harness = given("Pending", WAITS, WAITS)
    harness.cycle()
    [request] = asked(harness, PodGroupPhaseRequest)
    assert isinstance(request, PodGroupPhaseRequest)
    assert request.phase == "Inqueue"
    assert asked(harness, PodGroupPhaseRequest) == [request], (
        "it is asked again until it is answered"
    )
    answer(harness, request, Accepted())
    assert asked(harness, PodGroupPhaseRequest) == []
    harness.kinds()
    harness.see(ObjectSeen(group("Inqueue")))
    assert [one.cause for one in harness.records] == [request.decision]
    harness.cycle()
    assert harness.kinds() == ["object_observed PodGroup/default/g"]
    harness.see(ObjectSeen(member("p-0", RUNS)), ObjectSeen(member("p-1", RUNS)))
    [request] = asked(harness, PodGroupPhaseRequest)
    assert isinstance(request, PodGroupPhaseRequest)
    assert (request.phase, request.running) == ("Running", 2)


def test_a_pod_group_with_its_phase_gets_running_and_succeeded_counts() -> None:
    harness = given("Running", RUNS, RUNS)
    [request] = asked(harness, PodGroupCountsRequest)
    assert isinstance(request, PodGroupCountsRequest)
    assert (request.running, request.succeeded, request.failed) == (2, 0, 0)
    assert asked(harness, PodGroupPhaseRequest) == []
    answer(harness, request, Accepted())
    assert asked(harness, PodGroupCountsRequest) == []
    harness.see(ObjectSeen(group("Running", running=2)))
    assert asked(harness, PodGroupCountsRequest) == []
    harness.see(ObjectSeen(member("p-0", ENDED)))
    [request] = asked(harness, PodGroupCountsRequest)
    assert isinstance(request, PodGroupCountsRequest)
    assert (request.running, request.succeeded) == (1, 1)


def test_a_rejected_phase_is_not_requested_again_but_the_next_one_is() -> None:
    harness = given("Pending", WAITS, WAITS)
    harness.cycle()
    [request] = asked(harness, PodGroupPhaseRequest)
    answer(harness, request, OutcomeUnknown("no answer"))
    assert asked(harness, PodGroupPhaseRequest) == [request], "the outcome of the update is unknown"
    answer(harness, request, Rejected("Invalid", "no"))
    assert asked(harness, PodGroupPhaseRequest) == []
    harness.see(ObjectSeen(member("p-0", RUNS)), ObjectSeen(member("p-1", RUNS)))
    assert len(asked(harness, PodGroupPhaseRequest)) == 1


def test_a_phase_written_by_another_client_is_written_again_three_times() -> None:
    harness = given("Running", RUNS, RUNS)
    harness.see(ObjectSeen(group("Running", running=2)))
    [*counts] = asked(harness, PodGroupCountsRequest)
    assert counts == []
    harness.see(ObjectSeen(group("Running", running=2)))
    harness.see(ObjectSeen(member("p-0", ENDED)))
    [request] = asked(harness, PodGroupCountsRequest)
    answer(harness, request, Accepted())
    for _ in range(3):
        harness.see(ObjectSeen(group("Running", running=1, succeeded=1)))
        harness.see(ObjectSeen(group("Pending", running=1, succeeded=1)))
        [again] = asked(harness, PodGroupPhaseRequest)
        assert isinstance(again, PodGroupPhaseRequest)
        assert again.phase == "Running"
        answer(harness, again, Accepted())
    assert [one for one in harness.state.cluster.config_errors.current if "PodGroup/" in one] == []
    harness.see(ObjectSeen(group("Running", running=1, succeeded=1)))
    harness.see(ObjectSeen(group("Pending", running=1, succeeded=1)))
    assert asked(harness, PodGroupPhaseRequest) == []
    [(code, _)] = harness.state.cluster.config_errors.current["PodGroup/default/g"]
    assert code == "StatusOverwritten"


def test_a_gang_without_room_says_how_many_are_missing_in_the_words_of_volcano() -> None:
    """The message of B.14: three pods, of which two would find a node."""
    harness = given("Pending", WAITS, WAITS, WAITS, least=3, room=2, cards=1)
    harness.cycle()
    assert condition(harness) == (
        "Unschedulable",
        "NotEnoughResources",
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable;"
        " Pending: 1 Unschedulable, 2 Schedulable. Origin reason is p-2: 0/1 nodes are unavailable:"
        " 1 Insufficient cpu, 1 Insufficient example.com/card.",
    )


def test_pods_of_a_gang_say_which_of_them_has_no_node() -> None:
    """#3976: also a pod that could go is Unschedulable, and says that it could."""
    harness = given("Pending", WAITS, WAITS, WAITS, least=3, room=2)
    harness.cycle()
    texts = {}
    for request in asked(harness, PodConditionRequest):
        assert isinstance(request, PodConditionRequest)
        assert request.reason == "Unschedulable"
        texts[request.name] = request.message
    assert texts["p-2"] == "0/1 nodes are unavailable: 1 Insufficient cpu."
    for name in ("p-0", "p-1"):
        assert texts[name].startswith(
            "a node is available for the pod once its gang is complete: 1/3 tasks"
        )


def test_a_single_pod_without_room_says_so_on_its_group_in_the_same_words() -> None:
    harness = given("Pending", WAITS, least=1, room=0)
    harness.cycle()
    assert condition(harness)[2] == (
        "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable;"
        " Pending: 1 Unschedulable. Origin reason is p-0: 0/1 nodes are unavailable:"
        " 1 Insufficient cpu."
    )


def test_a_gang_with_too_few_pods_says_that_tasks_are_missing() -> None:
    harness = given("Pending", WAITS)
    harness.cycle()
    assert condition(harness)[:2] == ("Unschedulable", "NotEnoughTasks")


def test_a_whole_gang_is_scheduled_and_stays_so_when_a_pod_beyond_it_waits() -> None:
    """#4971: an elastic group that runs is not reported as not ready."""
    harness = given("Running", RUNS, RUNS, WAITS, room=2)
    harness.cycle()
    assert condition(harness) == READY
    [request] = asked(harness, PodGroupConditionRequest)
    answer(harness, request, Accepted())
    assert asked(harness, PodGroupConditionRequest) == []
    [waits] = asked(harness, PodConditionRequest)
    assert isinstance(waits, PodConditionRequest)
    assert waits.name == "p-2"


def test_a_pod_group_with_the_scheduled_condition_gets_no_request() -> None:
    harness = EngineHarness(updates_status=True)
    said: JsonObject = {"type": "Scheduled", "status": "True", "reason": READY[1]}
    harness.show_all("PodGroup", group("Running", conditions=[said]))
    harness.show_all("Pod", member("p-0", RUNS), member("p-1", RUNS))
    harness.show_the_rest()
    assert asked(harness, PodGroupConditionRequest) == []


def test_a_gang_that_loses_a_pod_for_which_there_is_no_room_is_unschedulable_again() -> None:
    harness = given("Running", RUNS, RUNS, room=2)
    [request] = asked(harness, PodGroupConditionRequest)
    answer(harness, request, Accepted())
    harness.see(
        gone(member("p-0", RUNS)), ObjectSeen(node("n1", cpu=1)), ObjectSeen(member("p-2", WAITS))
    )
    harness.cycle()
    assert condition(harness)[0] == "Unschedulable"


def test_a_quota_refuses_a_group_without_pods_and_its_condition_says_the_numbers() -> None:
    """The words of the Event stay on the object when the Event has expired."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=8, labels={"example.com/card.product": "NVIDIA-H200"}))
    quota = {"annotations": {"volcano.sh/card.quota": '{"NVIDIA-H200": 3}'}}
    harness.show_all("Queue", raw("Queue", "cr-queue1", metadata=quota, spec={}))
    wants = {"annotations": {"volcano.sh/card.request": '{"NVIDIA-H200": 5}'}}
    spec = {"minMember": 5, "queue": "cr-queue1", "minResources": {"cpu": "1"}}
    harness.show_all("PodGroup", raw("PodGroup", "g", metadata=wants, spec=spec))
    harness.show_the_rest()
    harness.cycle()
    assert condition(harness) == (
        "Unschedulable",
        "NotEnoughResources",
        "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: requested <5000>,"
        " total would be <5000>, but capability is <3000>",
    )


def test_a_nominated_pod_reports_its_node() -> None:
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("PodGroup", group("Inqueue", 1))
    other = raw("PodGroup", "other", spec={"minMember": 1}, status={"phase": "Running"})
    harness.see(ObjectSeen(other))
    leaving = {
        "annotations": {"scheduling.k8s.io/group-name": "other"},
        "deletionTimestamp": "1970-01-01T00:01:00Z",
    }
    harness.show_all(
        "Pod", pod("o", phase="Running", on="n1", metadata=leaving), member("p-0", WAITS)
    )
    harness.show_the_rest()
    harness.cycle()
    [request] = asked(harness, PodConditionRequest)
    assert isinstance(request, PodConditionRequest)
    assert request.message == "nominated for node n1, where pods are terminating"
    assert request.nominated_node == "", "no pod was evicted for it"
    assert condition(harness)[0] == "Unschedulable"


def test_queue_allocated_has_resources_and_card_models() -> None:
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=8, labels={"example.com/card.product": "H200"}))
    quota = {"annotations": {"volcano.sh/card.quota": '{"H200": 3}'}}
    harness.show_all("Queue", raw("Queue", "default", metadata=quota, spec={}))
    named = {"annotations": {"volcano.sh/card.name": "H200"}}
    harness.show_all("Pod", pod("a", cards=2, metadata=named))
    harness.show_the_rest()
    harness.cycle()
    [request] = asked(harness, QueueStatusRequest)
    assert isinstance(request, QueueStatusRequest)
    assert request.allocated == {
        "H200": "2", "cpu": "1", "example.com/card": "2", "memory": "0", "pods": "1"
    }  # fmt: skip


def test_a_gang_below_its_minimum_with_no_pod_that_waits_says_unschedulable() -> None:
    """B.14: skipped only where as many are scheduled as the gang needs."""
    harness = given("Running", RUNS, RUNS, RUNS, least=3)
    assert condition(harness) == READY
    answer(harness, asked(harness, PodGroupConditionRequest)[0], Accepted())
    harness.see(gone(member("p-0", RUNS)))
    text = "1/2 tasks in gang unschedulable: pod group is not ready, 2 Running, 3 minAvailable."
    assert condition(harness) == ("Unschedulable", "NotEnoughResources", text)
    answer(harness, asked(harness, PodGroupConditionRequest)[0], Accepted())
    assert asked(harness, PodGroupConditionRequest) == [], "it is updated once"
    harness.see(gone(member("p-1", RUNS)))
    text = "2/1 tasks in gang unschedulable: pod group is not ready, 1 Running, 3 minAvailable."
    assert condition(harness)[2] == text
    harness.see(ObjectSeen(member("p-3", RUNS)), ObjectSeen(member("p-4", RUNS)))
    assert condition(harness) == READY


def test_a_gang_that_a_leaving_pod_still_completes_is_not_broken() -> None:
    harness = given("Running", RUNS, RUNS)
    answer(harness, asked(harness, PodGroupConditionRequest)[0], Accepted())
    harness.see(ObjectSeen(member("p-0", LEAVING)))
    assert asked(harness, PodGroupConditionRequest) == []


@pytest.mark.parametrize(
    ("node_name", "message", "is_cleared"),
    [
        ("n1", "nominated for node n1, where pods are terminating", True),
        ("n1", "nominated for node n2, where pods are terminating", False),
        ("n1", "0/1 nodes are unavailable", False),
        ("", "nominated for node n1, where pods are terminating", False),
    ],
)
def test_a_refusal_takes_back_the_nomination_that_muster_wrote(
    node_name: str, message: str, is_cleared: bool
) -> None:
    """K7.3: also after a restart; an autoscaler takes a pod with a stale nomination as placed for good."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=1))
    told = {"type": "PodScheduled", "status": "False", "message": message}
    status = {"phase": "Pending", "nominatedNodeName": node_name, "conditions": [told]}
    harness.show_all("Pod", raw("Pod", "p", spec=NEEDS_TWO, status=status))
    harness.show_the_rest()
    harness.cycle()
    [request] = asked(harness, PodConditionRequest)
    assert isinstance(request, PodConditionRequest)
    assert (request.reason, request.nominated_node) == ("Unschedulable", "")
    assert request.clears_nomination is is_cleared


def test_a_gang_that_a_leaving_pod_still_fills_is_not_unschedulable_while_its_replacement_waits() -> (
    None
):
    """The replacement of a terminating pod finds no room before that pod is gone."""
    harness = given("Running", RUNS, RUNS, room=2)
    answer(harness, asked(harness, PodGroupConditionRequest)[0], Accepted())
    harness.see(ObjectSeen(member("p-0", LEAVING)), ObjectSeen(member("p-2", WAITS)))
    harness.cycle()
    assert asked(harness, PodGroupConditionRequest) == []
    assert harness.state.cluster.groups["default/g"].decided.phase == "Running"
    harness.see(ObjectSeen(node("n1", cpu=1)), gone(member("p-0", LEAVING)))
    harness.cycle()
    assert condition(harness)[0] == "Unschedulable"
    assert harness.state.cluster.groups["default/g"].decided.phase == "Unknown"


def test_a_new_group_that_is_refused_is_pending() -> None:
    harness = EngineHarness(updates_status=True)
    closed = raw("Queue", "q", spec={}, status={"state": "Closed"})
    harness.show_all("Queue", closed)
    spec = {"minMember": 1, "queue": "q", "minResources": {"cpu": "1"}}
    harness.show_all("PodGroup", raw("PodGroup", "g", spec=spec))
    harness.show_the_rest()
    assert asked(harness, PodGroupPhaseRequest) == [], "the next cycle may admit it"
    harness.cycle()
    [request] = asked(harness, PodGroupPhaseRequest)
    assert isinstance(request, PodGroupPhaseRequest)
    assert (request.phase, request.ends_refusal) == ("Pending", False)
    answer(harness, request, Accepted())
    assert asked(harness, PodGroupPhaseRequest) == []


def test_a_refusal_ends_with_the_admission() -> None:
    """Volcano's job controller makes a Warning Event of a condition that still says why the group was refused."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Queue", raw("Queue", "q", spec={}, status={"state": "Closed"}))
    spec = {"minMember": 1, "queue": "q", "minResources": {"cpu": "1"}}
    harness.show_all("PodGroup", raw("PodGroup", "g", spec=spec, status={"phase": "Pending"}))
    harness.show_the_rest()
    harness.cycle()
    assert condition(harness)[0] == "Unschedulable"
    harness.see(ObjectSeen(raw("Queue", "q", spec={}, status={"state": "Open"})))
    harness.cycle()
    [request] = asked(harness, PodGroupPhaseRequest)
    assert isinstance(request, PodGroupPhaseRequest)
    assert (request.phase, request.ends_refusal) == ("Inqueue", True)


def test_an_admitted_group_that_is_refused_again_keeps_the_new_refusal() -> None:
    harness = given("Pending", WAITS, least=1, room=0)
    harness.cycle()
    [request] = asked(harness, PodGroupPhaseRequest)
    assert isinstance(request, PodGroupPhaseRequest)
    assert (request.phase, request.ends_refusal) == ("Inqueue", False)
