"""Namespace: its labels, and the queue that its annotation names."""

from typing import Final

from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.inter_pod_affinity_index import put_namespace
from projections.kinds.inherited_queue_name import with_valid_queue_name
from projections.objects import Metadata, PlainObject, read
from projections.observed_kind import ObservedKind, Reading
from projections.pods import QUEUE_NAME

NAMESPACES: Final = Resource(
    "Namespace",
    "namespaces",
    is_namespaced=False,
    short_names=("ns",),
    subresources=("status", "finalize"),
    field_selectors=("status.phase",),
    has_generation=False,
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    name = reading.subject.rpartition("/")[2]

    def whole(content: bytes) -> Metadata:
        obj = read(PlainObject, content)
        return Metadata(name=name) if isinstance(obj, str) else obj.metadata

    found = reading.of(whole, lambda *_: Metadata(name=name))
    annotations, faults = with_valid_queue_name(found.annotations or {})
    cluster.config_errors.put(reading.subject, (*reading.faults, *faults))
    put_namespace(cluster, name, found.labels or {})
    if queue := annotations.get(QUEUE_NAME):
        cluster.namespaces[name] = queue
    else:
        cluster.namespaces.pop(name, None)


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    cluster.namespaces.pop(name, None)
    put_namespace(cluster, name, None)


NAMESPACE: Final = ObservedKind(
    resource=NAMESPACES, why="which are being deleted", apply=_apply, drop=_drop
)
