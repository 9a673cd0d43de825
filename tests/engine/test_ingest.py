"""What the cluster shows, as records: lists compared with the log (K4), watches and gaps, and what
a kubelet or another scheduler did (K5.12, K7.6)."""

from collections import deque

import msgspec
import pytest

from events.codec import event_of
from events.messages import (
    Accepted,
    Answer,
    ListCompleted,
    ListStarted,
    ObjectSeen,
    PodConditionRequest,
    WatchMessage,
)
from events.normalize import JsonObject
from events.record import Record
from events.watch import (
    BindRejectedByNode,
    ForeignPodPlaced,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)
from features.table import FEATURES
from projections import snapshot
from tests.scheduling.builders import SECOND, EngineHarness, gone, node, pod, raw


def record(harness: EngineHarness, kind: str) -> Record:
    """The one record of a kind since this was last asked."""
    [found] = [one for one in harness.records if one.kind.startswith(f"{kind}.")]
    return found


# Lists


def test_what_a_list_does_not_show_any_more_is_gone_and_comes_first() -> None:
    """K4: deletions first, then the rest, by namespace, name and UID."""
    harness = EngineHarness()
    harness.show_all("Node", node("b"), node("c"))
    harness.kinds()
    harness.show_all("Node", node("d"), node("a"), node("c"))
    assert harness.kinds() == [
        "object_deleted Node//b",
        "object_observed Node//a",
        "object_observed Node//d",
        "kind_listed Node//",
    ]


def test_an_unchanged_object_in_a_list_is_not_recorded_again() -> None:
    """K4: the same object, the same content."""
    harness = EngineHarness()
    harness.show_all("Node", node("a"))
    harness.kinds()
    harness.show_all("Node", node("a"), revision="9")
    assert harness.kinds() == ["kind_listed Node//"]
    assert harness.state.watched["Node"] == "9"


def test_an_object_made_again_under_its_name_is_deleted_and_added() -> None:
    """K4, K6.8: another UID is another object."""
    harness = EngineHarness()
    harness.show_all("Node", node("a", "old"))
    harness.kinds()
    harness.show_all("Node", node("a", "new"))
    assert harness.kinds() == [
        "object_deleted Node//a",
        "object_observed Node//a",
        "kind_listed Node//",
    ]
    assert harness.state.cluster.nodes.nodes["a"].facts is not None


@pytest.mark.parametrize("kind", ["PriorityClass", "Namespace", "PodDisruptionBudget", "HyperNode"])
def test_kinds_of_which_little_is_read_are_compared_as_well(kind: str) -> None:
    harness = EngineHarness()
    harness.show_all(kind, raw(kind, "a"), raw(kind, "b"))
    harness.kinds()
    harness.show_all(kind, raw(kind, "b"))
    first, listed = harness.kinds()
    assert first.endswith("_deleted " + f"{kind}//a")
    assert listed == f"kind_listed {kind}//"


def test_volcano_jobs_differ_from_kubernetes_jobs() -> None:
    harness = EngineHarness()
    ours = msgspec.json.decode(raw("Job", "a", "u1"))
    theirs = {
        **msgspec.json.decode(raw("Job", "a", "u2")),
        "apiVersion": "batch.volcano.sh/v1alpha1",
    }
    harness.show_all("Job", msgspec.json.encode({**ours, "apiVersion": "batch/v1"}))
    harness.show_all("Job.batch.volcano.sh", msgspec.json.encode(theirs))
    harness.show_all("Job")
    assert harness.kinds()[-2:] == ["object_deleted Job/default/a", "kind_listed Job//"]
    assert list(harness.state.cluster.others["Job.batch.volcano.sh"]) == ["default/a"]


def test_a_definition_that_is_removed_takes_its_objects_along() -> None:
    harness = EngineHarness()
    harness.show_all("Queue", raw("Queue", "q1", spec={}))
    harness.kinds()
    harness.see(ListStarted("Queue"), ListCompleted("Queue", "5", 0, served=False))
    assert harness.kinds() == ["object_deleted Queue//q1", "kind_listed Queue//"]


