"""Devices are written on a pod before it is bound: one patch, one outcome, and one pod of a node at a time."""

from collections.abc import Mapping
from typing import ClassVar, Final

import pytest

from engine.engine import Engine
from events.codec import event_of
from events.messages import (
    Accepted,
    AnnotateRequest,
    Answer,
    BindRequest,
    ObjectSeen,
    OutcomeUnknown,
    Rejected,
    Reply,
    Request,
)
from events.outcome import PodAnnotated, PodAnnotationFailed, PodAnnotationUnknown
from events.record import Head
from events.watch import WENT_BACK, WatchClosed
from projections import snapshot
from projections.device_assignments import CONFIRMATION_NS
from projections.device_family import PlacedPod
from tests.scheduling.builders import SECOND, EngineHarness, features_with, gone, raw
from tests.scheduling.reported_chips import (
    CHIP,
    ReportedChips,
    chip_node,
    chip_pod,
    report,
)

REAL = "example.com/real"
NOTHING: Mapping[str, str] = {}


class WrittenChips(ReportedChips):
    """Chips whose names are written on pods, and confirmed by an annotation."""

    name = "written-chips"
    writes_annotations: ClassVar[bool] = True
    confirmation: ClassVar[str] = REAL
    pod_assignments: ClassVar[tuple[str, ...]] = ("predicate-time",)

    def annotations(self, placed: PlacedPod) -> dict[str, str]:
        """Write the names, the time and whether the job is distributed."""
        return {
            CHIP: ",".join(placed.devices),
            "predicate-time": str(placed.assigned_ns),
            "distributed-job": str(placed.is_distributed).lower(),
        }


WITH_CHIPS: Final = features_with(WrittenChips())


@pytest.fixture
def harness() -> EngineHarness:
    """Two nodes with two chips each; n1 comes first."""
    harness = EngineHarness(features=WITH_CHIPS)
    harness.now_ns = 1_700_000_000 * SECOND
    harness.show_all("Node", chip_node("n1"), chip_node("n2"))
    harness.show_the_rest()
    for name in ("n1", "n2"):
        harness.see(ObjectSeen(report(name, "Ascend910-0", "Ascend910-1", "Ascend910-2")))
    return harness


def requests(harness: EngineHarness) -> list[Request]:
    """The bindings and annotations that are asked for."""
    return [
        one for one in harness.engine.requests() if isinstance(one, AnnotateRequest | BindRequest)
    ]


def asked(harness: EngineHarness) -> list[str]:
    """The same in short."""
    return [f"{type(one).__name__[:-7]} {one.name}" for one in requests(harness)]


def answer(harness: EngineHarness, name: str, reply: Reply) -> list[Request]:
    """Answer the request for a pod, and return what follows at once."""
    [request] = [one for one in requests(harness) if one.name == name]
    answers = [Answer(request, reply)]
    batch = harness.engine.report(answers, harness.now_ns)
    assert batch is not None
    harness.records += batch.records
    harness.state.validate()
    return list(harness.engine.follow_up_requests(answers))


