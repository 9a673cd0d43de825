"""An API server set back to an older state: State keeps only objects that were seen again."""

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
from features.table import FEATURES
from projections.kind_table import REQUIRED
from projections.snapshot import restore, take
from projections.state import NEWEST_MAX
from tests.scheduling.builders import EngineHarness, node, pod, raw


def at(revision: int, name: str, on: str = "", **metadata: object) -> bytes:
    """A pod as it was at a revision."""
    phase = "Running" if on else "Pending"
    return pod(name, on=on, phase=phase, metadata={"resourceVersion": str(revision), **metadata})


def began(*pods: bytes) -> EngineHarness:
    """A node with room for one pod, and these."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("Pod", *pods, revision="10")
    harness.show_the_rest()
    return harness


def set_back(harness: EngineHarness) -> None:
    """Every kind has a gap."""
    closed = [
        WatchClosed(
            resource=kind, resource_version="99", cause=WENT_BACK, message="behind", has_gap=True
        )
        for kind in REQUIRED
    ]
    harness.see(*closed)


def list_again(harness: EngineHarness, *pods: bytes) -> None:
    """What the server has now, at an older revision than was seen."""
    harness.show_all("Node", node("n1", cpu=1), revision="5")
    harness.show_all("Pod", *pods, revision="5")
    harness.show_the_rest()


def answer(harness: EngineHarness, request: BindRequest) -> None:
    """It was done."""
    batch = harness.engine.report([Answer(request, Accepted())], harness.now_ns)
    assert batch is not None
    harness.records += batch.records


def requests(harness: EngineHarness) -> list[BindRequest]:
    """Bindings and evictions without an outcome."""
    harness.cycle(60)
    return [one for one in bindings_and_evictions(harness.state) if isinstance(one, BindRequest)]


def test_progress_names_the_objects_that_changed_last() -> None:
    harness = began(at(3, "a"), at(7, "b"))
    harness.see(
        ObjectSeen(at(11, "c")),
        DeletionSeen(at(12, "a")),
        WatchProgressed(resource="Pod", resource_version="20"),
    )
    progress = harness.state.progress["Pod"]
    assert progress.resource_version == "20"
    assert len(progress.newest) == NEWEST_MAX == 2
    assert progress.newest == (
        ObjectRevision("default", "c", "uid-c", "11"),
        ObjectRevision("default", "a", "uid-a", "12", is_gone=True),
    )
    assert restore(take(harness.state), FEATURES).progress == harness.state.progress


def test_the_cluster_is_known_by_its_system_namespace() -> None:
    harness = began()
    harness.show_all("Namespace", raw("Namespace", "kube-system", "uid-of-the-cluster"))
    assert harness.state.progress["Namespace"].newest[-1] == ObjectRevision(
        "", "kube-system", "uid-of-the-cluster", ""
    )


def test_a_list_of_which_only_a_part_is_in_the_log_is_listed_again_by_the_next_daemon() -> None:
    harness = EngineHarness()
    shown = [ObjectSeen(at(revision, name)) for revision, name in ((3, "a"), (9, "b"), (4, "c"))]
    messages: deque[WatchMessage] = deque(
        [ListStarted("Pod"), *shown, ListCompleted("Pod", "10", 3)]
    )
    parts = harness.engine.observe_in_parts(messages, 0, records_max=2)
    assert [one.subject for one in next(parts).records] == ["Pod/default/a", "Pod/default/b"]
    assert "Pod" not in harness.state.progress
    assert "Pod" not in restore(take(harness.state), FEATURES).progress
    assert [len(one.records) for one in parts] == [2]
    assert harness.state.progress["Pod"].resource_version == "10"
    assert harness.state.progress["Pod"].newest[-1].name == "b"


def test_after_a_gap_there_is_nothing_to_go_on_from_until_the_list_is_there() -> None:
    """Also for the next daemon, should this one end in between; then from the list's own revision on."""
    harness = began(at(30, "a"))
    set_back(harness)
    assert not harness.state.is_synced
    assert not set(REQUIRED) & set(harness.state.progress)
    list_again(harness, at(4, "a"))
    assert harness.state.progress["Pod"].resource_version == "5"
    harness.see(ObjectSeen(at(6, "a")))
    assert harness.state.progress["Pod"].resource_version == "6"


def test_what_is_shown_between_a_gap_and_its_list_says_nothing_of_the_history() -> None:
    """It was on its way when the gap was found: the server as it is now has never had it."""
    harness = began(at(7, "a"))
    set_back(harness)
    harness.see(ObjectSeen(at(98, "late")))
    list_again(harness, at(4, "a"))
    assert "98" not in {one.resource_version for one in harness.state.progress["Pod"].newest}
    assert "uid-late" not in harness.state.cluster.pods


def test_a_binding_that_was_answered_and_never_seen_is_decided_again() -> None:
    harness = began(at(7, "a"))
    [request] = requests(harness)
    answer(harness, request)
    assert harness.state.cluster.pods["uid-a"].assumed == "n1"
    set_back(harness)
    list_again(harness, at(7, "a"))
    assert not harness.state.cluster.pods["uid-a"].node
    [again] = requests(harness)
    assert again.decision > request.decision
    harness.state.validate()


def test_a_binding_without_an_answer_is_asked_for_again() -> None:
    harness = began(at(7, "a"))
    [request] = requests(harness)
    set_back(harness)
    list_again(harness, at(7, "a"))
    assert [one.decision for one in requests(harness)] == [request.decision]


def test_a_pod_that_was_seen_on_its_node_and_is_not_there_any_more_waits_again() -> None:
    harness = began(at(7, "a"))
    [request] = requests(harness)
    answer(harness, request)
    harness.see(ObjectSeen(at(12, "a", "n1", annotations=request.annotations)))
    set_back(harness)
    list_again(harness, at(7, "a"))
    found = harness.state.cluster.pods["uid-a"]
    assert (found.node, found.decision, found.decided.bound_at) == ("", 0, 0)
    [again] = requests(harness)
    assert again.decision > request.decision
    answer(harness, again)
    assert sum(record.kind == PodBound.kind for record in harness.records) == 2
    harness.state.validate()
