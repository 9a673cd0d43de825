"""The log told for people: every kind of record, and a whole log as a golden.

`RETELL=1` writes the golden file again for review; in CI it does not.
"""

import os
from pathlib import Path

import pytest

from daemon.version import VERSION
from events.cluster import ObjectUnreadable
from events.codec import encode, event_of
from events.daemon import DaemonStarted, PolicyWarned, RecordsLost
from events.decision import Decision, Eviction, Placement
from events.decisions.action_failed import ActionFailed
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.eviction import EvictionDecided
from events.decisions.faults_marked import FaultsMarked
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.reschedule import RestartedPod
from events.decisions.search_deferred import SearchDeferred
from events.decisions.work_deferred import DeferredAction, WorkDeferred
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    ShadowDecisionEnded,
    StatusUpdated,
    StatusUpdateFailed,
)
from events.record import Record
from events.union import DECISIONS, EVENTS, Event
from events.watch import (
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)
from replay.narrate import narrate, sentences
from tests.builders import recorded

GOLDEN = Path(__file__).parent / "goldens" / "a_gang_waits_for_a_queue.txt"

SCENARIO = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H200}}
    spec: {taints: [{key: team, value: red, effect: PreferNoSchedule}]}
    status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 2}}
    count: 2
  - kind: Queue
    metadata: {name: q1, annotations: {volcano.sh/card.quota: '{"H200": 2}'}}
    spec: {capability: {cpu: 40}}
  - kind: Pod
    metadata:
      name: a
      annotations: {scheduling.volcano.sh/queue-name: q1, volcano.sh/card.name: H200}
    spec: {containers: [{resources: {limits: {cpu: 500m, memory: 1536Mi, nvidia.com/gpu: 1}}}]}
steps:
  - at: 1s
    apply:
      - kind: PodGroup
        metadata: {name: b}
        spec: {minMember: 2, queue: q1, minResources: {cpu: 2, nvidia.com/gpu: 2}}
      - kind: Pod
        metadata:
          name: "b-{i}"
          annotations: {scheduling.k8s.io/group-name: b, volcano.sh/card.name: H200}
        spec: {containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]}
        count: 2
  - {at: 5s, delete: [{kind: Pod, namespace: default, name: a}]}
