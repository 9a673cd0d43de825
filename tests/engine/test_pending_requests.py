"""What is asked of the API server: all that was decided, and what objects do not know yet."""

from engine.pending_requests import is_moot
from events.messages import (
    Accepted,
    Answer,
    BindRequest,
    ObjectSeen,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Request,
)
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw


def requests(harness: EngineHarness, kind: type[Request]) -> list[Request]:
    """What is to be asked, of one kind."""
    return [one for one in harness.engine.requests() if isinstance(one, kind)]


def answered(
    harness: EngineHarness, request: Request, reply: Accepted | Rejected | OutcomeUnknown
) -> None:
    """The API server answers."""
    harness.engine.report([Answer(request, reply)], harness.now_ns)
    harness.state.validate()


def waiting(*, updates_status: bool = True) -> EngineHarness:
    """A pod for which there is no room."""
    harness = EngineHarness(updates_status=updates_status)
    harness.show_all("Node", node("n1", cpu=4))
    harness.show_all("Pod", pod("a", cards=9))
    harness.show_the_rest()
    harness.cycle()
    return harness


def test_a_bind_request_has_the_pod_uid_and_the_decision_annotation() -> None:
    """K8.1, K8.4"""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    harness.cycle()
    [request] = requests(harness, BindRequest)
    assert isinstance(request, BindRequest)
    assert (request.uid, request.node) == ("uid-a", "n1")
    assert request.annotations == {"muster.sh/decision": str(request.decision)}
    answered(harness, request, Accepted())
    assert requests(harness, BindRequest) == []


def test_a_binding_under_way_is_left_out_until_it_is_answered_or_decided_again() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("a"), pod("b"))
    harness.show_the_rest()
    harness.cycle()
    first, second = requests(harness, BindRequest)
    assert isinstance(first, BindRequest)
    under_way = {first.uid: first.decision}
    assert list(harness.engine.requests(under_way)) == [second]
    assert list(harness.engine.requests({first.uid: first.decision - 1})) == [first, second]
    answered(harness, first, OutcomeUnknown("the answer was lost"))
    again, _ = requests(harness, BindRequest)
    assert isinstance(again, BindRequest)
    assert again.is_in_doubt


def test_a_pending_pod_gets_one_condition_request() -> None:
    """K7.7: only when it changed."""
    harness = waiting()
    [request] = requests(harness, PodConditionRequest)
    assert isinstance(request, PodConditionRequest)
    assert request.reason == "Unschedulable"
    assert "0/1 nodes are unavailable: 1 Insufficient example.com/card" in request.message
    answered(harness, request, Accepted())
    assert requests(harness, PodConditionRequest) == []
    harness.cycle()
    assert requests(harness, PodConditionRequest) == []


def test_a_pod_with_the_current_condition_gets_no_request() -> None:
    harness = waiting()
    [request] = requests(harness, PodConditionRequest)
    assert isinstance(request, PodConditionRequest)
    condition = {"type": "PodScheduled", "status": "False", "message": request.message}
    harness.see(ObjectSeen(pod("a", cards=9, status={"conditions": [condition]})))
    assert requests(harness, PodConditionRequest) == []


def test_a_pod_condition_causes_no_decision() -> None:
    harness = waiting()
    harness.kinds()
    condition = {"type": "PodScheduled", "status": "False", "message": "something"}
    harness.see(ObjectSeen(pod("a", cards=9, status={"conditions": [condition]})))
    harness.cycle()
    assert harness.kinds() == ["object_observed Pod/default/a"]


def test_a_pod_that_joins_an_unschedulable_pod_group_gets_a_condition_request() -> None:
    harness = waiting()
    [request] = requests(harness, PodConditionRequest)
    answered(harness, request, Accepted())
    owner = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    harness.see(ObjectSeen(pod("b", cards=9, metadata={"ownerReferences": owner})))
    harness.cycle()
    harness.see(ObjectSeen(pod("c", cards=9, metadata={"ownerReferences": owner})))
    harness.cycle()
    names = [
        one.name
        for one in requests(harness, PodConditionRequest)
        if not isinstance(one, BindRequest)
    ]
    assert names == ["b", "c"]


def test_a_status_that_is_refused_is_not_tried_for_ever() -> None:
    harness = waiting()
    [request] = requests(harness, PodConditionRequest)
    answered(harness, request, OutcomeUnknown("no answer"))
    assert requests(harness, PodConditionRequest) == [request], (
        "the outcome of the update is unknown"
    )
    answered(harness, request, Rejected("NotFound", "gone"))
    assert requests(harness, PodConditionRequest) == []


def test_no_status_requests_when_status_updates_are_disabled() -> None:
    harness = waiting(updates_status=False)
    assert list(harness.engine.requests()) == []


