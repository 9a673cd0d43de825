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
from projections import snapshot
from tests.scheduling.given import SECOND, Told, gone, node, pod, raw


def record(told: Told, kind: str) -> Record:
    """The one record of a kind since this was last asked."""
    [found] = [one for one in told.records if one.kind.startswith(f"{kind}.")]
    return found


# Lists


def test_what_a_list_does_not_show_any_more_is_gone_and_comes_first() -> None:
    """K4: deletions first, then the rest, by namespace, name and UID."""
    told = Told()
    told.show_all("Node", node("b"), node("c"))
    told.kinds()
    told.show_all("Node", node("d"), node("a"), node("c"))
    assert told.kinds() == [
        "object_deleted Node//b",
        "object_observed Node//a",
        "object_observed Node//d",
        "kind_listed Node//",
    ]


def test_an_unchanged_object_in_a_list_is_not_recorded_again() -> None:
    """K4: the same object, the same content."""
    told = Told()
    told.show_all("Node", node("a"))
    told.kinds()
    told.show_all("Node", node("a"), revision="9")
    assert told.kinds() == ["kind_listed Node//"]
    assert told.state.watched["Node"] == "9"


def test_an_object_made_again_under_its_name_is_deleted_and_added() -> None:
    """K4, K6.8: another UID is another object."""
    told = Told()
    told.show_all("Node", node("a", "old"))
    told.kinds()
    told.show_all("Node", node("a", "new"))
    assert told.kinds() == [
        "object_deleted Node//a",
        "object_observed Node//a",
        "kind_listed Node//",
    ]
    assert told.state.cluster.nodes.nodes["a"].facts is not None


@pytest.mark.parametrize("kind", ["PriorityClass", "Namespace", "PodDisruptionBudget", "HyperNode"])
def test_kinds_of_which_little_is_read_are_compared_as_well(kind: str) -> None:
    told = Told()
    told.show_all(kind, raw(kind, "a"), raw(kind, "b"))
    told.kinds()
    told.show_all(kind, raw(kind, "b"))
    first, listed = told.kinds()
    assert first.endswith("_deleted " + f"{kind}//a")
    assert listed == f"kind_listed {kind}//"


def test_volcano_jobs_differ_from_kubernetes_jobs() -> None:
    told = Told()
    ours = msgspec.json.decode(raw("Job", "a", "u1"))
    theirs = {
        **msgspec.json.decode(raw("Job", "a", "u2")),
        "apiVersion": "batch.volcano.sh/v1alpha1",
    }
    told.show_all("Job", msgspec.json.encode({**ours, "apiVersion": "batch/v1"}))
    told.show_all("Job.batch.volcano.sh", msgspec.json.encode(theirs))
    told.show_all("Job")
    assert told.kinds()[-2:] == ["object_deleted Job/default/a", "kind_listed Job//"]
    assert list(told.state.cluster.others["Job.batch.volcano.sh"]) == ["default/a"]


def test_a_definition_that_is_removed_takes_its_objects_along() -> None:
    told = Told()
    told.show_all("Queue", raw("Queue", "q1", spec={}))
    told.kinds()
    told.see(ListStarted("Queue"), ListCompleted("Queue", "5", 0, served=False))
    assert told.kinds() == ["object_deleted Queue//q1", "kind_listed Queue//"]


def test_a_synthesized_delete_says_so_and_which_gap_it_closes() -> None:
    """K4: such a deletion shows neither success nor failure."""
    told = Told()
    told.show_all("Node", node("a"), revision="3")
    told.see(WatchClosed(resource="Node", resource_version="4", cause="expired", has_gap=True))
    told.show_all("Node", revision="8")
    closed, deleted = record(told, "watch_closed"), record(told, "object_deleted")
    assert deleted.cause == closed.position
    assert msgspec.json.decode(deleted.body)["synthesized"] is True
    assert msgspec.json.decode(deleted.body)["resource_version"] == "8"


def test_a_deletion_seen_by_the_first_list_has_the_daemon_start_as_cause() -> None:
    told = Told()
    told.show_all("Node", node("a"))
    told.kinds()
    told.start()
    started = told.records[-1]
    told.show_all("Node")
    assert record(told, "object_deleted").cause == started.position


def test_a_list_is_recorded_only_when_complete() -> None:
    """K2.5: a list is taken in when its last page is there."""
    told = Told()
    told.see(ListStarted("Node"), ObjectSeen(node("a")))
    assert told.kinds()[1:] == []
    told.see(ListCompleted("Node", "1", 1))
    assert told.kinds() == ["object_observed Node//a", "kind_listed Node//"]