until: 10s
"""


def record(event: Event, **fields: int | str | None) -> Record:
    """A record at position 9, of no cycle and without a cause unless they are given."""
    values: dict[str, object] = {
        "position": 9,
        "batch": 9,
        "epoch": 1,
        "recorded_at_ns": 12_345_678_901,
        "cycle": None,
        "cause": None,
        "kind": event.kind,
        "subject": "PodGroup/d/g",
        "body": encode(event),
        "object": None,
        "digest": "",
    }
    return Record(**{**values, **fields})  # type: ignore[arg-type]  # each as Record has it


async def test_narration_of_a_log_equals_the_golden_file() -> None:
    entries = await recorded(SCENARIO)
    told = [
        line for one in entries for line in narrate(one.record, event_of(one.record), one.content)
    ]
    text = "".join(f"{line}\n" for line in told).replace(VERSION, "VERSION")
    if os.environ.get("RETELL") and not os.environ.get("CI"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


async def test_every_record_has_a_line_of_its_own_even_without_its_object() -> None:
    for one in await recorded(SCENARIO):
        first = narrate(one.record, event_of(one.record))[0]
        assert first.split()[0] == str(one.record.position)


def test_decisions_of_a_shadow_are_what_it_would_do() -> None:
    placed = Placement(pod="d/a", uid="u", node="n1")
    event = GangBindDecided(pod_group="d/g", queue="q1", placements=(placed,))
    [line] = narrate(record(event), event, is_shadow=True)
    assert line.endswith("would bind d/g in q1: d/a -> n1")
    refused = PodGroupUnschedulable(
        pod_group="d/g", queue="q1", action="allocate", code="C", message="m"
    )
    assert "would" not in narrate(record(refused), refused, is_shadow=True)[0]
    started = DaemonStarted(
        holder="h", version="1", period_ns=10**9, scheduler_names=("volcano",), is_shadow=True
    )
    [line] = narrate(record(started), started)
    assert line.endswith("pods of volcano, decides about them and acts on nothing")


def test_narration_of_a_production_log_has_wall_clock_times() -> None:
    event = PodBound(pod="default/a", uid="u", node="n1")
    at_ns = 1_767_225_600_123_000_000
    [line] = narrate(record(event, recorded_at_ns=at_ns), event, start_ns=at_ns)
    assert line == "     9  2026-01-01T00:00:00.123Z  pod default/a is bound to n1"


SAID: list[tuple[Event, list[str]]] = [
    (
        ShadowDecisionEnded(pod="d/a", uid="u", node="n1", what="bind", at_ns=1, reason="placed"),
        ["pod d/a has a node: the shadow no longer assumes it on n1"],
    ),
    (
        ShadowDecisionEnded(pod="d/a", uid="u", node="n1", what="bind", at_ns=1, reason="expired"),
        ["pod d/a was not placed in time: the shadow no longer assumes it on n1"],
    ),
    (
        ShadowDecisionEnded(pod="d/a", uid="u", node="n1", what="evict", at_ns=1, reason="expired"),
        ["pod d/a was not evicted from n1 in time: the shadow expects that no longer"],
    ),
    (PolicyWarned(path="tiers[0]", message="unknown"), ["policy warning: tiers[0]: unknown"]),
    (
        GangBindDecided(
            pod_group="d/g",
            queue="q",
            placements=(Placement(pod="d/a", uid="u", node="n1", cards={"H200": 8}),),
        ),
        ["bind d/g in q: d/a -> n1, charged 8 H200 (because of 3)"],
    ),
    (
        PipelineDecided(
            pod_group="d/g",
            queue="q",
            placements=(
                Placement(pod="d/a", uid="u", node="n1"),
                Placement(pod="d/b", uid="v", node="n1"),
            ),
        ),
        ["nominate d/g in q: 2 pods (because of 3)", "d/a -> n1", "d/b -> n1"],
    ),
    (
        PipelineWithdrawn(pod_group="d/g", queue="q", code="NotEnoughPods"),
        ["withdraw the nomination of d/g: NotEnoughPods (because of 3)"],
    ),
    (
        FaultsMarked(
            pod_group="d/g",
            queue="q",
            mode="external-force",
            members=(RestartedPod("d/p", "u", "n1", fault="CardUnhealthy", detail="broken"),),
        ),
        [
            "mark 1 faulty pod of d/g (external-force) (because of 3)",
            "fault: d/p on n1: broken",
        ],
    ),
    (
        ConfigInvalid(subject="Queue//q", code="InvalidCardQuota", message="not JSON"),
        ["invalid configuration of queue q: InvalidCardQuota: not JSON (because of 3)"],
    ),
    (
        ConfigInvalid(subject="Node//n1", code="SeveralProductLabels", message="m"),
        ["invalid configuration of node n1: SeveralProductLabels: m (because of 3)"],
    ),
    (
        ConfigInvalid(subject="PodGroup/d/g", code="InvalidCardRequest", message="m"),
        ["invalid configuration of pod group d/g: InvalidCardRequest: m (because of 3)"],
    ),
    (
        ActionFailed(action="allocate", message="m", is_abandoned=True),
        ["action allocate failed: m; it ended there (because of 3)"],
    ),
    (
        ActionFailed(action="allocate", message="m", is_abandoned=False),
        ["action allocate failed: m; queues are served in turn (because of 3)"],
    ),
    (
        SearchDeferred(pod_group="d/g", queue="q", action="preempt", wanted="0f", nodes=110),
        [
            "search for d/g in q goes on in the next cycle: preempt, nodes looked at: 110"
            " (because of 3)"
        ],
    ),
    (
        WorkDeferred(
            work=900,
            budget=800,
            actions=(
                DeferredAction(
                    action="allocate", queue="q", pod_group="d/g", lines=2, looked=("d/f",)
                ),
            ),
        ),
        [
            "cycle cut short after 900 units of work (because of 3)",
            "allocate stopped before d/g in q, lines left: 2",
        ],
    ),
    (
        BindFailed(pod="d/a", uid="u", node="n1", code="NotFound", message="gone", attempts=2),
        ["pod d/a is not bound to n1 at attempt 2: NotFound: gone"],
    ),
    (
        BindOutcomeUnknown(pod="d/a", uid="u", node="n1", message="timed out"),
        ["pod d/a, bound to n1: no answer: timed out"],
    ),
    (
        PodAnnotated(pod="d/a", uid="u", node="n1"),
        ["pod d/a is annotated with its devices on n1"],
    ),
    (
        PodAnnotationFailed(pod="d/a", uid="u", node="n1", code="NotFound", message="gone"),
        ["pod d/a is not annotated with its devices on n1: NotFound: gone"],
    ),
    (
        PodAnnotationUnknown(pod="d/a", uid="u", node="n1", message="timed out", attempts=3),
        ["pod d/a, annotated with its devices on n1: no answer at attempt 3: timed out"],
    ),
    (
        PodGroupUpdated(pod_group="d/g", phase="Inqueue"),
        ["status of pod group d/g is updated to Inqueue"],
    ),
    (
        PodGroupUpdateFailed(pod_group="d/g", phase="Inqueue", code="NotFound", message="gone"),
        ["status of pod group d/g is not updated to Inqueue: NotFound: gone"],
    ),
    (
        EvictionDecided(
            pod_group="d/g",
            queue="q",
            evictions=(Eviction("d/a", "u", "n1"), Eviction("d/b", "v", "n2")),
            action="preempt",
            in_favour_of="d/h",
        ),
        [
            "evict 2 pods of d/g: preempt for d/h (because of 3)",
            "d/a leaves n1",
            "d/b leaves n2",
        ],
    ),
    (
        PodEvicted(pod="d/a", uid="u", node="n1"),
        ["pod d/a is evicted from n1"],
    ),
    (
        EvictionFailed(pod="d/a", uid="u", node="n1", code="DisruptionBudget", message="one left"),
        ["pod d/a is not evicted from n1: DisruptionBudget: one left"],
    ),
    (
        EvictionOutcomeUnknown(pod="d/a", uid="u", node="n1", message="timed out"),
        ["pod d/a, evicted from n1: no answer: timed out"],
    ),
    (
        StatusUpdated(uid="u", what="PodScheduled"),
        ["pod group d/g has its status updated: PodScheduled"],
    ),
    (
        StatusUpdateFailed(uid="u", what="conditions", code="NotFound", message="gone"),
        ["pod group d/g does not have its status updated: conditions: NotFound: gone"],
    ),
    (
        ServerDiscovered(version="v1.34.4", served=("/v1/nodes", "/v1/pods")),
        ["API server v1.34.4 serves 2 kinds that muster reads"],
    ),
    (
        WatchOpened(resource="Pod", resource_version="7"),
        ["every Pod is watched, from revision 7"],
    ),
    (
        WatchOpened(resource="Pod", resource_version="7", is_resumed=True),
        ["every Pod is watched again, from revision 7"],
    ),
    (
        WatchClosed(
            resource="Pod",
            resource_version="9",
            cause="expired",
            message="too old",
            count=3,
            has_gap=True,
        ),
        ["the watch of Pod expired after 3 events: too old; what happens now is not seen"],
    ),
    (
        WatchProgressed(resource="Pod", resource_version="9"),
        ["every Pod is seen up to revision 9"],
    ),
    (
        KindCompared(resource="Pod", resource_version="9", count=7, differences=0),
        ["every Pod is listed to check its watch: 7, equal to the log"],
    ),
    (
        KindCompared(resource="Pod", resource_version="9", count=7, differences=2),
        ["every Pod is listed to check its watch: 7, 2 differ from the log"],
    ),
    (
        ObjectUnreadable(reason="metadata.uid is missing", shown_digest="0" * 64, size_bytes=90),
        ["pod group d/g cannot be read: metadata.uid is missing"],
    ),
    (
        BindRejectedByNode(pod="d/a", uid="u", node="n1", reason="OutOfcpu", resources=("cpu",)),
        ["pod d/a is rejected by the kubelet of n1: OutOfcpu (cpu) (because of 3)"],
    ),
    (
        ForeignPodPlaced(pod="d/a", uid="u", node="n1", scheduler=""),
        ["pod d/a is on dedicated node n1, bound without a scheduler (because of 3)"],
    ),
    (
        RecordsLost(
            first=7, last=9, digest="ab" * 32, source="the Lease muster", accepted_by="accept_loss"
        ),
        [
            "the log lost its end: positions 7 to 9 (digest abababababab) were written, as the Lease muster states, and are"
            " not in this log; accepted by accept_loss"
        ],
    ),
]


@pytest.mark.parametrize(("event", "said"), SAID)
def test_a_record_says_what_happened_and_why(event: Event, said: list[str]) -> None:
    assert sentences(record(event, cause=3), event) == said


async def test_no_kind_of_event_is_left_without_words() -> None:
    told = {one.record.kind for one in await recorded(SCENARIO)} | {one.kind for one, _ in SAID}
    assert [one.kind for one in DECISIONS if one.lines is Decision.lines] == []
    left = {event.kind for event in EVENTS if not issubclass(event, Decision)} - told
    assert {kind.rsplit("_", 1)[1] for kind in left} <= {"observed.v1", "deleted.v1"}
