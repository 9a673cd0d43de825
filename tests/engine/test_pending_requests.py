"""What is asked of the API server: all that was decided, and what objects do not know yet."""

from events.messages import (
    Accepted,
    Answer,
    BindRequest,
    ObjectSeen,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Request,
)
from tests.scheduling.given import Told, node, pod, raw


def requests(told: Told, kind: type[Request]) -> list[Request]:
    """What is to be asked, of one kind."""
    return [one for one in told.engine.requests() if isinstance(one, kind)]


def answered(told: Told, request: Request, reply: Accepted | Rejected | OutcomeUnknown) -> None:
    """The API server answers."""
    told.engine.report([Answer(request, reply)], told.now_ns)
    told.state.validate()


def waiting(*, updates_status: bool = True) -> Told:
    """A pod for which there is no room."""
    told = Told(updates_status=updates_status)
    told.show_all("Node", node("n1", cpu=4))
    told.show_all("Pod", pod("a", cards=9))
    told.show_the_rest()
    told.cycle()
    return told


def test_a_bind_request_has_the_pod_uid_and_the_decision_annotation() -> None:
    """K8.1, K8.4"""
    told = Told()
    told.show_all("Node", node("n1"))
    told.show_all("Pod", pod("a"))
    told.show_the_rest()
    told.cycle()
    [request] = requests(told, BindRequest)
    assert isinstance(request, BindRequest)
    assert (request.uid, request.node) == ("uid-a", "n1")
    assert request.annotations == {"muster.sh/decision": str(request.decision)}
    answered(told, request, Accepted())
    assert requests(told, BindRequest) == []


def test_a_pending_pod_gets_one_condition_request() -> None:
    """K7.7: only when it changed."""
    told = waiting()
    [request] = requests(told, PodConditionRequest)
    assert isinstance(request, PodConditionRequest)
    assert request.reason == "Unschedulable"
    assert "0/1 nodes are unavailable: 1 Insufficient example.com/card" in request.message
    answered(told, request, Accepted())
    assert requests(told, PodConditionRequest) == []
    told.cycle()
    assert requests(told, PodConditionRequest) == []


def test_a_pod_with_the_current_condition_gets_no_request() -> None:
    told = waiting()
    [request] = requests(told, PodConditionRequest)
    assert isinstance(request, PodConditionRequest)
    condition = {"type": "PodScheduled", "status": "False", "message": request.message}
    told.see(ObjectSeen(pod("a", cards=9, status={"conditions": [condition]})))
    assert requests(told, PodConditionRequest) == []


def test_a_pod_condition_causes_no_decision() -> None:
    told = waiting()
    told.kinds()
    condition = {"type": "PodScheduled", "status": "False", "message": "something"}
    told.see(ObjectSeen(pod("a", cards=9, status={"conditions": [condition]})))
    told.cycle()
    assert told.kinds() == ["object_observed Pod/default/a"]


def test_a_pod_that_joins_an_unschedulable_pod_group_gets_a_condition_request() -> None:
    told = waiting()
    [request] = requests(told, PodConditionRequest)
    answered(told, request, Accepted())
    owner = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    told.see(ObjectSeen(pod("b", cards=9, metadata={"ownerReferences": owner})))
    told.cycle()
    told.see(ObjectSeen(pod("c", cards=9, metadata={"ownerReferences": owner})))
    told.cycle()
    names = [
        one.name for one in requests(told, PodConditionRequest) if not isinstance(one, BindRequest)
    ]
    assert names == ["b", "c"]


def test_a_status_that_is_refused_is_not_tried_for_ever() -> None:
    told = waiting()
    [request] = requests(told, PodConditionRequest)
    answered(told, request, OutcomeUnknown("no answer"))
    assert requests(told, PodConditionRequest) == [request], "the outcome of the update is unknown"
    answered(told, request, Rejected("NotFound", "gone"))
    assert requests(told, PodConditionRequest) == []


def test_no_status_requests_when_status_updates_are_disabled() -> None:
    told = waiting(updates_status=False)
    assert list(told.engine.requests()) == []


def test_an_unschedulable_pod_group_gets_one_condition_request() -> None:
    """Volcano B.14: condition Unschedulable with the reason NotEnoughResources."""
    told = Told(updates_status=True)
    told.show_all("Node", node("n1"))
    told.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": 1}))
    grouped = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    told.show_all("Pod", pod("a", cards=9, metadata=grouped))
    told.show_the_rest()
    told.cycle()
    [phase] = requests(told, PodGroupPhaseRequest)
    assert isinstance(phase, PodGroupPhaseRequest)
    assert phase.phase == "Inqueue"
    [request] = requests(told, PodGroupConditionRequest)
    assert isinstance(request, PodGroupConditionRequest)
    assert (request.type, request.reason) == ("Unschedulable", "NotEnoughResources")
    answered(told, request, Accepted())
    assert requests(told, PodGroupConditionRequest) == []


def test_queue_allocated_is_requested_until_the_status_shows_it() -> None:
    """Volcano A.1, B.14: only if it changed; cpu and memory are always named."""
    told = Told(updates_status=True)
    told.show_all("Node", node("n1"))
    told.show_all("Queue", raw("Queue", "q", spec={}))
    queued = {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    told.show_all("Pod", pod("a", metadata=queued))
    told.show_the_rest()
    [before] = requests(told, QueueStatusRequest)
    assert isinstance(before, QueueStatusRequest)
    assert before.allocated == {"cpu": "0", "memory": "0"}
    told.cycle()
    [request] = requests(told, QueueStatusRequest)
    assert isinstance(request, QueueStatusRequest)
    assert request.allocated == {"cpu": "1", "memory": "0", "pods": "1"}
    told.kinds()
    status = {"allocated": {"cpu": "1000m", "memory": "0", "pods": "1"}}
    told.see(ObjectSeen(raw("Queue", "q", spec={}, status=status)))
    assert requests(told, QueueStatusRequest) == [], "a thousand milli-cores are one"
    told.cycle()
    assert told.kinds() == ["object_observed Queue//q"], "our own words are no news"


def test_allocated_of_a_parent_queue_includes_its_children() -> None:
    """Volcano A.1: ancestors included."""
    capacity = {"name": "capacity", "enableHierarchy": True}
    told = Told(
        updates_status=True, policy={"actions": "allocate", "tiers": [{"plugins": [capacity]}]}
    )
    told.show_all("Node", node("n1"))
    told.show_all(
        "Queue", raw("Queue", "eng", spec={}), raw("Queue", "dev", spec={"parent": "eng"})
    )
    queued = {"annotations": {"scheduling.volcano.sh/queue-name": "dev"}}
    told.show_all("Pod", pod("a", metadata=queued))
    told.show_the_rest()
    told.cycle()
    found = {
        one.name: one.allocated
        for one in requests(told, QueueStatusRequest)
        if isinstance(one, QueueStatusRequest)
    }
    assert found["eng"] == found["dev"] == {"cpu": "1", "memory": "0", "pods": "1"}


def test_a_queue_that_will_not_hear_is_left_alone_until_it_changes() -> None:
    told = Told(updates_status=True)
    told.show_all("Queue", raw("Queue", "q", spec={}))
    told.show_the_rest()
    [request] = requests(told, QueueStatusRequest)
    answered(told, request, Rejected("Invalid", "no"))
    assert requests(told, QueueStatusRequest) == []
    told.see(ObjectSeen(raw("Queue", "q", spec={"weight": 2})))
    assert len(requests(told, QueueStatusRequest)) == 1
