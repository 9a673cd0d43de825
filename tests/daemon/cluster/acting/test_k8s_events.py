"""Which records are worth an Event, about what, and with which reason (rule K11, volcano B.14)."""

import msgspec
import pytest

from daemon.cluster.acting.k8s_events import (
    NOTICED,
    PODS_REPORTED_MAX,
    QUOTA_REASONS,
    REASONS,
    EventFactory,
    EventNotice,
    Regarding,
    log_anchored,
)
from events.decision import Eviction
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.eviction import EvictionDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.outcome import BindFailed, EvictionFailed, PodBound, PodEvicted, PodGroupUpdated
from events.record import Fact
from events.union import EVENTS
from events.watch import BindRejectedByNode, ForeignPodPlaced
from features.table import FEATURES
from projections.cluster import Cluster
from projections.policy.policy import parse_policy
from projections.quarantine import record_rejection
from projections.refusals import REFUSAL_CODES
from tests.daemon.cluster.acting.builders import VOLCANO, cluster

POD = Regarding("Pod", "a-0", "uid-a-0", "default")
GROUP = Regarding("PodGroup", "a", "uid-a", "default", VOLCANO)
NODE = Regarding("Node", "n1", "uid-n1")

BOUND = PodBound(pod="default/a-0", uid="uid-a-0", node="n1")


def refusal(code: str = "NotEnoughResources", pod: str = "") -> PodGroupUnschedulable:
    return PodGroupUnschedulable(
        pod_group="default/a", queue="q1", action="allocate", code=code, message="m", pod=pod
    )


def eviction(message: str = "") -> EvictionDecided:
    return EvictionDecided(
        pod_group="default/a",
        queue="q1",
        evictions=(Eviction("default/a-0", "uid-a-0", "n1"),),
        action="preempt",
        in_favour_of="default/b",
        message=message,
    )


def test_a_pod_that_is_bound_is_scheduled_b_15() -> None:
    note = "Successfully assigned default/a-0 to n1"
    assert EventFactory().notices(BOUND, cluster()) == [
        EventNotice(POD, "Normal", "Scheduled", "Binding", note)
    ]


def test_an_unschedulable_event_goes_to_the_pod_group_and_its_pending_pods_b_14() -> None:
    told = EventFactory().notices(refusal(pod="default/a-1"), cluster())
    assert [(one.regarding.name, one.reason) for one in told] == [
        ("a", "Unschedulable"),
        ("a-1", "FailedScheduling"),
        ("a-0", "FailedScheduling"),
    ]
    assert {(one.type, one.action) for one in told} == {("Warning", "NotEnoughResources")}
    assert [one.note for one in told] == [
        "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 1 minAvailable;"
        " Pending: 2 Unschedulable. Origin reason is a-1: m",
        "m",
        "m",
    ], "the same that their conditions say (#2924)"
    assert told[0].regarding == GROUP
    assert told[2].regarding == POD


def test_no_victims_makes_no_unschedulable_event() -> None:
    event = msgspec.structs.replace(refusal(), action="reclaim", code="NoVictims")
    assert EventFactory().notices(event, cluster()) == []


@pytest.mark.parametrize("code", sorted(QUOTA_REASONS))
def test_an_insufficient_quota_event_has_the_reason_that_operators_know_d_9(code: str) -> None:
    told = EventFactory().notices(refusal(code), cluster(pods=1))
    assert [(one.regarding.kind, one.reason) for one in told] == [("PodGroup", code), ("Pod", code)]


def test_what_the_quota_of_cards_refuses_is_reported_by_the_name_of_volcanos_plugin_d_9() -> None:
    by_cards = EventFactory().notices(refusal("InsufficientScalarQuota"), kept_by("capacity-card"))
    assert {one.reporter for one in by_cards} == {"volcano.capacity-card"}
    by_resources = EventFactory().notices(refusal("InsufficientScalarQuota"), kept_by("capacity"))
    other = EventFactory().notices(refusal("NotEnoughResources"), kept_by("capacity-card"))
    assert {one.reporter for one in (*by_resources, *other)} == {"muster.sh/scheduler"}


def kept_by(plugin: str) -> Cluster:
    """A cluster whose quotas a plugin keeps."""
    found = cluster(pods=1)
    document = {"tiers": [{"plugins": [{"name": plugin}]}]}
    found.set_policy(parse_policy(msgspec.json.encode(document), FEATURES.policy_table)[0])
    return found


