"""The history of a node, without a fold of the whole cluster: only the records that name the node are looked at.

A pod is on the node from the decision or the observation that names the node until it is deleted or moved. The statuses are
those of `Pod.status`.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from events.cluster import ObjectDeleted, ObjectObserved
from events.codec import event_of
from events.decision import Decision
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import ReleaseDecided
from events.outcome import BindFailed, EvictionFailed
from events.record import Record
from events.subject import subject_text
from events.union import Event
from projections.nodes import NodeFacts
from projections.pods import BINDING, BOUND, FAILED, RELEASING, RUNNING, SUCCEEDED, UNKNOWN
from projections.state import State
from replay.fact_changes import node_changes
from replay.history_event import HistoryEvent
from replay.narrate import sentences
from replay.record_scope import nodes_named

_PHASES: Final = {"Running": RUNNING, "Unknown": UNKNOWN}
_ENDED: Final = {"Succeeded": SUCCEEDED, "Failed": FAILED}


class _Metadata(Struct, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _Status(Struct, frozen=True, rename="camel"):
    phase: str | None = None


class _Object(Struct, frozen=True, rename="camel"):
    """What is read of a pod."""

    metadata: _Metadata = _Metadata()
    spec: _Spec | None = None
    status: _Status | None = None


class _PodOnNode(Struct):
    """A pod that was decided for the node, or is on it."""

    key: str
    seen: str
    """Its status without evictions."""
    is_evicted: bool = False

    @property
    def status(self) -> str:
        """Return its status."""
        return RELEASING if self.is_evicted and self.seen not in (SUCCEEDED, FAILED) else self.seen

    @property
    def text(self) -> str:
        """Return its status; `decided` until the API server shows it on the node."""
        return "decided" if self.status == BINDING else self.status


class NodeHistory:
    """What happens to one node. State is that before the first record; of it only nodes and device reports are kept up."""

    def __init__(self, name: str, state: State) -> None:
        self._name = name
        self._subject = f"Node//{name}"
        self._quoted = msgspec.json.encode(name)
        self._state = state
        self._facts = self._node_facts()
        self._pods = {
            uid: _PodOnNode(pod.key, pod.status, bool(pod.evicted))
            for uid, pod in state.cluster.pods.items()
            if pod.node == name
        }

    @property
    def statuses(self) -> dict[str, str]:
        """Return the pods on the node, by UID, with their statuses (`Pod.status`)."""
        return {uid: pod.status for uid, pod in self._pods.items()}

    def replace_state(self, state: State) -> None:
        """Go on from the State behind a record that cannot be applied."""
        self._state = state
        self._facts = self._node_facts()

    def take(self, record: Record, content: bytes | None) -> HistoryEvent | None:
        """Return what the next record means; None if it does not concern the node. Raises ApplyError as `State.apply` does."""
        texts: list[str] = []
        if record.subject == self._subject or record.subject.startswith("ConfigMap"):
            texts = self._of_node(record, event_of(record), content)
        elif record.subject.startswith("Pod/") and record.kind == ObjectDeleted.kind:
            texts = self._deleted(event_of(record))
        elif self._names_node(record, content):
            event = event_of(record)
            if isinstance(event, ObjectObserved):
                texts = [*self._observed(record, event, content)]
            elif self._name in nodes_named(event):
                texts = self._named(record, event)
        elif (
            record.subject.startswith("Pod/") and record.kind == ObjectObserved.kind and self._pods
        ):
            texts = self._elsewhere(event_of(record), content)
        return HistoryEvent.of(record, texts) if texts else None

    def _names_node(self, record: Record, content: bytes | None) -> bool:
        quoted = self._quoted
        return quoted in record.body or (content is not None and quoted in content)

    def _node_facts(self) -> NodeFacts | None:
        node = self._state.cluster.nodes.nodes.get(self._name)
        return None if node is None else node.facts

    def _of_node(self, record: Record, event: Event, content: bytes | None) -> list[str]:
        if not isinstance(event, ObjectObserved | ObjectDeleted):
            return sentences(record, event, content) if record.subject == self._subject else []
        # The records between concern other objects.
        self._state.position = record.position - 1
        self._state.apply(record, event, content)
        self._state.settle()
        before, self._facts = self._facts, self._node_facts()
        changes = [one.text for one in node_changes(before, self._facts)]
        if record.subject != self._subject:
            cause = subject_text(record.subject)
            changes = [f"{one} ({cause})" for one in changes]
        elif before is None or isinstance(event, ObjectDeleted):
            return sentences(record, event, content)
        return [f"node {self._name}: {changes[0]}", *changes[1:]] if changes else []

    def _named(self, record: Record, event: Event) -> list[str]:
        """Return the texts of a decision, an outcome or another event that names the node."""
        if isinstance(event, BindFailed):
            self._pods.pop(event.uid, None)
        elif isinstance(event, EvictionFailed) and event.uid in self._pods:
            self._pods[event.uid].is_evicted = False
        if not isinstance(event, Decision):
            return sentences(record, event)
        for one in event.pods:
            if one.node != self._name:
                continue
            if isinstance(event, GangBindDecided):
                self._pods[one.uid] = _PodOnNode(one.pod, BINDING)
            elif isinstance(event, EvictionDecided) and not isinstance(event, ReleaseDecided):
                pod = self._pods.setdefault(one.uid, _PodOnNode(one.pod, BOUND))
                pod.is_evicted = True
        if not event.pods:
            return sentences(record, event)
        on_node = [one for one in event.pods if one.node == self._name]
        return sentences(record, event.with_pods(on_node) if on_node else event)

    def _observed(
        self, record: Record, event: ObjectObserved, content: bytes | None
    ) -> Iterable[str]:
        if not record.subject.startswith("Pod/") or content is None:
            return
        seen = _read(content)
        if seen.spec is None or seen.spec.node_name != self._name:
            yield from self._elsewhere(event, content)
            return
        key = record.subject.removeprefix("Pod/")
        old = self._pods.get(event.uid)
        new = _PodOnNode(key, _status(seen), old is not None and old.is_evicted)
        self._pods[event.uid] = new
        if old is None:
            yield f"pod {key} is on {self._name}: {new.status}"
        elif old.status != new.status:
            yield f"pod {key}: {old.text} -> {new.text}"

    def _elsewhere(self, event: Event, content: bytes | None) -> list[str]:
        """Return the text of a pod that was decided for this node and is seen on another one."""
        uid = event.uid if isinstance(event, ObjectObserved) else ""
        pod = self._pods.get(uid)
        if pod is None or content is None:
            return []
        node = (_read(content).spec or _Spec()).node_name
        if node in (None, "", self._name):
            return []  # Its binding is not seen yet.
        del self._pods[uid]
        return [f"pod {pod.key} is no longer on {self._name}: it is on {node}"]

    def _deleted(self, event: Event) -> list[str]:
        pod = self._pods.pop(event.uid, None) if isinstance(event, ObjectDeleted) else None
        return [] if pod is None else [f"pod {pod.key} is gone (was {pod.status})"]


def _read(content: bytes) -> _Object:
    try:
        return msgspec.json.decode(content, type=_Object)
    except msgspec.ValidationError:
        return _Object()  # An object that is not as the API server makes it: State refuses it too.


def _status(seen: _Object) -> str:
    """Return the status of a pod that has a node, without evictions."""
    phase = (seen.status or _Status()).phase or ""
    if phase in _ENDED:
        return _ENDED[phase]
    if seen.metadata.deletion_timestamp is not None:
        return RELEASING
    return _PHASES.get(phase, BOUND)
