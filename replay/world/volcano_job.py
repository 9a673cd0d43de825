"""Volcano Job: a PodGroup first, and pods once that group has left Pending (volcano A.3)."""

from collections.abc import Mapping
from typing import Final

from events.normalize import Json, JsonObject
from replay.world.children import Child, Children
from replay.world.content import (
    Amounts,
    add,
    changed,
    list_at,
    name_of,
    namespace_of,
    phase_of,
    quantities,
    request_of,
    section,
    text_at,
    uid_of,
    whole_at,
)
from replay.world.manifest import VOLCANO_JOB, Manifest
from replay.world.scenario import kind_named
from replay.world.shop import Marks, Shop
from replay.world.store import Key

_POD_GROUP: Final = kind_named("PodGroup")
Task = Mapping[str, Json]


def reconcile_volcano_job(shop: Shop, owner: Manifest, children: Children) -> None:
    """The group says what the job needs; its pods are made when the group is admitted."""
    if text_at(section(owner, "status", "state"), "phase") in ("Completed", "Failed"):
        return
    group = _keep_group(shop, owner)
    tasks = list_at(section(owner, "spec"), "tasks")
    wanted = sum(_replicas(task) for task in tasks)
    # The group is the only other object that the job owns.
    pods = len(children.all) - 1
    if phase_of(group) not in ("", "Pending") and pods != wanted:
        _make_pods(shop, owner, children, tasks)
    if children.active == 0 and wanted and pods == wanted and not children.has_stopping():
        _finish(shop, owner, children)


def _keep_group(shop: Shop, owner: Manifest) -> Manifest:
    name = f"{name_of(owner)}-{uid_of(owner)}"
    key: Key = ("PodGroup", namespace_of(owner), name)
    spec = group_spec(shop, owner)
    found = shop.store.find(key)
    if found is not None:
        if section(found, "spec") == spec:
            return found
        return shop.store.put(_POD_GROUP, {**found, "spec": spec})
    metadata: JsonObject = {
        "labels": dict(section(owner, "metadata", "labels")),
        "annotations": dict(section(owner, "metadata", "annotations")),
    }
    body: JsonObject = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return shop.make(owner, _POD_GROUP, name, body)


def group_spec(shop: Shop, owner: Manifest) -> JsonObject:
    """`PodGroup.spec` of a job: its minimum, by pods, by task and in resources."""
    spec = section(owner, "spec")
    tasks = list_at(spec, "tasks")
    least = {_task_name(task, index): _minimum(task) for index, task in enumerate(tasks)}
    available = whole_at(spec, "minAvailable", sum(least.values()))
    group: JsonObject = {
        "minMember": available,
        "minTaskMember": dict(least),
        "queue": text_at(spec, "queue") or "default",
        "minResources": quantities(_minimum_resources(shop, tasks, available)),
    }
    for key in ("priorityClassName", "networkTopology"):
        if spec.get(key):
            group[key] = spec[key]
    return group


def _minimum_resources(shop: Shop, tasks: list[Task], available: int) -> Amounts:
    """What the first `available` pods ask for: each task's minimum first, where all of them fit in."""
    ordered = sorted(tasks, key=lambda task: -_priority(shop, task))
    counts = [0] * len(ordered)
    if available >= sum(_minimum(task) for task in ordered):
        counts = [_minimum(task) for task in ordered]
    left = available - sum(counts)
    for index, task in enumerate(ordered):
        more = min(left, _replicas(task) - counts[index])
        counts[index] += more
        left -= more
    total: Amounts = {}
    for task, count in zip(ordered, counts, strict=True):
        asked = request_of(section(task, "template", "spec"))
        del asked["pods"]
        add(total, asked, count)
    return {name: amount for name, amount in total.items() if amount}


def _priority(shop: Shop, task: Task) -> int:
    spec = section(task, "template", "spec")
    found = shop.store.find(("PriorityClass", "", text_at(spec, "priorityClassName")))
    return whole_at(found or {}, "value", whole_at(spec, "priority", 0))


def _make_pods(shop: Shop, owner: Manifest, children: Children, tasks: list[Task]) -> None:
    kept: dict[Key, None] = {}
    for index, task in enumerate(tasks):
        role = _task_name(task, index)
        for number in range(_replicas(task)):
            name = f"{name_of(owner)}-{role}-{number}"
            key: Key = ("Pod", namespace_of(owner), name)
            kept[key] = None
            if key not in children.all:
                marks = _marks(owner, task, role, number)
                shop.make_pod(owner, children, section(task, "template"), name, marks=marks)
    for key, child in list(children.all.items()):
        if key[0] == "Pod" and key not in kept and child is not Child.STOPPING:
            shop.dismiss(key, children)


def _marks(owner: Manifest, task: Task, role: str, number: int) -> Marks:
    spec, pod_spec = section(owner, "spec"), section(task, "template", "spec")
    labels = {
        "volcano.sh/job-name": name_of(owner),
        "volcano.sh/job-namespace": namespace_of(owner),
        "volcano.sh/queue-name": text_at(spec, "queue") or "default",
        "volcano.sh/task-spec": role,
        "volcano.sh/task-index": str(number),
    }
    annotations = {
        "scheduling.k8s.io/group-name": f"{name_of(owner)}-{uid_of(owner)}",
        **labels,
    }
    extra: JsonObject = {}
    for key in ("schedulerName", "priorityClassName"):
        if spec.get(key) and not pod_spec.get(key):
            extra[key] = spec[key]
    return Marks(labels, annotations, extra)


def _finish(shop: Shop, owner: Manifest, children: Children) -> None:
    has_failed = any(child is Child.FAILED for child in children.all.values())
    state: JsonObject = {"phase": "Failed" if has_failed else "Completed"}
    shop.store.put(VOLCANO_JOB, changed(owner, "status", state=state))


def _task_name(task: Task, index: int) -> str:
    return text_at(task, "name") or f"default{index}"


def _replicas(task: Task) -> int:
    return whole_at(task, "replicas", 1)


def _minimum(task: Task) -> int:
    return whole_at(task, "minAvailable", _replicas(task))
