"""The history of one subject, record by record: what a record means for a pod, pod group, node, queue or card.

The history of a pod or pod group is made from its own records (`RecordsHistory`). Events of a queue or a card are mostly in
records of pods, so State is folded as well (`FactsHistory`). For nodes see `node_history.py`.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from events.amount_text import amount_text
from events.cluster import ObjectDeleted, ObjectObserved
from events.decision import Decision
from events.json_value import Json
from events.record import Record
from events.subject import subject_text
from events.union import Event, Outcome
from projections.devices import device_of
from projections.nodes import NodeFacts
from projections.queues import QueueFacts
from projections.resource_names import counts_devices
from projections.state import State
from replay.fact_changes import node_changes, queue_changes, queue_limits
from replay.history_event import HistoryEvent
from replay.narrate import sentences
from replay.object_diff import FieldDiff, object_diff
from replay.record_scope import GroupChange, PodChange, PodVersion, Scope

CARD: Final = "Card"
"""The kind of a subject that is a card: all cards of a model, those of a model on a node, or one device."""

WORDS: Final = {
    "status.phase": "phase",
    "spec.nodeName": "node",
    "spec.queue": "queue",
    "spec.minMember": "minimum",
    "spec.priorityClassName": "priority class",
    "metadata.deletionTimestamp": "deletion requested at",
    "status.reason": "reason",
}
"""Fields of objects, and what they are called in a line."""

CONDITIONS: Final = "status.conditions["
"""How paths of fields of conditions begin."""

FIELDS_MAX: Final = 4
"""Changed fields in one line; `muster object --diff` shows all."""

VALUE_CHARS_MAX: Final = 40


class RecordsHistory:
    """The history of a pod or pod group from its own records, without State.

    An object that is observed again is compared with what was observed before.
    """

    def __init__(self, kind: str, key: str) -> None:
        self._pod = key if kind == "Pod" else ""
        self._contents: dict[str, bytes | None] = {}

    def take(self, record: Record, event: Event, content: bytes | None) -> HistoryEvent | None:
        """Return what the next record means; None if it changes nothing."""
        if isinstance(event, Decision):
            texts = _decision(record, self._of_pod(event))
        elif isinstance(event, ObjectObserved):
            is_known = record.subject in self._contents
            before = self._contents.get(record.subject)
            self._contents[record.subject] = content
            if is_known and before is not None and content is not None:
                changed = _object_changes(before, content)
                by = f" (answers {record.cause})" if record.cause is not None else ""
                texts = [f"{subject_text(record.subject)}: {changed}{by}"] if changed else []
            else:
                texts = sentences(record, event, content)
        else:
            self._contents.pop(record.subject, None)
            texts = sentences(record, event, content)
        return HistoryEvent.of(record, texts) if texts else None

    def _of_pod(self, event: Decision) -> Decision | None:
        """Return the part of a decision that is about the pod, or the whole of one about its pod group; None for another pod."""
        if not self._pod or not event.pods:
            return event
        pods = [one for one in event.pods if one.pod == self._pod]
        return event.with_pods(pods) if pods else None


class FactsHistory:
    """The history of a queue or a card. State is that before the first record; `node` is the node of a card, or "" for all."""

    def __init__(self, kind: str, key: str, state: State, node: str = "") -> None:
        self._kind = kind
        self._key = key
        self._node = node
        self._card = key.removeprefix(f"{node}/") if kind == CARD else ""
        self._nodes = self._node_facts(state) if kind != "Queue" else {}
        self._queue = self._queue_facts(state) if kind == "Queue" else None

    def take(
        self, record: Record, event: Event, content: bytes | None, scope: Scope, state: State
    ) -> HistoryEvent | None:
        """Return what a record means, which is applied to State already; None if it does not concern the subject."""
        if self._kind == "Queue":
            texts = self._of_queue(record, event, content, scope, state)
        else:
            texts = self._of_card(record, event, scope, state)
        return HistoryEvent.of(record, texts) if texts else None

    def _changes_of_nodes(
        self, record: Record, state: State, card: str = ""
    ) -> dict[str, tuple[list[str], bool]]:
        """Return what changed of each node, and whether it was there before and is there now."""
        if not record.subject.startswith(("Node/", "ConfigMap")):
            return {}
        before, self._nodes = self._nodes, self._node_facts(state)
        found: dict[str, tuple[list[str], bool]] = {}
        for name in {**before, **self._nodes}:
            old, new = before.get(name), self._nodes.get(name)
            changes = [one.text for one in node_changes(old, new) if not card or card in one.about]
            is_both = old is not None and new is not None
            if changes or not is_both:
                found[name] = (changes, is_both)
        return found

    def _node_facts(self, state: State) -> dict[str, NodeFacts]:
        nodes = state.cluster.nodes.nodes
        if self._node:
            node = nodes.get(self._node)
            return {} if node is None or node.facts is None else {self._node: node.facts}
        return {name: one.facts for name, one in nodes.items() if one.facts is not None}

    # Queues

    def _of_queue(
        self, record: Record, event: Event, content: bytes | None, scope: Scope, state: State
    ) -> list[str]:
        name = self._key
        if record.subject == f"Queue//{name}":
            before, self._queue = self._queue, self._queue_facts(state)
            if not isinstance(event, ObjectObserved):
                return sentences(record, event, content)
            by = f" (changed by {event.changed_by.text})" if event.changed_by is not None else ""
            if before is not None and self._queue is not None:
                return [
                    f"{one}{by}"
                    for one in _texts(f"queue {name}", queue_changes(before, self._queue))
                ]
            limits = "" if self._queue is None else queue_limits(self._queue)
            return [f"queue {name} is seen{': ' if limits else ''}{limits}{by}"]
        if isinstance(event, Decision):
            favoured = state.cluster.groups.get(event.beneficiary)
            is_favoured = favoured is not None and favoured.queue == name
            is_own = getattr(event, "queue", "") == name
            return _decision(record, event) if is_own or is_favoured else []
        if isinstance(event, Outcome):
            return []
        texts = [text for one in scope.groups if (text := _group_in_queue(one, name))]
        ended = {one[0].key for one in scope.groups if one[0] is not None and one[1] is None}
        for one in scope.pods:
            text = _pod_in_queue(one, name)
            if text and (one[0] is None or one[0].group not in ended):
                texts.append(text)
        return texts

    def _queue_facts(self, state: State) -> QueueFacts | None:
        queue = state.cluster.queues.get(self._key)
        return None if queue is None else queue.facts

    # Cards

    def _of_card(self, record: Record, event: Event, scope: Scope, state: State) -> list[str]:
        texts = [text for one in scope.pods for text in self._of_holder(one)]
        for name, (changes, is_both) in self._changes_of_nodes(record, state, self._card).items():
            if is_both:
                texts += [f"node {name}: {one}" for one in changes]
            elif name in self._nodes and self._card in cards_of(self._nodes[name]):
                texts.append(f"node {name} is seen: {_card_state(self._nodes[name], self._card)}")
            elif name not in self._nodes and isinstance(event, ObjectDeleted):
                texts.append(f"node {name} is gone")
        because = f" (decision {record.position})" if texts and isinstance(event, Decision) else ""
        return [f"{texts[0]}{because}", *texts[1:]] if texts else []

    def _of_holder(self, change: PodChange) -> Iterable[str]:
        old, new = change
        had, has = self._held(old), self._held(new)
        if old is not None and had and (had != has or new is None or new.node != old.node):
            end = "it is gone" if new is None else new.status
            yield f"pod {old.key} frees {had} on {old.node}: {end}"
            had = ""
        if new is not None and has and not had:
            yield f"pod {new.key} gets {has} on {new.node}: {new.status}"
        elif old is not None and new is not None and has and old.status != new.status:
            yield f"pod {new.key}, which has {has} on {new.node}: {old.status} -> {new.status}"

    def _held(self, pod: PodVersion | None) -> str:
        """Return what a pod has of the card, as text; empty for nothing."""
        if pod is None or not pod.is_placed or (self._node and pod.node != self._node):
            return ""
        devices = [one for one in pod.devices if self._card in (one, device_of(one))]
        if devices:
            return ", ".join(devices)
        amount = dict(pod.charge).get(self._card) or dict(pod.request).get(self._card, 0)
        names = f" ({', '.join(pod.devices)})" if pod.devices and amount else ""
        return f"{amount_text(self._card, amount)} {self._card}{names}" if amount else ""


def cards_of(facts: NodeFacts) -> list[str]:
    """Return the models of cards of a node, resources of accelerators without a model, and devices."""
    plain = [
        one
        for one in facts.allocatable
        if "/" in one and one not in facts.charged_cards and counts_devices(one)
    ]
    devices = [one for found in facts.devices.values() for one in found.names]
    return list(dict.fromkeys([*facts.charged_cards.values(), *plain, *devices]))


def _card_state(facts: NodeFacts, name: str) -> str:
    for resource, card in facts.charged_cards.items():
        if name == card:
            return f"allocatable {resource} {amount_text(resource, facts.allocatable.get(resource, 0))}"
    if name in facts.allocatable:
        return f"allocatable {name} {amount_text(name, facts.allocatable[name])}"
    return f"it has {name}"


def _decision(record: Record, event: Decision | None) -> list[str]:
    return [] if event is None else sentences(record, event)


def _texts(what: str, changes: list[str]) -> list[str]:
    """Return changes as lines; the first one names what changed."""
    return [f"{what}: {changes[0]}", *changes[1:]] if changes else []


def _group_in_queue(change: GroupChange, queue: str) -> str:
    old, new = change
    was = old is not None and old.queue == queue
    now = new is not None and new.queue == queue
    if new is not None and now and not was:
        moved = f" from queue {old.queue}" if old is not None and old.queue else ""
        minimum = f"minimum {new.min_available}" if new.min_available > 1 else "one pod"
        return f"pod group {new.key} comes{moved}: {minimum}, {new.phase}"
    if old is not None and was and not now:
        moved = f" to queue {new.queue}" if new is not None and new.queue else ""
        return f"pod group {old.key} leaves{moved} (was {old.phase})"
    if old is not None and new is not None and now and old.phase != new.phase:
        return f"pod group {new.key}: {old.phase} -> {new.phase}"
    return ""


def _pod_in_queue(change: PodChange, queue: str) -> str:
    """Return the end of a pod of a queue; empty if it did not end."""
    old, new = change
    if old is None or old.queue != queue or not old.is_placed:
        return ""
    if new is None:
        return f"pod {old.key} is gone from {old.node} (was {old.status})"
    return "" if new.is_placed else f"pod {old.key} on {old.node}: {old.status} -> {new.status}"


def _object_changes(before: bytes, after: bytes) -> str:
    """Return the changed fields of an object in one line; empty if nothing has changed."""
    if before == after:
        return ""
    old: Json = msgspec.json.decode(before)
    new: Json = msgspec.json.decode(after)
    changes = object_diff(old, new)
    known = [one for one in changes if one.field in WORDS]
    others = [one for one in changes if one not in known and not one.field.startswith(CONDITIONS)]
    texts = [_field(one) for one in known]
    texts += _condition_changes(old, new)
    if texts:  # Other fields of the status follow from these.
        others = [one for one in others if not one.field.startswith("status.")]
    texts += [_field(one) for one in others]
    more = len(texts) - FIELDS_MAX
    return ", ".join(texts[:FIELDS_MAX]) + (f" and {more} more" if more > 0 else "")


def _field(change: FieldDiff) -> str:
    name = WORDS.get(change.field, change.field)
    return f"{name} {_cut(change.before)} -> {_cut(change.after)}"


def _condition_changes(old: Json, new: Json) -> list[str]:
    """Return the conditions with another status, reason or message; times alone are no change."""
    was, now = _conditions(old), _conditions(new)
    found: list[str] = []
    for name, condition in now.items():
        status, reason, message = condition
        before = was.get(name, ("", "", ""))
        if before == condition:
            continue
        why = reason or message
        found.append(f"condition {name} {status}" + (f" ({_cut(why)})" if why else ""))
    return [*found, *(f"condition {name} removed" for name in was if name not in now)]


def _conditions(content: Json) -> dict[str, tuple[str, str, str]]:
    """Return the conditions of an object: type to status, reason and message."""
    status = content.get("status") if isinstance(content, dict) else None
    listed = status.get("conditions") if isinstance(status, dict) else None
    found: dict[str, tuple[str, str, str]] = {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            state, reason, message = (
                str(one.get(key, "")) for key in ("status", "reason", "message")
            )
            found[str(one.get("type", ""))] = (state, reason, message)
    return found


def _cut(text: str) -> str:
    text = "none" if text == "-" else text
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 3]}..."
