"""Apply observed objects and deletions to the cluster."""

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct, structs

from events.cluster import ObjectDeleted
from events.limits import CUT, DEPTH_MAX, SPEC_FIELD_BYTES_MAX, TOO_LONG, object_name_problem
from events.record import PodParts, Record
from projections.cluster import Cluster
from projections.config_errors import REQUEST_DIFFERS
from projections.config_errors import Pairs as Faults
from projections.disruption_budgets import BudgetFacts, budget_facts
from projections.foreign_pod_groups import drop_workload, put_workload, schedulers_of
from projections.group_facts import GroupFacts, group_facts
from projections.hyper_nodes import HyperNodeFacts, hyper_node_facts
from projections.inter_pod_affinity_index import put_namespace
from projections.internal_error import OnError, report
from projections.node_updates import drop_hyper_node, drop_node, put_hyper_node, put_node
from projections.nodes import NodeFacts, node_facts
from projections.objects import (
    BudgetObject,
    HyperNodeObject,
    Metadata,
    NodeObject,
    PlainObject,
    PodGroupObject,
    PodObject,
    PriorityClassObject,
    QueueObject,
    read,
    readable_pod,
)
from projections.owners import put_owner
from projections.pod_class import PodClass
from projections.pod_reading import read_facts
from projections.pods import QUEUE_NAME, Pod, PodFacts, pod_facts
from projections.preemption_triggers import wake_preemptors
from projections.priority_classes import check_priority_class, put_priority_class
from projections.queue_objects import put_queue
from projections.queues import QueueFacts, queue_facts

T = TypeVar("T")
WholeT = TypeVar("WholeT", PodGroupObject, HyperNodeObject, NodeObject)
FaultedT = TypeVar("FaultedT", GroupFacts, HyperNodeFacts, NodeFacts)

UNREADABLE: Final = "Unreadable"
"""Code of the error of an object that could not be read because of a bug of muster."""

LEFT_OUT: Final = "NestedTooDeep"
"""Code of the error of an object that is nested too deep."""

LONG_FIELD: Final = "FieldTooLong"
"""Code of the error of a pod with a field in its spec that was left out because of its length."""

_CUT: Final = CUT.encode()
_TOO_LONG: Final = TOO_LONG.encode()

KEPT_WHOLE: Final = ("Node", "Pod", "PodGroup", "Queue")
"""Kinds whose objects are kept with their UIDs and digests in other places."""


class Reading:
    """Read one observed object, before anything is changed.

    If a reader raises (a bug of muster, not of the object), only the name and UID of the object are used, and an
    error is recorded. The log keeps the object, so a release in which the reader is repaired reads it again.
    """

    def __init__(self, record: Record, uid: str, content: bytes, on_error: OnError) -> None:
        self.subject = record.subject
        self.digest = record.object or ""
        self.uid = uid
        self._content = content
        self._on_error = on_error
        self._problem = ""

    @property
    def is_failed(self) -> bool:
        """Return whether the reader raised."""
        return bool(self._problem)

    @property
    def faults(self) -> Faults:
        """Return the errors of the reading itself, as code and message."""
        found: Faults = ((UNREADABLE, self._problem),) if self._problem else ()
        if _CUT in self._content:
            text = f"what is nested deeper than {DEPTH_MAX} levels was left out"
            found = (*found, (LEFT_OUT, text))
        if _TOO_LONG in self._content:
            text = (
                f"a field of the spec that is longer than {SPEC_FIELD_BYTES_MAX} bytes was left out"
            )
            found = (*found, (LONG_FIELD, text))
        return found

    def of(self, whole: Callable[[bytes], T], bare: Callable[[str, Metadata], T]) -> T:
        """Return what `whole` reads; if it raises, what `bare` makes of the reason and the metadata."""
        try:
            return whole(self._content)
        except Exception as error:  # any bug: the other objects must still be handled
            what = report(error, self.subject, "read", self._on_error)
            self._problem = f"object {self.digest[:12]} cannot be read: {what}"
            return bare(self._problem, self._names())

    def metadata(self) -> Metadata:
        """Return the metadata, or only the names if the metadata cannot be read."""
        plain = read(PlainObject, self._content)
        return self._names() if isinstance(plain, str) else plain.metadata

    def _names(self) -> Metadata:
        _, namespace, name = self.subject.split("/", 2)
        return Metadata(name=name, namespace=namespace or None, uid=self.uid)


def read_pod(cluster: Cluster, reading: Reading, parts: PodParts | None = None) -> Pod:
    """Return the observed pod. A pod that cannot be read is kept, with the reason. `parts` are those of its content,
    where they are known."""
    classes = cluster.inter_pod_affinity.classes

    def bare(problem: str, metadata: Metadata) -> tuple[PodFacts, PodClass]:
        plain = PodObject(metadata=metadata)
        return pod_facts(plain)[0], classes.of(("unreadable", problem), lambda: plain, problem)

    def whole(content: bytes) -> tuple[PodFacts, PodClass]:
        found = read_facts(content, parts)
        if isinstance(found, str):
            return bare(found, reading.metadata())
        facts, key = found
        if facts.problem:
            key = (*key, "problem", facts.problem)
        return facts, classes.of(key, lambda: readable_pod(content), facts.problem)

    facts, pod_class = reading.of(whole, bare)
    cluster.config_errors.put(reading.subject, reading.faults)
    return Pod(facts, pod_class, reading.digest)