def test_a_synthesized_delete_says_so_and_which_gap_it_closes() -> None:
    """K4: such a deletion shows neither success nor failure."""
    harness = EngineHarness()
    harness.show_all("Node", node("a"), revision="3")
    harness.see(WatchClosed(resource="Node", resource_version="4", cause="expired", has_gap=True))
    harness.show_all("Node", revision="8")
    closed, deleted = record(harness, "watch_closed"), record(harness, "object_deleted")
    assert deleted.cause == closed.position
    assert msgspec.json.decode(deleted.body)["synthesized"] is True
    assert msgspec.json.decode(deleted.body)["resource_version"] == "8"


def test_a_deletion_seen_by_the_first_list_has_the_daemon_start_as_cause() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("a"))
    harness.kinds()
    harness.start()
    started = harness.records[-1]
    harness.show_all("Node")
    assert record(harness, "object_deleted").cause == started.position


def test_a_list_is_recorded_only_when_complete() -> None:
    """K2.5: a list is taken in when its last page is there."""
    harness = EngineHarness()
    harness.see(ListStarted("Node"), ObjectSeen(node("a")))
    assert harness.kinds()[1:] == []
    harness.see(ListCompleted("Node", "1", 1))
    assert harness.kinds() == ["object_observed Node//a", "kind_listed Node//"]


def test_a_long_list_is_recorded_in_parts_as_it_is_recorded_in_one() -> None:
    """A batch holds a part of the objects only, and nothing is decided before the last part."""
    messages: list[WatchMessage] = []
    for kind, raws in (
        ("Node", [node(f"n{index}") for index in range(4)]),
        ("Pod", [pod(f"p{index}", on="n1") for index in range(9)]),
    ):
        seen = [ObjectSeen(raw) for raw in raws]
        messages += [ListStarted(kind), *seen, ListCompleted(kind, "5", len(raws))]
    whole, divided = EngineHarness(), EngineHarness()
    whole.see(*messages)
    parts = []
    for part in divided.engine.observe_in_parts(deque(messages), 0, records_max=3):
        parts.append(part)
        assert not divided.state.is_synced
    assert [len(part.records) for part in parts] == [3, 3, 3, 3, 3]
    assert [part.before for part in parts[1:]] == [part.after for part in parts[:-1]]
    found = [record for part in parts for record in part.records]
    expected = whole.batches[-1].records
    assert [(one.subject, one.body, one.object) for one in found] == [
        (one.subject, one.body, one.object) for one in expected
    ]
    assert snapshot.take(divided.state) == snapshot.take(whole.state)
    assert not divided.engine.is_taking_in


# Status that nothing reads


def test_a_pod_of_which_only_unread_status_changes_touches_no_index() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("p", on="n1", phase="Running"))
    harness.show_the_rest()
    harness.cycle()
    cluster = harness.state.cluster
    before, version, known = (
        list(cluster.pod_groups.journal),
        cluster.nodes.changed_slots[:],
        cluster.pods["uid-p"],
    )
    cluster.clear_changed_rows()
    statuses: JsonObject = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "restartCount": 3}],
    }
    harness.see(ObjectSeen(with_status(pod("p", on="n1", phase="Running"), statuses)))
    assert harness.batches[-1].records[-1].object == cluster.pods["uid-p"].digest
    assert known.digest != cluster.pods["uid-p"].digest
    assert (cluster.pod_groups.journal, cluster.nodes.changed_slots) == (before, version)
    assert not cluster.changed_rows.pods
    assert not harness.engine.is_due(2 * SECOND)
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert snapshot.take(restored) == snapshot.take(harness.state)


