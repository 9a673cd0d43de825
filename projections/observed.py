"""Observations into the cluster: what each kind of object says, and what its absence means."""

from typing import Final, TypeAlias

from events.cluster import (
    ConfigMapDeleted,
    ConfigMapObserved,
    HyperNodeDeleted,
    HyperNodeObserved,
    NamespaceDeleted,
    NamespaceObserved,
    NodeDeleted,
    NodeObserved,
    PodDisruptionBudgetDeleted,
    PodDisruptionBudgetObserved,
    PodGroupDeleted,
    PodGroupObserved,
    PriorityClassDeleted,
    PriorityClassObserved,
    QueueDeleted,
    QueueObserved,
    WorkloadDeleted,
    WorkloadObserved,
)
from events.record import Record
from projections.budgets import budget_facts
from projections.cluster import Cluster
from projections.contest import anyone_may_leave
from projections.faults import REQUEST_DIFFERS
from projections.group_facts import group_facts
from projections.hyper_nodes import hyper_node_facts
from projections.inventory import drop_hyper_node, drop_node, put_hyper_node, put_node
from projections.nodes import node_facts
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
from projections.pod_reading import read_facts
from projections.pods import QUEUE_NAME, Pod, pod_facts
from projections.priority_classes import heed_class, put_class
from projections.queue_objects import put_queue
from projections.queues import queue_facts
from projections.regards import put_namespace
from projections.strangers import miss_workload, put_workload, schedulers_of

Seen: TypeAlias = (
    NodeObserved
    | QueueObserved
    | PodGroupObserved
    | PriorityClassObserved
    | NamespaceObserved
    | WorkloadObserved
    | PodDisruptionBudgetObserved
    | HyperNodeObserved
    | ConfigMapObserved
)
Missed: TypeAlias = (
    NodeDeleted
    | QueueDeleted
    | PodGroupDeleted
    | PriorityClassDeleted
    | NamespaceDeleted
    | WorkloadDeleted
    | PodDisruptionBudgetDeleted
    | HyperNodeDeleted
    | ConfigMapDeleted
)


ELSEWHERE: Final = ("Node", "Pod", "PodGroup", "Queue")
"""Kinds whose objects are kept whole, with their UIDs and digests."""


def pod(cluster: Cluster, record: Record, content: bytes) -> Pod:
    """The pod that an observation shows. One that cannot be read is kept, with the reason."""
    found, classes = read_facts(content), cluster.regards.classes
    if isinstance(found, str):
        bare = PodObject(metadata=_metadata(record, content))
        facts, _ = pod_facts(bare)
        pod_class = classes.of(("unreadable", found), lambda: bare, found)
    else:
        facts, key = found
        pod_class = classes.of(key, lambda: readable_pod(content))
    return Pod(facts, pod_class, record.object or "")


def see(cluster: Cluster, record: Record, event: Seen, content: bytes) -> None:
    """Take in an object that came or changed."""
    name = record.subject.rpartition("/")[2]
    _remember(cluster, record, event.uid)
    match event:
        case NodeObserved():
            _see_node(cluster, record, content)
        case QueueObserved():
            _see_queue(cluster, record, content)
        case PodGroupObserved():
            _see_group(cluster, record, content)
        case PriorityClassObserved():
            _see_priority_class(cluster, name, content)
        case NamespaceObserved():
            _see_namespace(cluster, name, content)
        case WorkloadObserved():
            _see_workload(cluster, record, event.uid, content)
        case PodDisruptionBudgetObserved():
            _see_budget(cluster, content)
        case HyperNodeObserved():
            _see_hyper_node(cluster, record, content)
        case ConfigMapObserved():
            pass  # Only the sight of it is kept.


def miss(cluster: Cluster, record: Record, event: Missed) -> None:
    """Take in that an object is gone."""
    name = record.subject.rpartition("/")[2]
    _remember(cluster, record, "")
    match event:
        case NodeDeleted():
            _miss_node(cluster, name, event.uid)
        case QueueDeleted():
            _miss_queue(cluster, name, event.uid)
        case PodGroupDeleted():
            _miss_group(cluster, record, event.uid)
        case PriorityClassDeleted():
            put_class(cluster, name, None)
        case NamespaceDeleted():
            cluster.namespaces.pop(name, None)
            put_namespace(cluster, name, None)
        case WorkloadDeleted():
            put_owner(cluster, event.uid, record.subject.split("/")[1], None)
            miss_workload(cluster, event.uid)
        case PodDisruptionBudgetDeleted():
            _miss_budget(cluster, record)
        case HyperNodeDeleted():
            drop_hyper_node(cluster, name)
        case ConfigMapDeleted():
            pass