def test_events_for_a_pod_group_without_pods_and_for_pods_without_a_pod_group() -> None:
    alone = EventFactory().notices(refusal(), cluster(pods=0))
    assert [one.regarding for one in alone] == [GROUP]
    without = EventFactory().notices(refusal(), cluster(pods=1, has_group=False))
    assert [one.regarding.kind for one in without] == ["Pod"]


def test_a_running_gang_gets_no_event_for_pods_above_min_member_b_14() -> None:
    told = EventFactory().notices(refusal(pod="default/a-1"), cluster(pods=2, running=1))
    assert [(one.regarding.name, one.note) for one in told] == [("a-1", "m")]


def test_the_number_of_pods_with_an_unschedulable_event_is_bounded() -> None:
    last = f"default/a-{PODS_REPORTED_MAX + 4}"
    told = EventFactory().notices(refusal(pod=last), cluster(pods=PODS_REPORTED_MAX + 5))
    assert len(told) == 1 + PODS_REPORTED_MAX
    assert told[1].regarding.name == f"a-{PODS_REPORTED_MAX + 4}"


def test_a_group_that_runs_is_ready_b_14() -> None:
    ready = PodGroupUpdated(pod_group="default/a", phase="Running")
    (told,) = EventFactory().notices(ready, cluster())
    assert told == EventNotice(GROUP, "Normal", "Scheduled", "Ready", "pod group is ready")
    assert not EventFactory().notices(
        PodGroupUpdated(pod_group="default/a", phase="Inqueue"), cluster()
    )


def test_an_evict_event_has_its_reason_and_follows_the_eviction_b_15() -> None:
    noticer = EventFactory()
    assert noticer.notices(eviction("it is of higher priority"), cluster()) == []
    evicted = PodEvicted(pod="default/a-0", uid="uid-a-0", node="n1")
    because = "because of preempt in favour of default/b: it is of higher priority"
    assert noticer.notices(evicted, cluster()) == [
        EventNotice(POD, "Warning", "Evict", "Evicting", f"Pod is evicted, {because}"),
        EventNotice(GROUP, "Normal", "Evict", "Evicting", f"Pod default/a-0 is evicted, {because}"),
    ]
    (again,) = noticer.notices(evicted, cluster())
    assert again.note == "Pod is evicted"


def test_a_failed_eviction_makes_an_event() -> None:
    failed = EvictionFailed(
        pod="default/a-0", uid="uid-a-0", node="n1", code="DisruptionBudget", message="no"
    )
    note = "Eviction from node n1 failed: DisruptionBudget: no"
    assert EventFactory().notices(failed, cluster()) == [
        EventNotice(POD, "Warning", "FailedEviction", "DisruptionBudget", note)
    ]


def test_a_failed_binding_makes_an_event_unless_the_pod_is_deleted() -> None:
    def failed(code: str) -> BindFailed:
        return BindFailed(pod="default/a-0", uid="uid-a-0", node="n1", code=code, message="no")

    note = "Binding to node n1 failed: Conflict: no"
    assert EventFactory().notices(failed("Conflict"), cluster()) == [
        EventNotice(POD, "Warning", "FailedBinding", "Conflict", note)
    ]
    assert EventFactory().notices(failed("NotFound"), cluster()) == []


def test_rejected_bindings_and_foreign_placements_make_events_on_the_node() -> None:
    rejected = BindRejectedByNode(
        pod="default/a-0", uid="uid-a-0", node="n1", reason="OutOfcpu", resources=("cpu",)
    )
    (told,) = EventFactory().notices(rejected, cluster())
    assert (told.regarding, told.reason) == (NODE, "RejectedByNode")
    assert told.note == "Pod default/a-0 was rejected: OutOfcpu"
    record_rejection(there := cluster(), rejected)
    (told,) = EventFactory().notices(rejected, there)
    assert told.note == (
        "Pod default/a-0 was rejected: OutOfcpu; closed to pods of its namespace that request cpu for 30 s"
    )
    foreign = ForeignPodPlaced(pod="default/x", uid="uid-x", node="n1", scheduler="other")
    (told,) = EventFactory().notices(foreign, cluster())
    assert (told.regarding, told.reason) == (NODE, "ForeignPlacement")
    gone = BindRejectedByNode(pod="default/a-0", uid="u", node="n9", reason="r", resources=())
    assert EventFactory().notices(gone, cluster()) == []