def test_a_bound_pod_that_begins_to_run_changes_the_counts_of_its_group_only() -> None:
    """Its charges, its place in the scheduling queue and the view rows stay as they are."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("p", on="n1"))
    harness.show_the_rest()
    harness.cycle()
    cluster = harness.state.cluster
    [group] = cluster.groups.values()
    assert (group.counts.by_status, group.decided.phase) == ({"bound": 1}, "Running")
    cluster.clear_changed_rows()
    harness.see(ObjectSeen(pod("p", on="n1", phase="Running")))
    assert harness.batches[-1].views == {}
    assert (group.counts.running, group.decided.phase) == (1, "Running")
    assert not harness.engine.is_due(2 * SECOND)
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert snapshot.take(restored) == snapshot.take(harness.state)


def test_an_observation_of_a_pod_whose_condition_was_reported_is_looked_at_again() -> None:
    """Its condition may have been overwritten: the report counts only until the pod is shown."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("Pod", pod("p", cards=8))
    harness.show_the_rest()
    harness.cycle()
    [request] = [one for one in harness.engine.requests() if isinstance(one, PodConditionRequest)]
    harness.engine.report([Answer(request=request, reply=Accepted())], harness.now_ns)
    assert not [one for one in harness.engine.requests() if isinstance(one, PodConditionRequest)]
    harness.see(
        ObjectSeen(with_status(pod("p", cards=8), {"phase": "Pending", "podIP": "10.0.0.1"}))
    )
    again = [one for one in harness.engine.requests() if isinstance(one, PodConditionRequest)]
    assert [one.message for one in again] == [request.message]


def with_status(raw_pod: bytes, status: JsonObject) -> bytes:
    """A pod with another status."""
    manifest: JsonObject = msgspec.json.decode(raw_pod)
    return msgspec.json.encode({**manifest, "status": status})


# Watches


def test_a_watch_that_goes_on_where_the_log_ends_needs_no_list() -> None:
    """Every required kind is known, one way or the other."""
    harness = EngineHarness()
    harness.show_all("Node", node("a"), revision="3")
    harness.show_the_rest()
    assert harness.state.is_synced
    harness.start()
    assert not harness.state.is_synced
    for resource in ("Node", "PriorityClass", "Queue", "PodGroup", "Pod"):
        harness.see(WatchOpened(resource=resource, resource_version="3", is_resumed=True))
    assert harness.state.is_synced
    harness.kinds()
    harness.see(ObjectSeen(node("b")))
    assert harness.kinds() == ["object_observed Node//b"]


def test_with_a_gap_nothing_is_decided_until_the_list() -> None:
    """K3.7"""
    harness = EngineHarness()
    harness.show_the_rest()
    harness.see(WatchClosed(resource="Pod", resource_version="4", cause="expired", has_gap=True))
    assert not harness.state.is_synced
    harness.show_all("Pod")
    assert harness.state.is_synced


def test_a_watch_that_merely_ended_leaves_no_gap() -> None:
    harness = EngineHarness()
    harness.show_the_rest()
    harness.see(
        WatchClosed(
            resource="Pod", resource_version="4", cause="ended", count=3, duration_ns=SECOND
        )
    )
    assert harness.state.is_synced


def test_the_log_knows_how_far_each_kind_was_seen() -> None:
    """K3.3, K3.5: events and bookmarks alike; a list sets it, even back."""
    harness = EngineHarness()
    harness.show_all("Node", revision="5")
    harness.see(WatchOpened(resource="Node", resource_version="5"), ObjectSeen(node("a")))
    assert harness.state.watched["Node"] == "7"
    harness.see(WatchProgressed(resource="Node", resource_version="12"))
    assert harness.state.watched["Node"] == "12"
    harness.see(gone(node("a")))
    assert harness.state.watched["Node"] == "12", "7 came before 12"
    harness.show_all("Node", revision="2")
    assert harness.state.watched["Node"] == "2"


def test_what_the_server_says_of_itself_is_recorded() -> None:
    """K19"""
    harness = EngineHarness()
    harness.see(ServerDiscovered(version="v1.34.4", served=("/v1/nodes", "/v1/pods")))
    assert harness.kinds()[-1] == "server_discovered Server//"


# What kubelets and others did


def placed(harness: EngineHarness) -> bytes:
    """A pod that muster has bound, as seen then."""
    harness.show_all("Node", node("n1", cpu=2), node("n2", cpu=4))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    harness.cycle()
    [commitment] = harness.state.commitments.values()
    return pod("a", on=commitment.node)