def test_a_long_list_is_recorded_in_parts_as_it_is_recorded_in_one() -> None:
    """A batch holds a part of the objects only, and nothing is decided before the last part."""
    messages: list[WatchMessage] = []
    for kind, raws in (
        ("Node", [node(f"n{index}") for index in range(4)]),
        ("Pod", [pod(f"p{index}", on="n1") for index in range(9)]),
    ):
        seen = [ObjectSeen(raw) for raw in raws]
        messages += [ListStarted(kind), *seen, ListCompleted(kind, "5", len(raws))]
    whole, divided = Told(), Told()
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
    told = Told()
    told.show_all("Node", node("n1"))
    told.show_all("Pod", pod("p", on="n1", phase="Running"))
    told.show_the_rest()
    told.cycle()
    cluster = told.state.cluster
    before, version, known = (
        list(cluster.changed_groups),
        cluster.nodes.changed_slots[:],
        cluster.pods["uid-p"],
    )
    cluster.clear_changed_rows()
    statuses: JsonObject = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "restartCount": 3}],
    }
    told.see(ObjectSeen(with_status(pod("p", on="n1", phase="Running"), statuses)))
    assert told.batches[-1].records[-1].object == cluster.pods["uid-p"].digest
    assert known.digest != cluster.pods["uid-p"].digest
    assert (cluster.changed_groups, cluster.nodes.changed_slots) == (before, version)
    assert not cluster.changed_rows.pods
    assert not told.engine.is_due(2 * SECOND)
    restored = snapshot.restore(snapshot.take(told.state))
    assert snapshot.take(restored) == snapshot.take(told.state)


def test_a_bound_pod_that_begins_to_run_changes_the_counts_of_its_group_only() -> None:
    """Its charges, its place in the scheduling queue and the view rows stay as they are."""
    told = Told()
    told.show_all("Node", node("n1"))
    told.show_all("Pod", pod("p", on="n1"))
    told.show_the_rest()
    told.cycle()
    cluster = told.state.cluster
    [group] = cluster.groups.values()
    assert (group.counts, group.phase) == ({"bound": 1}, "Running")
    cluster.clear_changed_rows()
    told.see(ObjectSeen(pod("p", on="n1", phase="Running")))
    assert told.batches[-1].views == {}
    assert (group.counts["running"], group.phase) == (1, "Running")
    assert not told.engine.is_due(2 * SECOND)
    restored = snapshot.restore(snapshot.take(told.state))
    assert snapshot.take(restored) == snapshot.take(told.state)


def test_an_observation_of_a_pod_whose_condition_was_reported_is_looked_at_again() -> None:
    """Its condition may have been overwritten: the report counts only until the pod is shown."""
    told = Told(updates_status=True)
    told.show_all("Node", node("n1", cpu=1))
    told.show_all("Pod", pod("p", cards=8))
    told.show_the_rest()
    told.cycle()
    [request] = [one for one in told.engine.requests() if isinstance(one, PodConditionRequest)]
    told.engine.report([Answer(request=request, reply=Accepted())], told.now_ns)
    assert not [one for one in told.engine.requests() if isinstance(one, PodConditionRequest)]
    told.see(ObjectSeen(with_status(pod("p", cards=8), {"phase": "Pending", "podIP": "10.0.0.1"})))
    again = [one for one in told.engine.requests() if isinstance(one, PodConditionRequest)]
    assert [one.message for one in again] == [request.message]


def with_status(raw_pod: bytes, status: JsonObject) -> bytes:
    """A pod with another status."""
    manifest: JsonObject = msgspec.json.decode(raw_pod)
    return msgspec.json.encode({**manifest, "status": status})


# Watches


def test_a_watch_that_goes_on_where_the_log_ends_needs_no_list() -> None:
    """Every required kind is known, one way or the other."""
    told = Told()
    told.show_all("Node", node("a"), revision="3")
    told.show_the_rest()
    assert told.state.is_synced
    told.start()
    assert not told.state.is_synced
    for resource in ("Node", "PriorityClass", "Queue", "PodGroup", "Pod"):
        told.see(WatchOpened(resource=resource, resource_version="3", is_resumed=True))
    assert told.state.is_synced
    told.kinds()
    told.see(ObjectSeen(node("b")))
    assert told.kinds() == ["object_observed Node//b"]


def test_with_a_gap_nothing_is_decided_until_the_list() -> None:
    """K3.7"""
    told = Told()
    told.show_the_rest()
    told.see(WatchClosed(resource="Pod", resource_version="4", cause="expired", has_gap=True))
    assert not told.state.is_synced
    told.show_all("Pod")
    assert told.state.is_synced


def test_a_watch_that_merely_ended_leaves_no_gap() -> None:
    told = Told()
    told.show_the_rest()
    told.see(
        WatchClosed(
            resource="Pod", resource_version="4", cause="ended", count=3, duration_ns=SECOND
        )
    )
    assert told.state.is_synced


def test_the_log_knows_how_far_each_kind_was_seen() -> None:
    """K3.3, K3.5: events and bookmarks alike; a list sets it, even back."""
    told = Told()
    told.show_all("Node", revision="5")
    told.see(WatchOpened(resource="Node", resource_version="5"), ObjectSeen(node("a")))
    assert told.state.watched["Node"] == "7"
    told.see(WatchProgressed(resource="Node", resource_version="12"))
    assert told.state.watched["Node"] == "12"
    told.see(gone(node("a")))
    assert told.state.watched["Node"] == "12", "7 came before 12"
    told.show_all("Node", revision="2")
    assert told.state.watched["Node"] == "2"


