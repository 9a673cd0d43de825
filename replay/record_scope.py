"""What a record concerns: the pods, pod groups, nodes and queues whose facts it changes or which it names.

Most records name little: a pod that ends is on a node and in a queue that only State knows. So State is folded with them.
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from events.cluster import ObjectDeleted, ObjectObserved
from events.decision import Decision
from events.record import Record
from events.union import Event
from projections.pod_groups import PodGroup
from projections.pods import Charge, Pod
from projections.state import State


class PodVersion(Struct, frozen=True):
    """A pod as it was before or after a record."""

    key: str
    """`namespace/name`"""
    node: str
    status: str
    group: str
    queue: str
    is_placed: bool
    """Whether it uses resources of its node."""
    charge: Charge
    """What its queue is charged for it."""
    request: Charge
    """What it requests of its node."""
    devices: tuple[str, ...]


class GroupVersion(Struct, frozen=True):
    """A pod group as it was before or after a record."""

    key: str
    queue: str
    phase: str
    min_available: int


PodChange: TypeAlias = tuple[PodVersion | None, PodVersion | None]
"""A pod before and after a record; None where it is not there."""
GroupChange: TypeAlias = tuple[GroupVersion | None, GroupVersion | None]
"""A pod group before and after a record; None where it is not there."""


class Scope(Struct, frozen=True):
    """What one record concerns. Names are in the order in which they were found, each once."""

    pods: tuple[PodChange, ...] = ()
    groups: tuple[GroupChange, ...] = ()
    nodes: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


class ScopeFollower:
    """Fold records into a State and return what each concerns."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._groups = {key: _group_version(one) for key, one in state.cluster.groups.items()}
        """The pod groups as the last records that concerned them left them."""

    def apply(self, record: Record, event: Event, content: bytes | None) -> Scope:
        """Apply the next record. Raises ApplyError as `State.apply` does; then this follower must not be used any more."""
        uids = _uids(record, event)
        before = {uid: self._pod(uid) for uid in uids}
        self.state.apply(record, event, content)
        self.state.settle()
        after = {uid: self._pod(uid) for uid in uids}
        pods = tuple((before[uid], after[uid]) for uid in uids)
        keys = _group_keys(record, event, (*before.values(), *after.values()))
        changes = tuple(self._group_change(key) for key in keys)
        return Scope(
            pods=pods,
            groups=changes,
            nodes=_nodes(record, event, pods),
            queues=self._queues(record, event, pods, changes),
        )

    def _pod(self, uid: str) -> PodVersion | None:
        pod = self.state.cluster.pods.get(uid)
        return None if pod is None else self._version(pod)

    def _version(self, pod: Pod) -> PodVersion:
        group = self.state.cluster.groups.get(pod.group_key)
        return PodVersion(
            key=pod.key,
            node=pod.node,
            status=pod.status,
            group=pod.group_key,
            queue="" if group is None else group.queue,
            is_placed=pod.occupies,
            charge=pod.charge or (),
            request=pod.pod_class.request,
            devices=pod.devices,
        )

    def _group_change(self, key: str) -> GroupChange:
        group = self.state.cluster.groups.get(key)
        old = self._groups.pop(key, None)
        new = None if group is None else _group_version(group)
        if new is not None:
            self._groups[key] = new
        return old, new

    def _queues(
        self,
        record: Record,
        event: Event,
        pods: tuple[PodChange, ...],
        groups: tuple[GroupChange, ...],
    ) -> tuple[str, ...]:
        found = [_name_of(record.subject, "Queue")]
        if isinstance(event, Decision):
            found.append(getattr(event, "queue", ""))
            favoured = self.state.cluster.groups.get(event.beneficiary)
            found.append("" if favoured is None else favoured.queue)
        found += [one.queue for change in pods for one in change if one is not None]
        found += [one.queue for change in groups for one in change if one is not None]
        return tuple(dict.fromkeys(filter(None, found)))


def _group_version(group: PodGroup) -> GroupVersion:
    return GroupVersion(group.key, group.queue, group.decided.phase, group.observed.min_available)


def nodes_named(event: Event) -> list[str]:
    """Return the nodes that a decision, an outcome or another event names."""
    if isinstance(event, Decision):
        return [one.node for one in (*event.pods, *event.items()) if one.node]
    node = getattr(event, "node", "")
    return [node] if isinstance(node, str) and node else []


def _nodes(record: Record, event: Event, pods: tuple[PodChange, ...]) -> tuple[str, ...]:
    found = [_name_of(record.subject, "Node"), *nodes_named(event)]
    found += [one.node for change in pods for one in change if one is not None]
    return tuple(dict.fromkeys(filter(None, found)))


def _uids(record: Record, event: Event) -> list[str]:
    """Return the UIDs of the pods whose facts a record may change."""
    if isinstance(event, ObjectObserved | ObjectDeleted):
        return [event.uid] if record.subject.startswith("Pod/") else []
    if isinstance(event, Decision):
        return list(dict.fromkeys(one.uid for one in event.pods))
    uid = getattr(event, "uid", "")
    return [uid] if isinstance(uid, str) and uid else []


def _group_keys(record: Record, event: Event, pods: Iterable[PodVersion | None]) -> list[str]:
    found = [record.subject.partition("/")[2] if record.subject.startswith("PodGroup/") else ""]
    if isinstance(event, Decision):
        found.append(getattr(event, "pod_group", ""))
    found += [one.group for one in pods if one is not None]
    return list(dict.fromkeys(filter(None, found)))


def _name_of(subject: str, kind: str) -> str:
    """Return the name of a cluster-wide object; empty if the subject is of another kind."""
    prefix = f"{kind}//"
    return subject.removeprefix(prefix) if subject.startswith(prefix) else ""