def apply_object(cluster: Cluster, kind: str, record: Record, reading: Reading) -> None:
    """Apply an object, not a pod, that was added or modified."""
    _keep_identity(cluster, record, reading.uid)
    KINDS.get(kind, OWNER).apply(cluster, reading)


def apply_deletion(cluster: Cluster, kind: str, record: Record, event: ObjectDeleted) -> None:
    """Apply the deletion of an object that is not a pod."""
    _keep_identity(cluster, record, "")
    if kind not in KEPT_WHOLE:
        cluster.config_errors.put(record.subject, ())
    KINDS.get(kind, OWNER).drop(cluster, record.subject, event.uid)


def _drop_queue(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    queue = cluster.queues.get(name)
    if queue is not None and queue.facts is not None and queue.facts.uid == uid:
        put_queue(cluster, None, name, "")
        cluster.config_errors.put(subject, ())


def _drop_group(cluster: Cluster, subject: str, uid: str) -> None:
    key = subject.partition("/")[2]
    group = cluster.groups.get(key)
    if group is not None and group.facts is not None and group.facts.uid == uid:
        cluster.drop_group_object(key)
        cluster.config_errors.put(subject, ())


def _drop_budget(cluster: Cluster, subject: str, uid: str) -> None:
    _, namespace, name = subject.split("/")
    cluster.budgets.drop(namespace, name)
    wake_preemptors(cluster)


def _drop_node(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    node = cluster.nodes.nodes.get(name)
    if node is not None and node.facts is not None and node.facts.uid == uid:
        drop_node(cluster, name)


def _drop_priority_class(cluster: Cluster, subject: str, uid: str) -> None:
    put_priority_class(cluster, subject.rpartition("/")[2], None)


def _drop_namespace(cluster: Cluster, subject: str, uid: str) -> None:
    name = subject.rpartition("/")[2]
    cluster.namespaces.pop(name, None)
    put_namespace(cluster, name, None)


def _drop_workload(cluster: Cluster, subject: str, uid: str) -> None:
    put_owner(cluster, uid, subject.split("/")[1], None)
    drop_workload(cluster, uid)


def _drop_hyper_node(cluster: Cluster, subject: str, uid: str) -> None:
    drop_hyper_node(cluster, subject.rpartition("/")[2])


def _keep_identity(cluster: Cluster, record: Record, uid: str) -> None:
    """Record UID and digest of the object of this name; without a UID, that there is none."""
    resource, _, name = record.subject.partition("/")
    if resource in KEPT_WHOLE:
        return
    if uid:
        cluster.others.setdefault(resource, {})[name] = (uid, record.object or "")
    else:
        cluster.others.get(resource, {}).pop(name, None)


def _apply_node(cluster: Cluster, reading: Reading) -> None:
    node = cluster.nodes.nodes.get(reading.subject.rpartition("/")[2])
    if node is not None and node.digest == reading.digest:
        return
    put_node(cluster, _facts_of(reading, NodeObject, node_facts), reading.digest)


def _apply_hyper_node(cluster: Cluster, reading: Reading) -> None:
    put_hyper_node(cluster, _facts_of(reading, HyperNodeObject, hyper_node_facts))


def _apply_workload(cluster: Cluster, reading: Reading) -> None:
    def bare(problem: str, metadata: Metadata) -> tuple[tuple[str, ...], dict[str, str]]:
        return (), {}

    def whole(content: bytes) -> tuple[tuple[str, ...], dict[str, str]]:
        plain = read(PlainObject, content)
        annotations = {} if isinstance(plain, str) else plain.metadata.annotations or {}
        return schedulers_of(content), annotations

    schedulers, annotations = reading.of(whole, bare)
    annotations, faults = _with_queue_name(annotations)
    cluster.config_errors.put(reading.subject, (*reading.faults, *faults))
    put_workload(cluster, reading.uid, schedulers)
    put_owner(cluster, reading.uid, reading.subject.split("/")[1], annotations)


def _apply_queue(cluster: Cluster, reading: Reading) -> None:
    queue = cluster.queues.get(reading.subject.rpartition("/")[2])
    if queue is not None and queue.digest == reading.digest:
        return

    def bare(problem: str, metadata: Metadata) -> tuple[QueueFacts, str]:
        return queue_facts(QueueObject(metadata=metadata)), problem

    def whole(content: bytes) -> tuple[QueueFacts, str]:
        obj = read(QueueObject, content)
        return bare(obj, reading.metadata()) if isinstance(obj, str) else (queue_facts(obj), "")

    facts, problem = reading.of(whole, bare)
    if reading.is_failed:
        # Its limits are not known: admit nothing more.
        facts = structs.replace(facts, is_open=False)
    cluster.config_errors.put(reading.subject, reading.faults)
    put_queue(cluster, facts, facts.name, reading.digest, problem)


def _apply_group(cluster: Cluster, reading: Reading) -> None:
    facts = _facts_of(reading, PodGroupObject, group_facts)
    group = cluster.groups.get(f"{facts.namespace}/{facts.name}")
    if group is None or group.digest != reading.digest:
        cluster.put_group(facts, reading.digest)
        cluster.config_errors.put(reading.subject, facts.faults, keeps=(REQUEST_DIFFERS,))
        check_priority_class(cluster, cluster.groups[f"{facts.namespace}/{facts.name}"])


def _apply_priority_class(cluster: Cluster, reading: Reading) -> None:
    name = reading.subject.rpartition("/")[2]

    def whole(content: bytes) -> tuple[int, bool]:
        obj = read(PriorityClassObject, content)
        return (0, False) if isinstance(obj, str) else (obj.value, bool(obj.globalDefault))

    value = reading.of(whole, lambda *_: (0, False))
    cluster.config_errors.put(reading.subject, reading.faults)
    put_priority_class(cluster, name, value)


def _apply_budget(cluster: Cluster, reading: Reading) -> None:
    def whole(content: bytes) -> BudgetFacts | None:
        obj = read(BudgetObject, content)
        return None if isinstance(obj, str) else budget_facts(obj)

    facts = reading.of(whole, lambda *_: None)
    cluster.config_errors.put(reading.subject, reading.faults)
    if facts is not None and cluster.budgets.put(facts, cluster.pods.values()):
        wake_preemptors(cluster)


def _apply_namespace(cluster: Cluster, reading: Reading) -> None:
    name = reading.subject.rpartition("/")[2]

    def whole(content: bytes) -> Metadata:
        obj = read(PlainObject, content)
        return Metadata(name=name) if isinstance(obj, str) else obj.metadata

    found = reading.of(whole, lambda *_: Metadata(name=name))
    annotations, faults = _with_queue_name(found.annotations or {})
    cluster.config_errors.put(reading.subject, (*reading.faults, *faults))
    put_namespace(cluster, name, found.labels or {})
    if queue := annotations.get(QUEUE_NAME):
        cluster.namespaces[name] = queue
    else:
        cluster.namespaces.pop(name, None)


def _facts_of(
    reading: Reading, kind: type[WholeT], facts_of: Callable[[WholeT, str], FaultedT]
) -> FaultedT:
    """Return the facts of an object; if it cannot be read, the facts that its metadata gives, with the problem."""

    def bare(problem: str, metadata: Metadata) -> FaultedT:
        return facts_of(kind(metadata=metadata), problem)

    def whole(content: bytes) -> FaultedT:
        obj = read(kind, content)
        return bare(obj, reading.metadata()) if isinstance(obj, str) else facts_of(obj, "")

    return _with_faults(reading.of(whole, bare), reading)


def _with_faults(facts: FaultedT, reading: Reading) -> FaultedT:
    """Add the errors of the reading to the facts."""
    if not reading.faults:
        return facts
    own: Faults = () if reading.is_failed else facts.faults
    return structs.replace(facts, faults=(*reading.faults, *own))


def _with_queue_name(annotations: dict[str, str]) -> tuple[dict[str, str], Faults]:
    """Remove the queue name from the annotations if it is not a valid name; return the error, too."""
    problem = object_name_problem(annotations.get(QUEUE_NAME, ""))
    if not problem:
        return annotations, ()
    kept = {key: text for key, text in annotations.items() if key != QUEUE_NAME}
    text = f"{QUEUE_NAME}: {problem}; it counts as absent"
    return kept, (("InvalidQueueName", text),)


class ObservedKind(Struct, frozen=True):
    """How State applies the objects of one Kubernetes kind."""

    apply: Callable[[Cluster, Reading], None]
    """Applies an object that was added or modified."""
    drop: Callable[[Cluster, str, str], None]
    """Applies the deletion of the object of a subject and UID."""


KINDS: Final[dict[str, ObservedKind]] = {
    "Node": ObservedKind(_apply_node, _drop_node),
    "PodGroup": ObservedKind(_apply_group, _drop_group),
    "Queue": ObservedKind(_apply_queue, _drop_queue),
    "PriorityClass": ObservedKind(_apply_priority_class, _drop_priority_class),
    "Namespace": ObservedKind(_apply_namespace, _drop_namespace),
    "PodDisruptionBudget": ObservedKind(_apply_budget, _drop_budget),
    "HyperNode": ObservedKind(_apply_hyper_node, _drop_hyper_node),
    "ConfigMap": ObservedKind(lambda *_: None, lambda *_: None),
}
"""Kubernetes kind to what applies it. Pods are applied by State, which also keeps what is decided about them; of a
ConfigMap only the identity is kept."""

OWNER: Final = ObservedKind(_apply_workload, _drop_workload)
"""Every other kind is an owner of pods: ReplicaSet, StatefulSet, Job, Volcano Job and others."""
