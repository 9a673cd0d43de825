"""Whose a pod group is does not depend on the order in which its Job, its object and its pods were seen."""

from hypothesis import given, settings
from hypothesis import strategies as st

from events.messages import DeletionSeen, ObjectSeen, WatchMessage
from events.normalize import JsonObject
from features.table import FEATURES
from projections.snapshot import restore, take
from tests.scheduling.builders import EngineHarness, raw

SCHEDULERS = st.sampled_from(["", "muster", "volcano", "default-scheduler"])


def job(scheduler: str) -> bytes:
    version = "batch.volcano.sh/v1alpha1"
    return raw("Job", "j", apiVersion=version, spec={"schedulerName": scheduler})


def group(owned: bool, phase: str) -> bytes:
    owner: JsonObject = {"kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
    metadata: JsonObject = {"ownerReferences": [owner]} if owned else {}
    return raw("PodGroup", "g", metadata=metadata, spec={"minMember": 1}, status={"phase": phase})


def pod(index: int, scheduler: str) -> bytes:
    metadata: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec: JsonObject = {"schedulerName": scheduler, "containers": []}
    return raw("Pod", f"p{index}", metadata=metadata, spec=spec)


OBJECTS = st.tuples(
    st.builds(job, SCHEDULERS),
    st.builds(group, st.booleans(), st.sampled_from(["", "Pending", "Inqueue", "Running"])),
    st.builds(pod, st.just(1), SCHEDULERS),
    st.builds(pod, st.just(2), SCHEDULERS),
)


def told_of(messages: list[WatchMessage]) -> EngineHarness:
    """State after these, one by one, with a cycle after each."""
    harness = EngineHarness(updates_status=True)
    harness.show_the_rest()
    for one in messages:
        harness.see(one)
        harness.cycle()
    return harness


@settings(max_examples=60, deadline=None)
@given(st.data(), OBJECTS, st.sets(st.integers(0, 3)))
def test_the_scheduler_of_a_group_follows_from_its_objects(
    data: st.DataObject, objects: tuple[bytes, ...], gone: set[int]
) -> None:
    if 1 not in gone:
        gone = gone - {0}  # What a Job said holds on as long as its group is there.
    shown = [objects[at] for at in data.draw(st.permutations(range(4)))]
    harness = told_of(
        [*map(ObjectSeen, shown), *(DeletionSeen(objects[at]) for at in sorted(gone))]
    )
    left = [one for at, one in enumerate(objects) if at not in gone]
    plain = told_of([ObjectSeen(one) for one in left])
    groups = [
        {key: one.is_foreign for key, one in each.state.cluster.groups.items()}
        for each in (harness, plain)
    ]
    assert groups[0] == groups[1]
    assert harness.state.cluster.foreign_groups.queues == plain.state.cluster.foreign_groups.queues
    for key, is_foreign in groups[0].items():
        found = harness.state.cluster.groups[key]
        assert not is_foreign or not (
            found.pods
            or found.reservation.inqueue
            or harness.state.cluster.scheduling_queue.of(found)
        )
    again = restore(take(harness.state), FEATURES)
    again.validate()
    assert {key: one.is_foreign for key, one in again.cluster.groups.items()} == groups[0]
