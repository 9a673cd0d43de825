"""Pod groups of other schedulers are left alone (projections/foreign_pod_groups.py)."""

import pytest

from engine.pending_requests import StatusUpdates, bindings_and_evictions
from events.messages import DeletionSeen, ObjectSeen, PodGroupPhaseRequest, QueueStatusRequest
from events.normalize import JsonObject
from features.table import FEATURES
from projections.foreign_pod_groups import schedulers_of
from projections.snapshot import restore, take
from tests.scheduling.builders import EngineHarness, node, raw

OWNER: JsonObject = {
    "ownerReferences": [{"kind": "Job", "name": "j", "uid": "uid-j", "controller": True}]
}


def job(scheduler: str, *templates: str) -> bytes:
    tasks: list[JsonObject] = [
        {"name": f"t{index}", "template": {"spec": {"schedulerName": name}}}
        for index, name in enumerate(templates)
    ]
    version = "batch.volcano.sh/v1alpha1"
    return raw("Job", "j", apiVersion=version, spec={"schedulerName": scheduler, "tasks": tasks})


def group(owned: bool = True, phase: str = "Pending") -> bytes:
    spec: JsonObject = {"minMember": 1, "queue": "q1", "minResources": {"cpu": "1"}}
    return raw("PodGroup", "g", metadata=OWNER if owned else {}, spec=spec, status={"phase": phase})


def named(scheduler: str, name: str = "p", on: str = "") -> bytes:
    annotations: JsonObject = {"scheduling.k8s.io/group-name": "g"}
    placed: JsonObject = {"nodeName": on} if on else {}
    spec: JsonObject = {"schedulerName": scheduler, "containers": [], **placed}
    return raw("Pod", name, metadata={"annotations": annotations}, spec=spec)


def harness() -> EngineHarness:
    """A node and a queue, and everything listed."""
    harness = EngineHarness(updates_status=True)
    harness.show_all("Node", node("n1"))
    harness.show_all("Queue", raw("Queue", "q1", spec={}, status={"allocated": {"cpu": "7"}}))
    harness.show_the_rest()
    harness.cycle()
    return harness


def is_left_alone(harness: EngineHarness) -> bool:
    """Whether the pod group is foreign: it is not queued, and it and its queue get no status."""
    cluster = harness.state.cluster
    found = cluster.groups["default/g"]
    asked = [*bindings_and_evictions(harness.state), *StatusUpdates(harness.state).requests()]
    told_of = [
        one.name for one in asked if isinstance(one, PodGroupPhaseRequest | QueueStatusRequest)
    ]
    if found.is_foreign:
        assert (list(cluster.scheduling_queue.of(found)), found.reservation.inqueue) == ([], ())
        assert set(told_of).isdisjoint({"g", "q1"})
    return found.is_foreign


def test_a_group_whose_job_names_another_scheduler_is_left_alone_in_whatever_phase() -> None:
    told_ = harness()
    told_.see(ObjectSeen(job("volcano")), ObjectSeen(group()))
    told_.cycle()
    assert is_left_alone(told_)
    assert told_.kinds()[-1].startswith("object_observed"), "no cycle was due"
    told_.see(ObjectSeen(group(phase="Inqueue")))
    told_.cycle()
    assert is_left_alone(told_)
    assert told_.state.cluster.groups["default/g"].decided.phase == "Inqueue"
    assert list(told_.engine.requests()) == []
    assert not told_.engine.has_status_updates


def test_a_group_that_came_before_its_job_is_left_alone_once_the_job_is_seen() -> None:
    told_ = harness()
    told_.see(ObjectSeen(group()), ObjectSeen(job("volcano")))
    told_.cycle()
    assert is_left_alone(told_)


@pytest.mark.parametrize(
    "one", [job("muster"), job("volcano", "muster", "volcano"), job(""), job("default-scheduler")]
)
def test_a_pod_group_whose_job_names_this_scheduler_or_none_is_admitted(one: bytes) -> None:
    told_ = harness()
    told_.see(ObjectSeen(one), ObjectSeen(group()))
    told_.cycle()
    assert not is_left_alone(told_)
    assert told_.state.cluster.groups["default/g"].decided.phase == "Inqueue"


def test_without_an_owner_the_pods_that_name_a_group_say_whose_it_is() -> None:
    told_ = harness()
    told_.see(ObjectSeen(named("volcano")), ObjectSeen(group(owned=False)))
    assert is_left_alone(told_)
    told_.see(ObjectSeen(named("muster", "ours")))
    told_.cycle()
    assert not is_left_alone(told_), "one of ours makes it ours"
    told_.see(DeletionSeen(named("muster", "ours")))
    assert told_.state.cluster.groups["default/g"].is_foreign
    told_.see(DeletionSeen(named("volcano")))
    assert not told_.state.cluster.groups["default/g"].is_foreign, (
        "no pod names a scheduler any more"
    )


def test_a_queue_used_by_another_scheduler_gets_no_status() -> None:
    told_ = harness()
    told_.see(ObjectSeen(job("volcano")), ObjectSeen(group()))
    told_.cycle()
    assert [
        one for one in StatusUpdates(told_.state).requests() if isinstance(one, QueueStatusRequest)
    ] == []
    told_.see(DeletionSeen(group()))
    told_.cycle()
    (request,) = [
        one for one in StatusUpdates(told_.state).requests() if isinstance(one, QueueStatusRequest)
    ]
    assert request.allocated == {"cpu": "0", "memory": "0"}


def test_a_job_that_goes_leaves_its_group_to_the_other_scheduler_until_that_goes_too() -> None:
    """The collector takes the group some time after its owner."""
    told_ = harness()
    told_.see(ObjectSeen(job("volcano")), ObjectSeen(group()))
    told_.cycle()
    told_.see(DeletionSeen(job("volcano")))
    told_.cycle()
    assert is_left_alone(told_)
    again = restore(take(told_.state), FEATURES)
    again.validate()
    assert again.cluster.groups["default/g"].is_foreign
    told_.see(DeletionSeen(group()))
    foreign_groups = told_.state.cluster.foreign_groups
    assert (foreign_groups.schedulers, foreign_groups.deleted_owners, foreign_groups.owned) == (
        {},
        {},
        {},
    )
    told_.see(ObjectSeen(job("volcano")), DeletionSeen(job("volcano")))
    assert foreign_groups.schedulers == {}


def test_a_snapshot_keeps_whose_groups_are() -> None:
    told_ = harness()
    told_.see(
        ObjectSeen(job("volcano")), ObjectSeen(group()), ObjectSeen(named("volcano", on="n1"))
    )
    told_.cycle()
    restored = restore(take(told_.state), FEATURES)
    restored.validate()
    assert restored.cluster.groups["default/g"].is_foreign
    assert restored.cluster.foreign_groups.owned == {"uid-j": {"default/g": None}}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (job("volcano"), ("volcano",)),
        (job("volcano", "a", ""), ("a", "volcano")),
        (raw("ReplicaSet", "r", spec={"template": {"spec": {"schedulerName": "b"}}}), ("b",)),
        (raw("ReplicaSet", "r"), ()),
        (raw("Job", "r", spec={"template": {"spec": {"schedulerName": 7}}}), ()),
    ],
)
def test_a_workload_names_the_schedulers_of_its_templates(
    content: bytes, names: tuple[str, ...]
) -> None:
    assert schedulers_of(content) == names
