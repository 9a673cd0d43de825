"""Namespace: its labels, and the queue and the pool that its annotations name."""

from typing import Final

from msgspec import Struct

from events.limits import object_name_problem
from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.inter_pod_affinity_index import put_namespace
from projections.job_option_keys import POOL
from projections.kinds.inherited_queue_name import with_valid_queue_name
from projections.namespace_access import update_namespace
from projections.objects import Metadata, PlainObject, read
from projections.observed_kind import ObservedKind, Reading
from projections.pod_annotations import QUEUE_NAME

NAMESPACES: Final = Resource(
    "Namespace",
    "namespaces",
    is_namespaced=False,
    short_names=("ns",),
    subresources=("status", "finalize"),
    field_selectors=("status.phase",),
    has_generation=False,
)


class NamespacePool(Struct, frozen=True):
    """The pool of the pod groups of a namespace that name none. A namespace without one has no facts."""

    name: str


def pool_of_namespace(cluster: Cluster, namespace: str) -> str:
    """Return the pool that the annotation of a namespace names; "" if it names none."""
    found = cluster.object_facts.get(NAMESPACES.kind, {}).get(f"/{namespace}")
    return found.name if isinstance(found, NamespacePool) else ""


def _apply(cluster: Cluster, reading: Reading) -> None:
    name = reading.subject.rpartition("/")[2]

    def whole(content: bytes) -> Metadata:
        obj = read(PlainObject, content)
        return Metadata(name=name) if isinstance(obj, str) else obj.metadata

    found = reading.of(whole, lambda *_: Metadata(name=name))
    annotations, faults = with_valid_queue_name(found.annotations or {})
    cluster.config_errors.put(reading.subject, (*reading.faults, *faults))
    _set_labels(cluster, name, found.labels or {})
    if queue := annotations.get(QUEUE_NAME):
        cluster.namespaces[name] = queue
    else:
        cluster.namespaces.pop(name, None)
    pool = (found.annotations or {}).get(POOL, "")
    _set_pool(cluster, name, "" if object_name_problem(pool) else pool)


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    cluster.namespaces.pop(name, None)
    _set_pool(cluster, name, "")
    _set_labels(cluster, name, None)


def _set_labels(cluster: Cluster, name: str, labels: dict[str, str] | None) -> None:
    """Set the labels of a namespace; None if it is deleted."""
    known = cluster.inter_pod_affinity.namespaces
    before = known.get(name)
    put_namespace(cluster, name, labels)
    if known.get(name) != before:
        update_namespace(cluster, name)


def _set_pool(cluster: Cluster, namespace: str, pool: str) -> None:
    """Set the pool of the pod groups of a namespace that name none."""
    if pool_of_namespace(cluster, namespace) == pool:
        return
    facts = cluster.object_facts.setdefault(NAMESPACES.kind, {})
    if pool:
        facts[f"/{namespace}"] = NamespacePool(pool)
    else:
        del facts[f"/{namespace}"]
    of_namespace = [one for one in cluster.groups if one.partition("/")[0] == namespace]
    cluster.pod_groups.mark_all(of_namespace, cluster.position)


NAMESPACE: Final = ObservedKind(
    resource=NAMESPACES,
    why="which are being deleted",
    apply=_apply,
    drop=_drop,
    facts=NamespacePool,
)
