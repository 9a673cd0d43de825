"""The PodGroup of a Volcano Job: its minimum in pods, by task and in resources (volcano A.3)."""

from collections.abc import Mapping
from typing import Final

from events.normalize import Json, JsonObject
from simulator.job_events import PARTITION, TASK_SPEC
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    list_at,
    name_of,
    namespace_of,
    section,
    text_at,
    uid_of,
    whole_at,
)
from simulator.object_factory import ObjectFactory
from simulator.object_store import Key
from simulator.quota_usage import min_resources
from simulator.scenario import kind_named

_POD_GROUP: Final = kind_named("PodGroup")
Task = Mapping[str, Json]


def group_key(owner: Manifest) -> Key:
    """The key of the PodGroup, named after the job and its uid."""
    return "PodGroup", namespace_of(owner), f"{name_of(owner)}-{uid_of(owner)}"


def sync_pod_group(factory: ObjectFactory, owner: Manifest) -> Manifest:
    """Create or update the PodGroup of a job."""
    key = group_key(owner)
    spec = _group_spec(factory, owner)
    found = factory.store.find(key)
    if found is not None:
        if section(found, "spec") == spec:
            return found
        return factory.store.put(_POD_GROUP, {**found, "spec": spec})
    metadata: JsonObject = {
        "labels": dict(section(owner, "metadata", "labels")),
        "annotations": dict(section(owner, "metadata", "annotations")),
    }
    body: JsonObject = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return factory.make(owner, _POD_GROUP, key[2], body)


def tasks_of(owner: Manifest) -> list[tuple[str, Task]]:
    """The tasks of a job by name; a task without a name is called by its index."""
    tasks = list_at(section(owner, "spec"), "tasks")
    return [(text_at(task, "name") or f"default{at}", task) for at, task in enumerate(tasks)]


def replicas_of(task: Task) -> int:
    """The number of pods of a task."""
    return whole_at(task, "replicas", 1)


def minimum_of(task: Task) -> int:
    """The minAvailable of a task; all pods by default."""
    return whole_at(task, "minAvailable", replicas_of(task))


def min_available(owner: Manifest) -> int:
    """The minAvailable of a job; the sum over its tasks by default."""
    total = sum(minimum_of(task) for _, task in tasks_of(owner))
    return whole_at(section(owner, "spec"), "minAvailable", total)


def _group_spec(factory: ObjectFactory, owner: Manifest) -> JsonObject:
    spec = section(owner, "spec")
    tasks = tasks_of(owner)
    available = min_available(owner)
    group: JsonObject = {
        "minMember": available,
        "minTaskMember": {name: minimum_of(task) for name, task in tasks},
        "queue": text_at(spec, "queue") or "default",
        "minResources": _minimum_resources(factory, [task for _, task in tasks], available),
    }
    for key in ("priorityClassName", "networkTopology"):
        if spec.get(key):
            group[key] = spec[key]
    if parts := [_part(name, task) for name, task in tasks if section(task, "partitionPolicy")]:
        group["subGroupPolicy"] = parts
    return group


def _part(name: str, task: Task) -> Json:
    """The partitions of a task as sub-groups: pods with the same partition number are a gang."""
    policy = section(task, "partitionPolicy")
    part: JsonObject = {
        "name": name,
        "labelSelector": {"matchLabels": {TASK_SPEC: name}},
        "matchLabelKeys": [PARTITION],
        "subGroupSize": whole_at(policy, "partitionSize", 1),
    }
    for source, written in (("minPartitions", "minSubGroups"), ("networkTopology",) * 2):
        if policy.get(source):
            part[written] = policy[source]
    return part


def _minimum_resources(factory: ObjectFactory, tasks: list[Task], available: int) -> JsonObject:
    """Return the usage of the first `available` pods: each task's minimum first, if all of them fit in."""
    ordered = sorted(tasks, key=lambda task: -_priority(factory, task))
    counts = [0] * len(ordered)
    if available >= sum(minimum_of(task) for task in ordered):
        counts = [minimum_of(task) for task in ordered]
    left = available - sum(counts)
    for index, task in enumerate(ordered):
        more = min(left, replicas_of(task) - counts[index])
        counts[index] += more
        left -= more
    counted = zip(ordered, counts, strict=True)
    return min_resources(
        (section(task, "template", "spec"), count) for task, count in counted if count
    )


def _priority(factory: ObjectFactory, task: Task) -> int:
    spec = section(task, "template", "spec")
    found = factory.store.find(("PriorityClass", "", text_at(spec, "priorityClassName")))
    return whole_at(found or {}, "value", whole_at(spec, "priority", 0))
