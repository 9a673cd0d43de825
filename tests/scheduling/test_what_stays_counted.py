"""What was decided, or is there, stays counted until it is gone: nothing is given twice meanwhile."""

from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.messages import Accepted, Answer, BindRequest, ObjectSeen, Rejected, Reply
from tests.scheduling.given import Told, gone, node, pod


def begun() -> Told:
    """A node of four cards, and a pod that is on its way there with three of them."""
    told = Told()
    told.show_all("Node", node("n1", cpu=4))
    told.show_all("Pod", pod("a", cards=3))
    told.show_the_rest()
    told.cycle()
    assert bound(told) == ["default/a"]
    return told


def bound(told: Told) -> list[str]:
    """The pods that were to be bound since this was last asked."""
    records, told.records = told.records, []
    events = [event_of(one) for one in records]
    return [
        one.pod
        for event in events
        if isinstance(event, GangBindDecided)
        for one in event.placements
    ]


def answer(told: Told, reply: Reply) -> None:
    """The API server answers the binding that it is asked for."""
    [request] = [one for one in told.engine.requests() if isinstance(one, BindRequest)]
    told.engine.report([Answer(request, reply)], told.now_ns)
    told.state.validate()


def test_a_pod_that_is_seen_without_its_node_while_it_is_bound_keeps_its_room() -> None:
    told = begun()
    told.see(
        ObjectSeen(pod("a", cards=3, metadata={"labels": {"new": "label"}})),
        ObjectSeen(pod("b", cards=2)),
    )
    told.cycle()
    assert bound(told) == []
    answer(told, Accepted())
    told.see(ObjectSeen(pod("a", cards=3, metadata={"labels": {"new": "again"}})))
    told.cycle()
    assert bound(told) == []
    assert told.state.cluster.pods["uid-a"].node == "n1"


def test_a_binding_that_is_refused_gives_its_room_back() -> None:
    told = begun()
    answer(told, Rejected("Forbidden", "no"))
    cluster = told.state.cluster
    assert cluster.pods["uid-a"].node == ""
    assert cluster.queues["default"].allocated == {}
    assert cluster.nodes.nodes["n1"].future("example.com/card") == 4
    told.cycle()
    assert bound(told) == ["default/a"]


def test_pods_of_a_node_that_goes_and_comes_back_take_their_room_there() -> None:
    told = begun()
    answer(told, Accepted())
    told.see(ObjectSeen(pod("a", cards=3, on="n1", phase="Running")))
    told.see(gone(node("n1", cpu=4)))
    told.cycle()
    assert told.state.cluster.queues["default"].allocated, "its queue is charged until it is gone"
    told.see(ObjectSeen(node("n1", "another", cpu=4)), ObjectSeen(pod("b", cards=2)))
    told.cycle()
    assert bound(told) == []
    told.see(gone(pod("a", cards=3, on="n1", phase="Running")))
    told.cycle()
    assert bound(told) == ["default/b"]