def test_what_the_server_says_of_itself_is_recorded() -> None:
    """K19"""
    told = Told()
    told.see(ServerDiscovered(version="v1.34.4", served=("/v1/nodes", "/v1/pods")))
    assert told.kinds()[-1] == "server_discovered Server//"


# What kubelets and others did


def placed(told: Told) -> bytes:
    """A pod that muster has bound, as seen then."""
    told.show_all("Node", node("n1", cpu=2), node("n2", cpu=4))
    told.show_all("Pod", pod("a"))
    told.show_the_rest()
    told.cycle()
    [commitment] = told.state.commitments.values()
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
    told = Told()
    placed(told)
    told.see(ObjectSeen(pod("a", on="n1", phase="Failed", reason=reason)))
    event = event_of(record(told, "bind_rejected_by_node"))
    assert isinstance(event, BindRejectedByNode)
    assert (event.node, event.reason, event.resources) == ("n1", reason, resources)


def test_a_device_plugin_that_refuses_puts_its_devices_under_quarantine() -> None:
    told = Told()
    told.show_all("Node", node("n1"))
    told.show_all("Pod", pod("a", cards=2))
    told.show_the_rest()
    told.cycle()
    told.see(
        ObjectSeen(pod("a", on="n1", phase="Failed", reason="UnexpectedAdmissionError", cards=2))
    )
    assert list(told.state.quarantined["n1"]) == ["example.com/card"]


@pytest.mark.parametrize("reason", ["Error", "", "Evicted", "DeadlineExceeded"])
def test_a_pod_that_failed_later_was_not_turned_away(reason: str) -> None:
    told = Told()
    placed(told)
    told.see(ObjectSeen(pod("a", on="n1", phase="Failed", reason=reason)))
    assert not told.state.quarantined


def test_a_kubelet_rejection_is_recorded_once() -> None:
    told = Told()
    placed(told)
    failed = pod("a", on="n1", phase="Failed", reason="OutOfcpu")
    told.see(ObjectSeen(failed))
    told.kinds()
    later = pod("a", on="n1", phase="Failed", reason="OutOfcpu", status={"message": "no room"})
    told.see(ObjectSeen(later))
    assert told.kinds() == ["object_observed Pod/default/a"]


def test_a_pod_bound_by_others_and_turned_away_says_nothing_of_our_choice() -> None:
    told = Told()
    told.show_all("Node", node("n1"))
    told.show_the_rest()
    told.see(ObjectSeen(pod("b", on="n1", spec={"schedulerName": "other"})))
    told.see(
        ObjectSeen(
            pod("b", on="n1", phase="Failed", reason="OutOfcpu", spec={"schedulerName": "other"})
        )
    )
    assert not told.state.quarantined


DEDICATED = {"muster.sh/dedicated": "true"}


@pytest.mark.parametrize(("scheduler", "owner"), [("other", ""), ("", ""), ("muster", "")])
def test_a_pod_that_others_put_on_a_dedicated_node_is_recorded(scheduler: str, owner: str) -> None:
    """K7.6"""
    told = Told()
    told.show_all("Node", node("n1", labels=DEDICATED))
    told.show_the_rest()
    told.see(ObjectSeen(pod("b", on="n1", spec={"schedulerName": scheduler})))
    event = event_of(record(told, "foreign_pod_placed"))
    assert isinstance(event, ForeignPodPlaced)
    assert (event.node, event.scheduler) == ("n1", scheduler)
    told.kinds()
    told.see(ObjectSeen(pod("b", on="n1", phase="Running", spec={"schedulerName": scheduler})))
    assert told.kinds() == ["object_observed Pod/default/b"]


def test_a_taint_dedicates_a_node_as_well() -> None:
    told = Told()
    tainted = msgspec.json.decode(node("n1"))
    tainted["spec"] = {"taints": [{"key": "muster.sh/dedicated", "effect": "NoSchedule"}]}
    told.show_all("Node", msgspec.json.encode(tainted))
    told.show_the_rest()
    told.see(ObjectSeen(pod("b", on="n1", spec={"schedulerName": "other"})))
    assert "foreign_pod_placed Pod/default/b" in told.kinds()


def test_daemon_set_and_mirror_pods_belong_on_their_node() -> None:
    told = Told()
    told.show_all("Node", node("n1", labels=DEDICATED))
    told.show_the_rest()
    for kind in ("DaemonSet", "Node"):
        owner = {"ownerReferences": [{"kind": kind, "name": "x", "uid": "o", "controller": True}]}
        told.see(
            ObjectSeen(pod(kind.lower(), on="n1", metadata=owner, spec={"schedulerName": "other"}))
        )
    assert not any("foreign" in one for one in told.kinds())


def test_our_own_placements_on_a_dedicated_node_are_no_news() -> None:
    told = Told()
    told.show_all("Node", node("n1", labels=DEDICATED))
    told.show_all("Pod", pod("a"))
    told.show_the_rest()
    told.cycle()
    told.see(ObjectSeen(pod("a", on="n1")))
    assert not any("foreign" in one for one in told.kinds())