def test_an_invalid_queue_makes_an_event() -> None:
    (told,) = EventFactory().notices(
        ConfigInvalid(subject="Queue//q1", code="InvalidQuantity", message="m"), cluster()
    )
    assert told.regarding == Regarding("Queue", "q1", "uid-q1", "", VOLCANO)
    assert (told.reason, told.action) == ("InvalidQueue", "InvalidQuantity")
    assert not EventFactory().notices(
        ConfigInvalid(subject="Queue//q9", code="c", message="m"), cluster()
    )


def test_an_invalid_hypernode_event_is_not_on_the_node_of_the_same_name() -> None:
    shown = cluster()
    shown.others["HyperNode"] = {"/n1": ("uid-h", "digest")}
    event = ConfigInvalid(subject="HyperNode//n1", code="InvalidHyperNode", message="m")
    (told,) = EventFactory().notices(event, shown)
    assert told.regarding == Regarding(
        "HyperNode", "n1", "uid-h", "", "topology.volcano.sh/v1alpha1"
    )
    assert told.action == "InvalidHyperNode"


def test_an_invalid_label_makes_an_event_on_its_object() -> None:
    def told(subject: str) -> list[EventNotice]:
        event = ConfigInvalid(subject=subject, code="SeveralProductLabels", message="m")
        return EventFactory().notices(event, cluster())

    assert told("Node//n1") == [
        EventNotice(NODE, "Warning", "Misconfigured", "SeveralProductLabels", "m")
    ]
    (on_group,) = told("PodGroup/default/a")
    assert (on_group.regarding, on_group.note) == (GROUP, "m")
    assert told("Namespace//n1") == [], (
        "an object that is not a node has no Event on a node of its name"
    )
    assert told("Node//n9") == told("PodGroup/default/z") == []


CUT = ConfigInvalid(subject="PodGroup/default/a", code="JobOptionCut", message="m")


def test_a_cut_value_of_a_group_without_an_object_makes_an_event_on_its_first_pod() -> None:
    (on_group,) = EventFactory().notices(CUT, cluster())
    assert on_group.regarding == GROUP
    without = cluster(has_group=False)
    (on_pod,) = EventFactory().notices(CUT, without)
    assert on_pod == EventNotice(POD, "Warning", "Misconfigured", "JobOptionCut", "m")


def test_an_override_that_cannot_be_read_has_an_event_of_its_own() -> None:
    shown = cluster()
    shown.others["GroupOverride"] = {"/ml.a": ("uid-o", "digest")}
    event = ConfigInvalid(subject="GroupOverride//ml.a", code="InvalidObject", message="m")
    (told,) = EventFactory().notices(event, shown)
    assert told.regarding == Regarding("GroupOverride", "ml.a", "uid-o", "", "muster.sh/v1alpha1")


ALL: list[Fact] = [
    *(BOUND, refusal(), PodGroupUpdated(pod_group="default/a", phase="Running")),
    *(refusal(code) for code in sorted(REFUSAL_CODES)),
    BindFailed(pod="default/a-0", uid="u", node="n1", code="Conflict", message="m"),
    eviction(),
    PodEvicted(pod="default/a-0", uid="uid-a-0", node="n1"),
    EvictionFailed(pod="default/a-0", uid="u", node="n1", code="Conflict", message="m"),
    ConfigInvalid(subject="Queue//q1", code="c", message="m"),
    ConfigInvalid(subject="Node//n1", code="c", message="m"),
    ConfigInvalid(subject="PodGroup/default/a", code="c", message="m"),
    BindRejectedByNode(pod="default/a-0", uid="u", node="n1", reason="r", resources=()),
    ForeignPodPlaced(pod="default/a-0", uid="u", node="n1", scheduler=""),
]


def test_reasons_are_a_closed_list_in_camel_case_each_of_which_is_used_k11_4() -> None:
    noticer, state = EventFactory(), cluster()
    told = [one for event in ALL for one in noticer.notices(event, state)]
    told.append(log_anchored(5, "a" * 64, Regarding("Lease", "muster", "")))
    for one in told:
        reason = REASONS[one.reason]
        assert one.type in reason.types
        assert one.regarding.kind in reason.regarding
    without = cluster(has_group=False)
    told += EventFactory().notices(CUT, without)
    used = {(one.reason, one.regarding.kind) for one in told}
    assert used == {(name, kind) for name, one in REASONS.items() for kind in one.regarding}
    assert all(name.isalpha() and name[0].isupper() for name in REASONS)


def test_every_kind_that_is_noticed_is_an_event_and_is_worth_something() -> None:
    noticed = tuple(type(event) for event in ALL)
    assert {event.kind for event in EVENTS if issubclass(event, noticed)} == NOTICED
