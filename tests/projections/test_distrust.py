"""What State holds of an API server that turns out to be set back: nothing that was not seen again."""

from collections import deque

from engine.pending_requests import bindings_and_evictions
from events.messages import (
    Accepted,
    Answer,
    BindRequest,
    DeletionSeen,
    ListCompleted,
    ListStarted,
    ObjectRevision,
    ObjectSeen,
    WatchMessage,
)
from events.outcome import PodBound
from events.watch import WENT_BACK, WatchClosed, WatchProgressed
from projections.kind_table import REQUIRED
from projections.snapshot import restore, take
from projections.state import NEWEST_MAX
from tests.scheduling.given import Told, node, pod, raw


def at(revision: int, name: str, on: str = "", **metadata: object) -> bytes:
    """A pod as it was at a revision."""
    phase = "Running" if on else "Pending"
    return pod(name, on=on, phase=phase, metadata={"resourceVersion": str(revision), **metadata})


def began(*pods: bytes) -> Told:
    """A node with room for one pod, and these."""
    told = Told()
    told.show_all("Node", node("n1", cpu=1))
    told.show_all("Pod", *pods, revision="10")
    told.show_the_rest()
    return told


def set_back(told: Told) -> None:
    """Every kind has a gap."""
    closed = [
        WatchClosed(
            resource=kind, resource_version="99", cause=WENT_BACK, message="behind", has_gap=True
        )
        for kind in REQUIRED
    ]
    told.see(*closed)


def list_again(told: Told, *pods: bytes) -> None:
    """What the server has now, at an older revision than was seen."""
    told.show_all("Node", node("n1", cpu=1), revision="5")
    told.show_all("Pod", *pods, revision="5")
    told.show_the_rest()


def answer(told: Told, request: BindRequest) -> None:
    """It was done."""
    batch = told.engine.report([Answer(request, Accepted())], told.now_ns)
    assert batch is not None
    told.records += batch.records


def requests(told: Told) -> list[BindRequest]:
    """Bindings and evictions without an outcome."""
    told.cycle(60)
    return [one for one in bindings_and_evictions(told.state) if isinstance(one, BindRequest)]


def test_progress_names_the_objects_that_changed_last() -> None:
    told = began(at(3, "a"), at(7, "b"))
    told.see(
        ObjectSeen(at(11, "c")),
        DeletionSeen(at(12, "a")),
        WatchProgressed(resource="Pod", resource_version="20"),
    )
    progress = told.state.progress["Pod"]
    assert progress.resource_version == "20"
    assert len(progress.newest) == NEWEST_MAX == 2
    assert progress.newest == (
        ObjectRevision("default", "c", "uid-c", "11"),
        ObjectRevision("default", "a", "uid-a", "12", is_gone=True),
    )
    assert restore(take(told.state)).progress == told.state.progress


def test_the_cluster_is_known_by_its_system_namespace() -> None:
    told = began()
    told.show_all("Namespace", raw("Namespace", "kube-system", "uid-of-the-cluster"))
    assert told.state.progress["Namespace"].newest[-1] == ObjectRevision(
        "", "kube-system", "uid-of-the-cluster", ""
    )


def test_a_list_of_which_only_a_part_is_in_the_log_is_listed_again_by_the_next_daemon() -> None:
    told = Told()
    shown = [ObjectSeen(at(revision, name)) for revision, name in ((3, "a"), (9, "b"), (4, "c"))]
    messages: deque[WatchMessage] = deque(
        [ListStarted("Pod"), *shown, ListCompleted("Pod", "10", 3)]
    )
    parts = told.engine.observe_in_parts(messages, 0, records_max=2)
    assert [one.subject for one in next(parts).records] == ["Pod/default/a", "Pod/default/b"]
    assert "Pod" not in told.state.progress
    assert "Pod" not in restore(take(told.state)).progress
    assert [len(one.records) for one in parts] == [2]
    assert told.state.progress["Pod"].resource_version == "10"
    assert told.state.progress["Pod"].newest[-1].name == "b"


def test_after_a_gap_there_is_nothing_to_go_on_from_until_the_list_is_there() -> None:
    """Also for the next daemon, should this one end in between; then from the list's own revision on."""
    told = began(at(30, "a"))
    set_back(told)
    assert not told.state.is_synced
    assert not set(REQUIRED) & set(told.state.progress)
    list_again(told, at(4, "a"))
    assert told.state.progress["Pod"].resource_version == "5"
    told.see(ObjectSeen(at(6, "a")))
    assert told.state.progress["Pod"].resource_version == "6"


def test_what_is_shown_between_a_gap_and_its_list_says_nothing_of_the_history() -> None:
    """It was on its way when the gap was found: the server as it is now has never had it."""
    told = began(at(7, "a"))
    set_back(told)
    told.see(ObjectSeen(at(98, "late")))
    list_again(told, at(4, "a"))
    assert "98" not in {one.resource_version for one in told.state.progress["Pod"].newest}
    assert "uid-late" not in told.state.cluster.pods


def test_a_binding_that_was_answered_and_never_seen_is_decided_again() -> None:
    told = began(at(7, "a"))
    [request] = requests(told)
    answer(told, request)
    assert told.state.cluster.pods["uid-a"].assumed == "n1"
    set_back(told)
    list_again(told, at(7, "a"))
    assert not told.state.cluster.pods["uid-a"].node
    [again] = requests(told)
    assert again.decision > request.decision
    told.state.validate()


def test_a_binding_without_an_answer_is_asked_for_again() -> None:
    told = began(at(7, "a"))
    [request] = requests(told)
    set_back(told)
    list_again(told, at(7, "a"))
    assert [one.decision for one in requests(told)] == [request.decision]


def test_a_pod_that_was_seen_on_its_node_and_is_not_there_any_more_waits_again() -> None:
    told = began(at(7, "a"))
    [request] = requests(told)
    answer(told, request)
    told.see(ObjectSeen(at(12, "a", "n1", annotations=request.annotations)))
    set_back(told)
    list_again(told, at(7, "a"))
    found = told.state.cluster.pods["uid-a"]
    assert (found.node, found.decision, found.bound_at) == ("", 0, 0)
    [again] = requests(told)
    assert again.decision > request.decision
    answer(told, again)
    assert sum(record.kind == PodBound.kind for record in told.records) == 2
    told.state.validate()
