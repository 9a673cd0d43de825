"""What the one cycle of a reduced scenario must decide, so that it shows the condition of `muster reduce`."""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from events.decision import Decision, DecisionItem
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.gang_bind import GangBindDecided
from events.normalize import Json
from projections.group_rows import Refusal
from projections.state import State

_WORD: Final = re.compile(r"[^\W\d_][^\s,;:]*")

Item: TypeAlias = tuple[str, DecisionItem]
"""The word of a decision (`bind`), and an entry of it."""


class ItemPattern(Struct, frozen=True):
    """Fields that an entry of a decision must have; those of entries that were found in a log."""

    word: str
    fields: dict[str, str]
    message: str = ""
    """A part of its message; empty for any."""
    message_words: str = ""
    """The words of its message, without numbers; empty for any."""

    def matches(self, item: Item) -> bool:
        """Return True if an entry has these fields."""
        word, entry = item
        return (
            self.word in ("", word)
            and all(getattr(entry, key) == value for key, value in self.fields.items())
            and self.message in entry.message
            and self.message_words in ("", words_of(entry.message))
        )

    @classmethod
    def of(cls, item: Item) -> "ItemPattern":
        """Return the pattern that matches this entry, whatever its message and cards.

        A pod identifies its group, whose name may be derived from a UID.
        """
        word, entry = item
        about = "pod" if entry.pod else "pod_group"
        names = (about, "queue", "node", "code", "in_favour_of")
        return cls(word, {name: getattr(entry, name) for name in names})


class EventPattern(Struct, frozen=True):
    """Fields that a decision itself must have, for those that no entry shows (`requeue_on`)."""

    kind: str
    subject: str
    fields: dict[str, Json]

    def matches(self, event: Decision) -> bool:
        """Return True if a decision has these fields."""
        if (event.kind, event.subject) != (self.kind, self.subject):
            return False
        there = fields_of(event)
        return all(there.get(key) == value for key, value in self.fields.items())


class Waiting(Struct, frozen=True):
    """The refusal that a pod group must have after the cycle; an empty code stands for none."""

    pod_group: str
    code: str
    limit: str
    message_words: str = ""
    """The words of its message, without numbers; empty for any."""

    def holds(self, state: State) -> bool:
        """Return True if the group has this refusal."""
        group = state.cluster.groups.get(self.pod_group)
        refusal = None if group is None else group.main_refusal
        if group is None or refusal is None:
            return group is not None and not self.code
        return (refusal.code, refusal.limit) == (self.code, self.limit) and (
            self.message_words in ("", words_of(refusal.message))
        )

    @classmethod
    def of(cls, pod_group: str, refusal: Refusal | None, *, with_words: bool) -> "Waiting":
        """Return what is to be kept of a refusal."""
        if refusal is None:
            return cls(pod_group, "", "")
        words = words_of(refusal.message) if with_words else ""
        return cls(pod_group, refusal.code, refusal.limit, words)


class Target(Struct, frozen=True, kw_only=True):
    """What a trial must show. `pinned` are subjects of objects that are never removed."""

    made: tuple[ItemPattern, ...] = ()
    """Entries that must be made, in this order."""
    not_made: tuple[ItemPattern, ...] = ()
    """Entries that must not be made."""
    made_event: EventPattern | None = None
    waiting: Waiting | None = None
    is_error: bool = False
    """Whether it also holds if the cycle raises an exception."""
    pinned: tuple[str, ...] = ()
    recorded_nodes: tuple[str, ...] = ()
    """Nodes of a recorded binding that is not made now. With these nodes alone it must be made, so that the reduced
    scenario leaves the recorded decision possible. Empty if that does not hold for all objects either."""
    recorded: Item | None = None
    """The recorded entry that is not made now."""
    decided: Item | None = None
    """The entry that is made now."""


class CycleOutcome(Struct):
    """What a cycle made of a set of objects."""

    state: State | None
    """State after the cycle; None if there is none."""
    events: tuple[Decision, ...] = ()
    is_bug: bool = False
    """Whether the cycle raised an exception that is a bug."""

    @property
    def items(self) -> list[Item]:
        """Return all entries of its decisions."""
        return items_of(self.events)


def items_of(events: Sequence[Decision]) -> list[Item]:
    """Return all entries of decisions, with the words of these."""
    return [(event.word, item) for event in events for item in event.items()]


def words_of(message: str) -> str:
    """Return the different words of a message, sorted: parts of it may be in the order of their numbers."""
    found = {re.sub(r"\d+", "#", one.rstrip(".)")) for one in _WORD.findall(message)}
    return " ".join(sorted(found))


def fields_of(event: Decision) -> dict[str, Json]:
    """Return the fields of a decision as JSON."""
    found: dict[str, Json] = msgspec.to_builtins(event)
    return found