def test_an_unschedulable_pod_group_gets_one_condition_request() -> None:
    """Volcano B.14: condition Unschedulable with the reason NotEnoughResources."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1"))
    harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 1}))
    grouped = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    harness.show_all("Pod", pod("a", cards=9, metadata=grouped))
    harness.show_the_rest()
    harness.cycle()
    [phase] = requests(harness, PodGroupPhaseRequest)
    assert isinstance(phase, PodGroupPhaseRequest)
    assert phase.phase == "Inqueue"
    [request] = requests(harness, PodGroupConditionRequest)
    assert isinstance(request, PodGroupConditionRequest)
    assert (request.type, request.reason) == ("Unschedulable", "NotEnoughResources")
    answered(harness, request, Accepted())
    assert requests(harness, PodGroupConditionRequest) == []


def test_a_phase_follows_at_once_when_the_counts_of_its_group_were_updated() -> None:
    """Both write the counts, so that one waits for the other; other groups' phases are asked for with the next cycle."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1"))
    harness.show_all("PodGroup", *(raw("PodGroup", name, spec={"minMember": 1}) for name in "gh"))
    harness.show_the_rest()
    harness.cycle()
    assert len(requests(harness, PodGroupPhaseRequest)) == 2
    counts = PodGroupCountsRequest(0, "default", "g", "uid-g", 1, 0, 0)
    follow_ups = list(harness.engine.follow_up_requests([Answer(counts, Accepted())]))
    assert [(type(one), one.name) for one in follow_ups] == [(PodGroupPhaseRequest, "g")]


def test_queue_allocated_is_requested_until_the_status_shows_it() -> None:
    """Volcano A.1, B.14: only if it changed; cpu and memory are always named."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1"))
    harness.show_all("Queue", raw("Queue", "q", spec={}))
    queued = {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    harness.show_all("Pod", pod("a", metadata=queued))
    harness.show_the_rest()
    [before] = requests(harness, QueueStatusRequest)
    assert isinstance(before, QueueStatusRequest)
    assert before.allocated == {"cpu": "0", "memory": "0"}
    harness.cycle()
    [request] = requests(harness, QueueStatusRequest)
    assert isinstance(request, QueueStatusRequest)
    assert request.allocated == {"cpu": "1", "memory": "0", "pods": "1"}
    harness.kinds()
    status = {"allocated": {"cpu": "1000m", "memory": "0", "pods": "1"}}
    harness.see(ObjectSeen(raw("Queue", "q", spec={}, status=status)))
    assert requests(harness, QueueStatusRequest) == [], "a thousand milli-cores are one"
    harness.cycle()
    assert harness.kinds() == ["object_observed Queue//q"], "our own words are no news"


def test_allocated_of_a_parent_queue_includes_its_children() -> None:
    """Volcano A.1: ancestors included."""
    capacity = {"name": "capacity", "enableHierarchy": True}
    harness = EngineHarness(
        updates_status=True, policy={"actions": "allocate", "tiers": [{"plugins": [capacity]}]}
    )
    harness.show_all("Node", node("n1"))
    harness.show_all(
        "Queue", raw("Queue", "eng", spec={}), raw("Queue", "dev", spec={"parent": "eng"})
    )
    queued = {"annotations": {"scheduling.volcano.sh/queue-name": "dev"}}
    harness.show_all("Pod", pod("a", metadata=queued))
    harness.show_the_rest()
    harness.cycle()
    found = {
        one.name: one.allocated
        for one in requests(harness, QueueStatusRequest)
        if isinstance(one, QueueStatusRequest)
    }
    assert found["eng"] == found["dev"] == {"cpu": "1", "memory": "0", "pods": "1"}


def test_a_queue_that_will_not_hear_is_left_alone_until_it_changes() -> None:
    harness = EngineHarness(updates_status=True)
    harness.show_all("Queue", raw("Queue", "q", spec={}))
    harness.show_the_rest()
    [request] = requests(harness, QueueStatusRequest)
    answered(harness, request, Rejected("Invalid", "no"))
    assert requests(harness, QueueStatusRequest) == []
    harness.see(ObjectSeen(raw("Queue", "q", spec={"weight": 2})))
    assert len(requests(harness, QueueStatusRequest)) == 1


def test_a_pod_with_very_many_conditions_gets_no_condition_and_others_do() -> None:
    harness = EngineHarness(updates_status=True)
    many = [{"type": f"example.com/{index}", "status": "True"} for index in range(101)]
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all(
        "Pod",
        pod("busy", on="n1", phase="Running"),
        pod("huge", status={"conditions": many}),
        pod("plain", status={"conditions": many[:100]}),
    )
    harness.show_the_rest()
    harness.cycle()
    told = [one.name for one in harness.engine.requests() if isinstance(one, PodConditionRequest)]
    assert told == ["plain"]


def test_a_condition_of_a_pod_that_is_gone_or_bound_is_moot() -> None:
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("Pod", pod("busy", on="n1", phase="Running"), pod("a"), pod("b"), pod("c"))
    harness.show_the_rest()
    harness.cycle()
    found = {
        one.name: one for one in harness.engine.requests() if isinstance(one, PodConditionRequest)
    }
    harness.see(gone(pod("a")), ObjectSeen(pod("b", on="n1")))
    assert [name for name, one in found.items() if is_moot(harness.state, one)] == ["a", "b"]


def test_if_more_is_due_than_fits_tenants_take_turns_and_the_newest_comes_first() -> None:
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=1))
    crowd = [pod(f"p{index:04}", metadata={"namespace": "crowd"}) for index in range(700)]
    few = [pod(f"q{index}", f"few-{index}", metadata={"namespace": "few"}) for index in range(3)]
    harness.show_all("Pod", pod("busy", on="n1", phase="Running"), *few, *crowd)
    harness.show_the_rest()
    harness.cycle()
    told = [one.name for one in harness.engine.requests() if isinstance(one, PodConditionRequest)]
    assert len(told) >= 500
    assert sorted(one for one in told[:6] if one[0] == "q") == ["q0", "q1", "q2"]
    assert "p0000" not in told