def _miss_queue(cluster: Cluster, name: str, uid: str) -> None:
    queue = cluster.queues.get(name)
    if queue is not None and queue.facts is not None and queue.facts.uid == uid:
        put_queue(cluster, None, name, "")


def _miss_group(cluster: Cluster, record: Record, uid: str) -> None:
    key = record.subject.partition("/")[2]
    group = cluster.groups.get(key)
    if group is not None and group.facts is not None and group.facts.uid == uid:
        cluster.drop_group_object(key)
        cluster.faults.put(record.subject, ())


def _miss_budget(cluster: Cluster, record: Record) -> None:
    _, namespace, name = record.subject.split("/")
    cluster.budgets.drop(namespace, name)
    anyone_may_leave(cluster)


def _miss_node(cluster: Cluster, name: str, uid: str) -> None:
    node = cluster.nodes.nodes.get(name)
    if node is not None and node.facts is not None and node.facts.uid == uid:
        drop_node(cluster, name)


def _remember(cluster: Cluster, record: Record, uid: str) -> None:
    """Keep which object stands under this name (or, without a UID, that none does)."""
    resource, _, name = record.subject.partition("/")
    if resource in ELSEWHERE:
        return
    if uid:
        cluster.others.setdefault(resource, {})[name] = (uid, record.object or "")
    else:
        cluster.others.get(resource, {}).pop(name, None)


def _see_node(cluster: Cluster, record: Record, content: bytes) -> None:
    node = cluster.nodes.nodes.get(record.subject.rpartition("/")[2])
    if node is not None and node.digest == record.object:
        return
    obj = read(NodeObject, content)
    if isinstance(obj, str):
        obj = NodeObject(metadata=_metadata(record, content))
    put_node(cluster, node_facts(obj), record.object or "")


def _see_hyper_node(cluster: Cluster, record: Record, content: bytes) -> None:
    obj = read(HyperNodeObject, content)
    problem = ""
    if isinstance(obj, str):
        problem, obj = obj, HyperNodeObject(metadata=_metadata(record, content))
    put_hyper_node(cluster, hyper_node_facts(obj, problem))


def _see_workload(cluster: Cluster, record: Record, uid: str, content: bytes) -> None:
    put_workload(cluster, uid, schedulers_of(content))
    plain = read(PlainObject, content)
    annotations = {} if isinstance(plain, str) else plain.metadata.annotations or {}
    put_owner(cluster, uid, record.subject.split("/")[1], annotations)


def _see_queue(cluster: Cluster, record: Record, content: bytes) -> None:
    queue = cluster.queues.get(record.subject.rpartition("/")[2])
    if queue is not None and queue.digest == record.object:
        return
    obj = read(QueueObject, content)
    problem = ""
    if isinstance(obj, str):
        problem, obj = obj, QueueObject(metadata=_metadata(record, content))
    facts = queue_facts(obj)
    put_queue(cluster, facts, facts.name, record.object or "", problem)


def _see_group(cluster: Cluster, record: Record, content: bytes) -> None:
    obj = read(PodGroupObject, content)
    problem = ""
    if isinstance(obj, str):
        problem, obj = obj, PodGroupObject(metadata=_metadata(record, content))
    facts = group_facts(obj, problem)
    group = cluster.groups.get(f"{facts.namespace}/{facts.name}")
    if group is None or group.digest != record.object:
        cluster.put_group(facts, record.object or "")
        cluster.faults.put(record.subject, facts.faults, keeps=(REQUEST_DIFFERS,))
        heed_class(cluster, cluster.groups[f"{facts.namespace}/{facts.name}"])


def _see_priority_class(cluster: Cluster, name: str, content: bytes) -> None:
    obj = read(PriorityClassObject, content)
    said = (0, False) if isinstance(obj, str) else (obj.value, bool(obj.globalDefault))
    put_class(cluster, name, said)


def _see_budget(cluster: Cluster, content: bytes) -> None:
    obj = read(BudgetObject, content)
    if not isinstance(obj, str) and cluster.budgets.put(budget_facts(obj), cluster.pods.values()):
        anyone_may_leave(cluster)


def _see_namespace(cluster: Cluster, name: str, content: bytes) -> None:
    obj = read(PlainObject, content)
    annotations = {} if isinstance(obj, str) else obj.metadata.annotations or {}
    put_namespace(cluster, name, {} if isinstance(obj, str) else obj.metadata.labels or {})
    if queue := annotations.get(QUEUE_NAME):
        cluster.namespaces[name] = queue
    else:
        cluster.namespaces.pop(name, None)


def _metadata(record: Record, content: bytes) -> Metadata:
    """At least the names of an object that otherwise cannot be read."""
    plain = read(PlainObject, content)
    if not isinstance(plain, str):
        return plain.metadata
    _, namespace, name = record.subject.split("/", 2)
    return Metadata(name=name, namespace=namespace or None, uid="")
