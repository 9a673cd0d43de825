"""A pod that turns up where a decision wanted it, after its binding was recorded as failed, is ours."""

from engine.pending_requests import bindings_and_evictions
from events.codec import event_of
from events.messages import Accepted, Answer, BindRequest, ObjectSeen, Rejected, Reply
from events.outcome import PodBound
from events.watch import ForeignPodPlaced
from projections.snapshot import restore, take
from tests.scheduling.given import Told, node, pod

REFUSED = Rejected("Forbidden", "no role allows this")


def decided(told: Told) -> BindRequest:
    """The request for the binding that stands."""
    told.cycle(60)
    [request] = [one for one in bindings_and_evictions(told.state) if isinstance(one, BindRequest)]
    return request


def began(nodes: int = 1) -> Told:
    """Nodes that are dedicated, with room for one pod each, and a pod."""
    told = Told()
    labels = {"muster.sh/dedicated": ""}
    told.show_all("Node", *(node(f"n{index}", cpu=1, labels=labels) for index in range(nodes)))
    told.show_all("Pod", pod("a"))
    told.show_the_rest()
    return told


def answer(told: Told, request: BindRequest, reply: Reply) -> None:
    """The API server answered."""
    batch = told.engine.report([Answer(request, reply)], told.now_ns)
    assert batch is not None
    told.records += batch.records


def bound_by(request: BindRequest) -> bytes:
    """The pod as that binding leaves it."""
    return pod("a", on=request.node, metadata={"annotations": request.annotations})


def bindings(told: Told) -> list[tuple[int | None, str]]:
    """Decision and node of each binding that is recorded as done."""
    events = [(record.cause, event_of(record)) for record in told.records]
    return [(cause, event.node) for cause, event in events if isinstance(event, PodBound)]


def test_a_binding_that_took_effect_after_it_was_refused_is_ours() -> None:
    told = began()
    request = decided(told)
    answer(told, request, REFUSED)
    assert not told.state.cluster.pods["uid-a"].node
    told.see(ObjectSeen(bound_by(request)))
    found = told.state.cluster.pods["uid-a"]
    assert (found.decision, found.node) == (request.decision, "n0")
    assert bindings(told) == [(request.decision, "n0")]
    assert not any(one.kind == ForeignPodPlaced.kind for one in told.records)
    told.state.validate()
    again = restore(take(told.state)).cluster.pods["uid-a"]
    assert (again.decision, again.failed_bindings) == (found.decision, found.failed_bindings)


def test_it_is_ours_also_where_another_node_has_been_decided_meanwhile() -> None:
    """The later decision stays open until the API server refuses it."""
    told = began(nodes=2)
    first = decided(told)
    answer(told, first, REFUSED)
    taken = pod("b", on=first.node)
    told.see(ObjectSeen(taken))
    second = decided(told)
    assert second.node != first.node
    told.see(ObjectSeen(bound_by(first)))
    assert told.state.cluster.pods["uid-a"].node == first.node
    assert bindings(told) == [(first.decision, first.node)]
    assert told.state.commitments["uid-a"].decision == second.decision
    answer(told, second, Rejected("Conflict", "already assigned"))
    assert not told.state.commitments
    assert told.state.cluster.pods["uid-a"].decision == first.decision


def test_a_pod_that_another_put_there_is_not_ours() -> None:
    """Only the annotation that the binding itself wrote tells whose it is."""
    told = began()
    request = decided(told)
    answer(told, request, REFUSED)
    told.see(ObjectSeen(pod("a", on="n0")))
    assert told.state.cluster.pods["uid-a"].decision == 0
    assert [one.kind for one in told.records].count(ForeignPodPlaced.kind) == 1


def test_what_was_asked_by_a_daemon_that_ended_may_have_been_done() -> None:
    told = began()
    assert not decided(told).is_in_doubt
    told.start()
    told.show_all("Node", node("n0", cpu=1, labels={"muster.sh/dedicated": ""}))
    told.show_all("Pod", pod("a"))
    told.show_the_rest()
    [request] = [one for one in bindings_and_evictions(told.state) if isinstance(one, BindRequest)]
    assert request.is_in_doubt
    answer(told, request, Accepted())
    assert not told.state.commitments