def shows(target: Target, outcome: CycleOutcome) -> bool:
    """Return True if a cycle shows the target, apart from `recorded_nodes`."""
    if outcome.state is None:
        return target.is_error and outcome.is_bug
    items = outcome.items
    start = 0
    for pattern in target.made:
        at = next((at for at in range(start, len(items)) if pattern.matches(items[at])), None)
        if at is None:
            return False
        start = at + 1
    if any(pattern.matches(item) for pattern in target.not_made for item in items):
        return False
    if target.made_event is not None and not any(map(target.made_event.matches, outcome.events)):
        return False
    return target.waiting is None or target.waiting.holds(outcome.state)


def divergence_target(
    recorded: Sequence[Decision], decided: Sequence[Decision], after: State
) -> Target | None:
    """Return what tells two runs of a cycle apart; None if they are equal.

    `recorded` are the decisions in the log, `decided` those made now, and `after` is State behind these.
    """
    recorded_items, decided_items = items_of(recorded), items_of(decided)
    keys_recorded = {_key(one): None for one in recorded_items}
    keys_decided = {_key(one): None for one in decided_items}
    missing = [one for one in recorded_items if _key(one) not in keys_decided]
    extra = [one for one in decided_items if _key(one) not in keys_recorded]
    if missing:
        one, instead = _pair(missing, extra)
        return _missing_target(one, instead, recorded, after)
    if extra:
        return Target(made=(ItemPattern.of(extra[0]),), decided=extra[0])
    return _order_target(recorded_items, decided_items) or _body_target(recorded, decided)


def _pair(missing: list[Item], extra: list[Item]) -> tuple[Item, Item | None]:
    """Return the first recorded entry for whose pod, or else group, something else is decided now; else the first."""
    for name in ("pod", "pod_group"):
        for one in missing:
            about = getattr(one[1], name)
            for other in extra if about else ():
                if getattr(other[1], name) == about:
                    return one, other
    return missing[0], None


def _missing_target(
    one: Item, instead: Item | None, recorded: Sequence[Decision], after: State
) -> Target:
    word, item = one
    waiting: Waiting | None = None
    if instead is None and item.pod_group:
        group = after.cluster.groups.get(item.pod_group)
        if group is not None:
            waiting = Waiting.of(item.pod_group, group.main_refusal, with_words=False)
    nodes: tuple[str, ...] = ()
    if word == "bind":
        found = (event for event in recorded if isinstance(event, GangBindDecided))
        event = next(event for event in found if one in items_of((event,)))
        nodes = tuple(dict.fromkeys(placement.node for placement in event.placements))
    return Target(
        made=() if instead is None else (ItemPattern.of(instead),),
        not_made=(ItemPattern.of(one),),
        waiting=waiting,
        pinned=subjects_of(item),
        recorded_nodes=nodes,
        recorded=one,
        decided=instead,
    )


def subjects_of(item: DecisionItem) -> tuple[str, ...]:
    """Return the subjects of the objects that an entry names."""
    named = (
        ("Pod/", item.pod),
        ("Node//", item.node),
        ("PodGroup/", item.pod_group),
        ("Queue//", item.queue),
        ("PodGroup/", item.in_favour_of),
    )
    return tuple(prefix + name for prefix, name in named if name)


def _order_target(recorded: list[Item], decided: list[Item]) -> Target | None:
    """Return a target for the same entries in another order."""
    for one, other in zip(recorded, decided, strict=False):
        if _key(one) != _key(other):
            patterns = (ItemPattern.of(other), ItemPattern.of(one))
            pinned = (*subjects_of(one[1]), *subjects_of(other[1]))
            return Target(made=patterns, pinned=pinned, recorded=one, decided=other)
    return None


def _body_target(recorded: Sequence[Decision], decided: Sequence[Decision]) -> Target | None:
    """Return a target for entries that differ in what is said of them: messages, or fields of the decision."""
    for one, other in zip(recorded, decided, strict=False):
        if one == other:
            continue
        before, now = fields_of(one), fields_of(other)
        names = [key for key in now if before.get(key) != now[key]]
        items = items_of((one,)), items_of((other,))
        first = next(zip(*items, strict=False), None)
        words = "" if first is None else words_of(first[1][1].message)
        if (
            names == ["message"]
            and first is not None
            and not isinstance(other, ConfigInvalid)
            and words != words_of(first[0][1].message)
        ):
            pattern = ItemPattern.of(first[1])
            made = ItemPattern(pattern.word, pattern.fields, message_words=words)
            return Target(made=(made,), recorded=first[0], decided=first[1])
        wanted = EventPattern(other.kind, other.subject, {key: now[key] for key in names})
        return Target(
            made_event=wanted,
            recorded=None if first is None else first[0],
            decided=None if first is None else first[1],
        )
    return None


def _key(item: Item) -> tuple[object, ...]:
    """Return what identifies an entry: all but its message."""
    word, one = item
    cards = tuple(sorted(one.cards.items()))
    about = (word, one.pod, one.pod_group, one.queue, one.node, one.code, one.in_favour_of)
    return (*about, one.devices, cards)
