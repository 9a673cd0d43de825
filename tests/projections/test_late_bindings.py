"""A pod seen on the node of a decision after its binding was recorded as failed counts as bound by that decision."""

from engine.pending_requests import bindings_and_evictions
from events.codec import event_of
from events.messages import Accepted, Answer, BindRequest, ObjectSeen, Rejected, Reply
from events.outcome import PodBound
from events.watch import ForeignPodPlaced
from features.table import FEATURES
from projections.snapshot import restore, take
from tests.scheduling.builders import EngineHarness, node, pod

REFUSED = Rejected("Forbidden", "no role allows this")


def decided(harness: EngineHarness) -> BindRequest:
    """The request for the binding that stands."""
    harness.cycle(60)
    [request] = [
        one for one in bindings_and_evictions(harness.state) if isinstance(one, BindRequest)
    ]
    return request


def began(nodes: int = 1) -> EngineHarness:
    """Nodes that are dedicated, with room for one pod each, and a pod."""
    harness = EngineHarness()
    labels = {"muster.sh/dedicated": ""}
    harness.show_all("Node", *(node(f"n{index}", cpu=1, labels=labels) for index in range(nodes)))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    return harness


def answer(harness: EngineHarness, request: BindRequest, reply: Reply) -> None:
    """The API server answered."""
    batch = harness.engine.report([Answer(request, reply)], harness.now_ns)
    assert batch is not None
    harness.records += batch.records


def bound_by(request: BindRequest) -> bytes:
    """The pod as that binding leaves it."""
    return pod("a", on=request.node, metadata={"annotations": request.annotations})


def bindings(harness: EngineHarness) -> list[tuple[int | None, str]]:
    """Decision and node of each binding that is recorded as done."""
    events = [(record.cause, event_of(record)) for record in harness.records]
    return [(cause, event.node) for cause, event in events if isinstance(event, PodBound)]


def test_a_binding_that_took_effect_after_it_was_refused_is_ours() -> None:
    harness = began()
    request = decided(harness)
    answer(harness, request, REFUSED)
    assert not harness.state.cluster.pods["uid-a"].node
    harness.see(ObjectSeen(bound_by(request)))
    found = harness.state.cluster.pods["uid-a"]
    assert (found.decision, found.node) == (request.decision, "n0")
    assert bindings(harness) == [(request.decision, "n0")]
    assert not any(one.kind == ForeignPodPlaced.kind for one in harness.records)
    harness.state.validate()
    again = restore(take(harness.state), FEATURES).cluster.pods["uid-a"]
    assert (again.decision, again.decided.failed_bindings) == (
        found.decision,
        found.decided.failed_bindings,
    )


def test_it_is_ours_also_where_another_node_has_been_decided_meanwhile() -> None:
    """The later decision stays open until the API server refuses it."""
    harness = began(nodes=2)
    first = decided(harness)
    answer(harness, first, REFUSED)
    taken = pod("b", on=first.node)
    harness.see(ObjectSeen(taken))
    second = decided(harness)
    assert second.node != first.node
    harness.see(ObjectSeen(bound_by(first)))
    assert harness.state.cluster.pods["uid-a"].node == first.node
    assert bindings(harness) == [(first.decision, first.node)]
    assert harness.state.commitments["uid-a"].decision == second.decision
    answer(harness, second, Rejected("Conflict", "already assigned"))
    assert not harness.state.commitments
    assert harness.state.cluster.pods["uid-a"].decision == first.decision


def test_a_pod_that_another_put_there_is_not_ours() -> None:
    """Only the annotation that the binding itself wrote tells whose it is."""
    harness = began()
    request = decided(harness)
    answer(harness, request, REFUSED)
    harness.see(ObjectSeen(pod("a", on="n0")))
    assert harness.state.cluster.pods["uid-a"].decision == 0
    assert [one.kind for one in harness.records].count(ForeignPodPlaced.kind) == 1


def test_what_was_asked_by_a_daemon_that_ended_may_have_been_done() -> None:
    harness = began()
    assert not decided(harness).is_in_doubt
    harness.start()
    harness.show_all("Node", node("n0", cpu=1, labels={"muster.sh/dedicated": ""}))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    [request] = [
        one for one in bindings_and_evictions(harness.state) if isinstance(one, BindRequest)
    ]
    assert request.is_in_doubt
    answer(harness, request, Accepted())
    assert not harness.state.commitments