@pytest.mark.parametrize(
    ("reason", "resources"),
    [
        ("OutOfcpu", ("cpu",)),
        ("OutOfmemory", ("pods",)),
        ("OutOfpods", ("pods",)),
        ("UnexpectedAdmissionError", ("pods",)),
        ("NodeAffinity", ("pods",)),
    ],
)
def test_a_pod_that_its_kubelet_turns_away_is_recorded_as_such(
    reason: str, resources: tuple[str, ...]
) -> None:
    """K5.12. What the pod did not ask for cannot be what the node lacks: then it is the whole node."""
    harness = EngineHarness()
    placed(harness)
    harness.see(ObjectSeen(pod("a", on="n1", phase="Failed", reason=reason)))
    event = event_of(record(harness, "bind_rejected_by_node"))
    assert isinstance(event, BindRejectedByNode)
    assert (event.node, event.reason, event.resources) == ("n1", reason, resources)


def test_a_device_plugin_that_refuses_puts_its_devices_under_quarantine() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("a", cards=2))
    harness.show_the_rest()
    harness.cycle()
    harness.see(
        ObjectSeen(pod("a", on="n1", phase="Failed", reason="UnexpectedAdmissionError", cards=2))
    )
    (one,) = harness.state.cluster.quarantines.on("n1")
    assert one.resource == "example.com/card"


@pytest.mark.parametrize("reason", ["Error", "", "Evicted", "DeadlineExceeded"])
def test_a_pod_that_failed_later_was_not_turned_away(reason: str) -> None:
    harness = EngineHarness()
    placed(harness)
    harness.see(ObjectSeen(pod("a", on="n1", phase="Failed", reason=reason)))
    assert not harness.state.cluster.quarantines.all


def test_a_kubelet_rejection_is_recorded_once() -> None:
    harness = EngineHarness()
    placed(harness)
    failed = pod("a", on="n1", phase="Failed", reason="OutOfcpu")
    harness.see(ObjectSeen(failed))
    harness.kinds()
    later = pod("a", on="n1", phase="Failed", reason="OutOfcpu", status={"message": "no room"})
    harness.see(ObjectSeen(later))
    assert harness.kinds() == ["object_observed Pod/default/a"]


def test_a_pod_bound_by_others_and_rejected_quarantines_no_node() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("b", on="n1", spec={"schedulerName": "other"})))
    harness.see(
        ObjectSeen(
            pod("b", on="n1", phase="Failed", reason="OutOfcpu", spec={"schedulerName": "other"})
        )
    )
    assert not harness.state.cluster.quarantines.all


DEDICATED = {"muster.sh/dedicated": "true"}


@pytest.mark.parametrize(("scheduler", "owner"), [("other", ""), ("", ""), ("muster", "")])
def test_a_pod_that_others_put_on_a_dedicated_node_is_recorded(scheduler: str, owner: str) -> None:
    """K7.6"""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", labels=DEDICATED))
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("b", on="n1", spec={"schedulerName": scheduler})))
    event = event_of(record(harness, "foreign_pod_placed"))
    assert isinstance(event, ForeignPodPlaced)
    assert (event.node, event.scheduler) == ("n1", scheduler)
    harness.kinds()
    harness.see(ObjectSeen(pod("b", on="n1", phase="Running", spec={"schedulerName": scheduler})))
    assert harness.kinds() == ["object_observed Pod/default/b"]


def test_a_taint_dedicates_a_node_as_well() -> None:
    harness = EngineHarness()
    tainted = msgspec.json.decode(node("n1"))
    tainted["spec"] = {"taints": [{"key": "muster.sh/dedicated", "effect": "NoSchedule"}]}
    harness.show_all("Node", msgspec.json.encode(tainted))
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("b", on="n1", spec={"schedulerName": "other"})))
    assert "foreign_pod_placed Pod/default/b" in harness.kinds()


def test_daemon_set_and_mirror_pods_belong_on_their_node() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", labels=DEDICATED))
    harness.show_the_rest()
    for kind in ("DaemonSet", "Node"):
        owner = {"ownerReferences": [{"kind": kind, "name": "x", "uid": "o", "controller": True}]}
        harness.see(
            ObjectSeen(pod(kind.lower(), on="n1", metadata=owner, spec={"schedulerName": "other"}))
        )
    assert not any("foreign" in one for one in harness.kinds())


def test_our_own_placements_on_a_dedicated_node_are_no_news() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", labels=DEDICATED))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    harness.cycle()
    harness.see(ObjectSeen(pod("a", on="n1")))
    assert not any("foreign" in one for one in harness.kinds())
