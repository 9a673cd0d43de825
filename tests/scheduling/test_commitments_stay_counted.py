"""Bound and existing pods count on their node and in their quota until they are gone."""

from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.messages import Accepted, Answer, BindRequest, ObjectSeen, Rejected, Reply
from tests.scheduling.builders import EngineHarness, gone, node, pod


def begun() -> EngineHarness:
    """A node of four cards, and a pod that is on its way there with three of them."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=4))
    harness.show_all("Pod", pod("a", cards=3))
    harness.show_the_rest()
    harness.cycle()
    assert bound(harness) == ["default/a"]
    return harness


def bound(harness: EngineHarness) -> list[str]:
    """The pods that were to be bound since this was last asked."""
    records, harness.records = harness.records, []
    events = [event_of(one) for one in records]
    return [
        one.pod
        for event in events
        if isinstance(event, GangBindDecided)
        for one in event.placements
    ]


def answer(harness: EngineHarness, reply: Reply) -> None:
    """The API server answers the binding that it is asked for."""
    [request] = [one for one in harness.engine.requests() if isinstance(one, BindRequest)]
    harness.engine.report([Answer(request, reply)], harness.now_ns)
    harness.state.validate()


def test_a_pod_that_is_seen_without_its_node_while_it_is_bound_keeps_its_room() -> None:
    harness = begun()
    harness.see(
        ObjectSeen(pod("a", cards=3, metadata={"labels": {"new": "label"}})),
        ObjectSeen(pod("b", cards=2)),
    )
    harness.cycle()
    assert bound(harness) == []
    answer(harness, Accepted())
    harness.see(ObjectSeen(pod("a", cards=3, metadata={"labels": {"new": "again"}})))
    harness.cycle()
    assert bound(harness) == []
    assert harness.state.cluster.pods["uid-a"].node == "n1"


def test_a_binding_that_is_refused_gives_its_room_back() -> None:
    harness = begun()
    answer(harness, Rejected("Forbidden", "no"))
    cluster = harness.state.cluster
    assert cluster.pods["uid-a"].node == ""
    assert cluster.queues["default"].allocated == {}
    assert cluster.nodes.nodes["n1"].future("example.com/card") == 4
    harness.cycle()
    assert bound(harness) == ["default/a"]


def test_pods_of_a_node_that_goes_and_comes_back_take_their_room_there() -> None:
    harness = begun()
    answer(harness, Accepted())
    harness.see(ObjectSeen(pod("a", cards=3, on="n1", phase="Running")))
    harness.see(gone(node("n1", cpu=4)))
    harness.cycle()
    assert harness.state.cluster.queues["default"].allocated, (
        "its queue is charged until it is gone"
    )
    harness.see(ObjectSeen(node("n1", "another", cpu=4)), ObjectSeen(pod("b", cards=2)))
    harness.cycle()
    assert bound(harness) == []
    harness.see(gone(pod("a", cards=3, on="n1", phase="Running")))
    harness.cycle()
    assert bound(harness) == ["default/b"]
