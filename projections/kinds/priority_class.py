"""PriorityClass: a name for a priority, and the default."""

from typing import Final

from msgspec import Struct

from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.objects import Int32, Metadata, read
from projections.observed_kind import ObservedKind, Reading
from projections.preemption_triggers import PriorityClass
from projections.priority_classes import put_priority_class

PRIORITY_CLASSES: Final = Resource(
    "PriorityClass",
    "priorityclasses",
    "scheduling.k8s.io",
    is_namespaced=False,
    short_names=("pc",),
    subresources=(),
)


class PriorityClassObject(Struct):
    """A PriorityClass."""

    metadata: Metadata
    value: Int32 = 0
    globalDefault: bool | None = None  # noqa: N815
    preemptionPolicy: str | None = None  # noqa: N815


def _apply(cluster: Cluster, reading: Reading) -> None:
    name = reading.subject.rpartition("/")[2]

    def whole(content: bytes) -> PriorityClass:
        obj = read(PriorityClassObject, content)
        if isinstance(obj, str):
            return PriorityClass()
        return PriorityClass(obj.value, bool(obj.globalDefault), obj.preemptionPolicy == "Never")

    found = reading.of(whole, lambda *_: PriorityClass())
    cluster.config_errors.put(reading.subject, reading.faults)
    put_priority_class(cluster, name, found)


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    put_priority_class(cluster, subject.rpartition("/")[2], None)


PRIORITY_CLASS: Final = ObservedKind(
    resource=PRIORITY_CLASSES,
    why="order of pod groups",
    is_required=True,
    apply=_apply,
    drop=_drop,
)
