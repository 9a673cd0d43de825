"""Deployment, ReplicaSet, StatefulSet and Job: how each makes its pods and replaces lost ones."""

from typing import Final

from events.normalize import Json
from replay.world.children import Child, Children
from replay.world.content import changed, name_of, namespace_of, section, text_at, whole_at
from replay.world.manifest import Manifest
from replay.world.scenario import kind_named
from replay.world.shop import Marks, Shop, is_finished

_REPLICA_SET: Final = kind_named("ReplicaSet")
_JOB: Final = kind_named("Job")
_REVISION: Final = "deployment.kubernetes.io/revision"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def reconcile_deployment(shop: Shop, owner: Manifest, children: Children) -> None:
    """One ReplicaSet a template, named by its number; only the newest has replicas."""
    spec = section(owner, "spec")
    replicas = whole_at(spec, "replicas", 1)
    template = section(spec, "template")
    sets = [found for key in children.of("ReplicaSet") if (found := shop.store.find(key))]
    newest = max(sets, key=_revision, default=None)
    for one in sets:
        if one is not newest or section(one, "spec", "template") != template:
            _scale(shop, one, 0)
    if newest is not None and section(newest, "spec", "template") == template:
        _scale(shop, newest, replicas)
        return
    revision = str(1 if newest is None else _revision(newest) + 1)
    annotations = {**section(owner, "metadata", "annotations"), _REVISION: revision}
    labels = dict(section(template, "metadata", "labels"))
    shop.make(
        owner,
        _REPLICA_SET,
        f"{name_of(owner)}-{revision}",
        {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {
                "replicas": replicas,
                "selector": dict(section(spec, "selector")),
                "template": dict(template),
            },
        },
    )


def _revision(replica_set: Manifest) -> int:
    text = text_at(section(replica_set, "metadata", "annotations"), _REVISION)
    return int(text) if text.isdecimal() else 0


def _scale(shop: Shop, replica_set: Manifest, replicas: int) -> None:
    if section(replica_set, "spec").get("replicas") != replicas:
        shop.store.put(_REPLICA_SET, changed(replica_set, "spec", replicas=replicas))


def reconcile_replica_set(shop: Shop, owner: Manifest, children: Children) -> None:
    """So many pods that are not over; those without a node go first, then the youngest."""
    spec = section(owner, "spec")
    replicas, template = whole_at(spec, "replicas", 1), section(spec, "template")
    for _ in range(children.active, replicas):
        shop.make_pod(owner, children, template, f"{name_of(owner)}-{children.made}", marks=Marks())
    if children.active > replicas:
        youngest = reversed(children.pods())
        order = sorted(youngest, key=lambda key: children.all[key] is Child.RUNNING)
        for key in order[: children.active - replicas]:
            shop.dismiss(key, children)


def reconcile_stateful_set(shop: Shop, owner: Manifest, children: Children) -> None:
    """Pods `name-0` to `name-(n-1)`, one after the other, or all at once where it says Parallel."""
    spec = section(owner, "spec")
    replicas, template = whole_at(spec, "replicas", 1), section(spec, "template")
    is_ordered = text_at(spec, "podManagementPolicy") != "Parallel"
    for index in range(replicas):
        name = f"{name_of(owner)}-{index}"
        key = ("Pod", namespace_of(owner), name)
        child = children.all.get(key)
        if child in (Child.SUCCEEDED, Child.FAILED):
            shop.dismiss(key, children)
        if child is None:
            labels = {
                "apps.kubernetes.io/pod-index": str(index),
                "statefulset.kubernetes.io/pod-name": name,
            }
            shop.make_pod(owner, children, template, name, marks=Marks(labels))
        if is_ordered and child is not Child.RUNNING:
            break
    if len(children.all) > replicas:
        kept = {f"{name_of(owner)}-{index}" for index in range(replicas)}
        for key, child in list(children.all.items()):
            if key[2] not in kept and child is not Child.STOPPING:
                shop.dismiss(key, children)


def reconcile_job(shop: Shop, owner: Manifest, children: Children) -> None:
    """Pods until enough have succeeded or too many have failed (`backoffLimit`)."""
    if is_finished(owner):
        return
    spec = section(owner, "spec")
    parallelism = whole_at(spec, "parallelism", 1)
    # Without `completions` the first success means that the work is done.
    completions = whole_at(spec, "completions", 1 if "parallelism" not in spec else 0)
    if children.failed > whole_at(spec, "backoffLimit", 6):
        _finish_job(shop, owner, children, "Failed")
        return
    is_done = children.succeeded >= max(completions, 1) and (completions or children.active == 0)
    if is_done:
        _finish_job(shop, owner, children, "Complete")
        return
    if completions:
        wanted = min(parallelism, completions - children.succeeded)
    else:
        wanted = parallelism if children.succeeded == 0 else children.active
    for _ in range(children.active, wanted):
        _make_job_pod(shop, owner, children)
    for key in children.pods()[wanted:] if children.active > wanted else ():
        shop.dismiss(key, children)


def _make_job_pod(shop: Shop, owner: Manifest, children: Children) -> None:
    name, spec = name_of(owner), section(owner, "spec")
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    annotations: dict[str, str] = {}
    pod_name = f"{name}-{children.made}"
    if text_at(spec, "completionMode") == "Indexed":
        index = _free_index(shop, children)
        labels[_INDEX] = annotations[_INDEX] = index
        pod_name = f"{name}-{index}-{children.made}"
    shop.make_pod(
        owner, children, section(spec, "template"), pod_name, marks=Marks(labels, annotations)
    )


def _free_index(shop: Shop, children: Children) -> str:
    """The least completion index that no pod has or has finished."""
    taken = {
        text_at(section(pod, "metadata", "labels"), _INDEX)
        for key, child in children.all.items()
        if child is not Child.FAILED and (pod := shop.store.find(key)) is not None
    }
    return next(str(index) for index in range(len(taken) + 1) if str(index) not in taken)


def _finish_job(shop: Shop, owner: Manifest, children: Children, how: str) -> None:
    conditions: list[Json] = [{"type": how, "status": "True"}]
    shop.store.put(
        _JOB,
        changed(
            owner,
            "status",
            conditions=conditions,
            succeeded=children.succeeded,
            failed=children.failed,
        ),
    )
    for key in children.pods():
        shop.dismiss(key, children)