def bound_pod(
    name: str, node: str, *, is_confirmed: bool = False, status: Mapping[str, str] = NOTHING
) -> bytes:
    """The pod as the API server shows it on its node."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1", CHIP: "1"}}}
    return raw(
        "Pod",
        name,
        metadata={"annotations": {"predicate-time": "1", **({REAL: "x"} if is_confirmed else {})}},
        spec={"schedulerName": "muster", "containers": [container], "nodeName": node},
        status={"phase": "Pending", **status},
    )


def place(harness: EngineHarness, *names: str) -> None:
    """Have pods decided in one cycle."""
    harness.see(*(ObjectSeen(chip_pod(name)) for name in names))
    harness.cycle()


def test_a_pod_is_annotated_and_then_bound(harness: EngineHarness) -> None:
    place(harness, "a")
    [request] = requests(harness)
    assert isinstance(request, AnnotateRequest)
    assert (request.name, request.uid, request.node) == ("a", "uid-a", "n1")
    assert request.annotations == {
        CHIP: "Ascend910-0",
        "predicate-time": str(harness.now_ns),
        "distributed-job": "false",
    }
    [then] = answer(harness, "a", Accepted())
    assert isinstance(then, BindRequest)
    assert isinstance(event_of(harness.records[-1]), PodAnnotated)
    assert harness.records[-1].cause == request.decision
    assert not then.is_in_doubt
    # Annotations of an earlier decision may have arrived late.
    assert then.devices == request.annotations
    answer(harness, "a", Accepted())
    assert requests(harness) == []


def test_pods_of_other_families_are_bound_at_once(harness: EngineHarness) -> None:
    spec = {"schedulerName": "muster", "containers": [{"name": "main"}]}
    harness.see(ObjectSeen(raw("Pod", "plain", spec=spec, status={"phase": "Pending"})))
    harness.cycle()
    assert asked(harness) == ["Bind plain"]


def full(harness: EngineHarness) -> None:
    """Have three pods decided for n1, and one for n2."""
    place(harness, "a", "b", "c", "d")
    nodes = {pod.facts.name: pod.node for pod in harness.state.cluster.pods.values()}
    assert nodes == {"a": "n1", "b": "n1", "c": "n1", "d": "n2"}


def test_pods_of_a_node_wait_for_each_other_and_not_for_those_of_others(
    harness: EngineHarness,
) -> None:
    full(harness)
    assert asked(harness) == ["Annotate a", "Annotate d"]
    answer(harness, "a", Accepted())
    assert asked(harness) == ["Bind a", "Annotate d"]
    answer(harness, "a", Accepted())
    assert asked(harness) == ["Annotate d"]
    harness.see(ObjectSeen(bound_pod("a", "n1")))
    assert asked(harness) == ["Annotate d"]
    harness.see(ObjectSeen(bound_pod("a", "n1", is_confirmed=True)))
    assert asked(harness) == ["Annotate b", "Annotate d"]
    assert [one.name for one in harness.engine.follow_up_requests(())] == ["b", "d"]


def test_a_pod_that_the_kubelet_has_admitted_has_its_devices_whatever_the_plugin_writes(
    harness: EngineHarness,
) -> None:
    full(harness)
    answer(harness, "a", Accepted())
    answer(harness, "a", Accepted())
    harness.see(ObjectSeen(bound_pod("a", "n1")))
    assert asked(harness) == ["Annotate d"]
    harness.see(ObjectSeen(bound_pod("a", "n1", status={"startTime": "2026-01-01T00:00:00Z"})))
    assert asked(harness) == ["Annotate b", "Annotate d"]


def test_times_of_assignment_increase_strictly_on_a_node(harness: EngineHarness) -> None:
    full(harness)
    times = [one.assigned_ns for one in harness.state.commitments.values()]
    on_first = sorted(times[:3])
    assert on_first == [harness.now_ns, harness.now_ns + 1, harness.now_ns + 2]
    assert times[3] == harness.now_ns
    restored = snapshot.restore(snapshot.take(harness.state), WITH_CHIPS)
    nodes = restored.cluster.nodes.nodes
    at_ns = restored.assignments.assign("n1", "x", harness.now_ns, nodes, one_by_one=True)
    assert at_ns == harness.now_ns + 3


@pytest.mark.parametrize("over", ["gone", "failed", "moved"])
def test_the_next_pod_goes_on_when_the_first_is_over(harness: EngineHarness, over: str) -> None:
    full(harness)
    answer(harness, "a", Accepted())
    answer(harness, "a", Accepted())
    if over == "gone":
        harness.see(gone(bound_pod("a", "n1")))
    elif over == "failed":
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        spec = {"schedulerName": "muster", "containers": [], "nodeName": "n1"}
        harness.see(ObjectSeen(raw("Pod", "a", spec=spec, status=status)))
    else:
        harness.see(ObjectSeen(bound_pod("a", "n2")))
    assert "Annotate b" in asked(harness)


def test_a_confirmation_that_does_not_come_is_waited_for_a_minute(harness: EngineHarness) -> None:
    full(harness)
    answer(harness, "a", Accepted())
    answer(harness, "a", Accepted())
    harness.cycle(CONFIRMATION_NS // SECOND - 1)
    assert asked(harness) == ["Annotate d"]
    assert harness.engine.is_due(harness.now_ns + SECOND)
    harness.cycle()
    assert asked(harness) == ["Annotate b", "Annotate d"]


@pytest.mark.parametrize("code", ["NotFound", "Conflict", "Invalid", "Forbidden"])
def test_a_refused_annotation_gives_the_devices_back_and_the_next_pod_goes_on(
    harness: EngineHarness, code: str
) -> None:
    full(harness)
    follow = answer(harness, "a", Rejected(code, "no"))
    assert isinstance(event_of(harness.records[-1]), PodAnnotationFailed)
    pod = harness.state.cluster.pods["uid-a"]
    assert (pod.node, pod.devices) == ("", ())
    assert "uid-a" not in harness.state.commitments
    assert [one.name for one in follow] == ["b", "d"]
    harness.cycle(2)
    again = harness.state.cluster.pods["uid-a"]
    assert (again.node, again.devices) == ("n1", ("Ascend910-0",))


def test_a_lost_answer_is_asked_for_again_with_the_same_annotations(
    harness: EngineHarness,
) -> None:
    place(harness, "a")
    before = requests(harness)
    answer(harness, "a", OutcomeUnknown("no answer"))
    assert isinstance(event_of(harness.records[-1]), PodAnnotationUnknown)
    assert requests(harness) == before


@pytest.mark.parametrize("is_annotated", [False, True])
def test_a_restart_between_patch_and_binding_goes_on_where_it_was(
    harness: EngineHarness, is_annotated: bool
) -> None:
    """The daemon is killed after the patch, before or after its answer is durable."""
    place(harness, "a")
    before = requests(harness)
    if is_annotated:
        answer(harness, "a", Accepted())
    state = snapshot.restore(snapshot.take(harness.state), WITH_CHIPS)
    head = harness.engine.head
    harness.engine = Engine(state, Head(head.position, head.digest, head.epoch))
    harness.start()
    harness.show_all("Node", chip_node("n1"), chip_node("n2"))
    harness.show_all("Pod", chip_pod("a", annotations={"predicate-time": "1"}))
    if is_annotated:
        [request] = requests(harness)
        assert isinstance(request, BindRequest)
        assert request.is_in_doubt
    else:
        assert requests(harness) == before
    assert harness.state.cluster.pods["uid-a"].devices == ("Ascend910-0",)


def test_annotations_seen_before_the_binding_are_caused_by_the_decision(
    harness: EngineHarness,
) -> None:
    place(harness, "a")
    [request] = requests(harness)
    harness.see(ObjectSeen(chip_pod("a", annotations={"predicate-time": "1"})))
    assert harness.records[-1].cause == request.decision


def test_a_server_that_was_set_back_gets_the_annotations_again(harness: EngineHarness) -> None:
    place(harness, "a")
    answer(harness, "a", Accepted())
    closed = WatchClosed(resource="Pod", resource_version="1", cause=WENT_BACK, has_gap=True)
    harness.see(closed)
    harness.show_all("Pod", chip_pod("a"))
    assert asked(harness) == ["Annotate a"]
