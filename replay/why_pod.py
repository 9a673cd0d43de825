"""The chain of causes of a pod from the records about it alone, without State.

A log with an index gives the records of the pod and of its group. State is needed at two moments only: where the pod was placed, and
at the moment asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from events.cluster import ObjectDeleted, ObjectObserved
from events.decision import Decision
from events.decisions.gang_bind import GangBindDecided
from events.outcome import PodBound
from events.record import Record
from projections.device_families import NO_FAMILIES
from projections.pod_group_resolution import group_key_of
from projections.pod_reading import pod_reader
from projections.pods import ObservedPod, Pod, pod_of
from projections.state import State
from replay.why_trail import LoggedEvent, without_repeated

LIVES_MAX: Final = 3
"""Pods of one name, one after the other, whose records are looked up; of more the log is folded."""


class Life(Struct, frozen=True):
    """A pod from its first record to its deletion."""

    uid: str
    begin: int
    """Position of the first record."""
    end: int | None
    """Position of its deletion; None if it is there at the moment asked for."""


class FoundCauses:
    """The records that caused others, as far as they are shown."""

    def __init__(self, found: Mapping[int, LoggedEvent]) -> None:
        self._found = found

    def find(self, position: int) -> LoggedEvent | None:
        """Return the record at a position, if it is a cause that is shown."""
        return self._found.get(position)


def lives_of(own: Sequence[LoggedEvent], begun: Sequence[Life] = ()) -> list[Life]:
    """Return the pods that the records of one name are about, in order; `begun` is the one that is there before them."""
    lives = list(begun)
    for entry in own:
        event, position = entry.event, entry.record.position
        if isinstance(event, ObjectObserved):
            if lives and lives[-1].end is None:
                if lives[-1].uid == event.uid:
                    continue
                lives[-1] = Life(lives[-1].uid, lives[-1].begin, position)
            lives.append(Life(event.uid, position, None))
        elif isinstance(event, ObjectDeleted) and lives and lives[-1].uid == event.uid:
            lives[-1] = Life(event.uid, lives[-1].begin, position)
    return lives


def joins_another_group(own: Sequence[LoggedEvent]) -> bool:
    """Return True if a pod belongs to one pod group first, and then to another one."""
    groups: dict[str, str] = {}
    for entry in own:
        if not isinstance(entry.event, ObjectObserved) or entry.content is None:
            continue
        found = pod_reader(NO_FAMILIES).read_facts(entry.content)
        if isinstance(found, str):
            continue
        group = group_key_of(found[0])
        if groups.setdefault(entry.event.uid, group) != group:
            return True
    return False


def last_bound(own: Sequence[LoggedEvent]) -> int | None:
    """Return the position of the decision by which a pod was bound last; None if it was not."""
    causes = [one.record.cause for one in own if isinstance(one.event, PodBound)]
    return causes[-1] if causes else None


def as_last_seen(own: Sequence[LoggedEvent], before: State) -> Pod | None:
    """Return a pod as the log last shows it on a node, without State at that moment; None if that is not enough.

    `own` are the records of the one pod, and `before` is State before the decision that bound it.
    """
    seen = [one for one in own if isinstance(one.event, ObjectObserved)]
    content = seen[-1].content if seen else None
    if content is None or before.left_out:
        return None
    found = pod_reader(before.cluster.device_families).read_facts(content)
    if isinstance(found, str) or not found[0].node:
        return None
    pod = before.cluster.pods.get(found[0].uid)
    if pod is None:
        return None
    digest = seen[-1].record.object or ""
    return pod_of(ObservedPod(found[0], pod.pod_class, digest, pod.group_key))


def concerned(
    entries: Sequence[LoggedEvent], key: str, groups: Mapping[Life, str]
) -> list[LoggedEvent]:
    """Return those of some records, in order, that concern the pod; `groups` is the pod group of each life."""
    found: list[LoggedEvent] = []
    for entry in without_repeated(entries):
        record, event = entry.record, entry.event
        is_own = record.subject == f"Pod/{key}" or _names(event, key)
        if is_own or any(_is_of_group(entry, one) for one in _groups_at(record, groups)):
            found.append(entry)
    return found


def last_placement(entries: Sequence[LoggedEvent], key: str) -> LoggedEvent | None:
    """Return the last decision that placed the pod or its group."""
    placed = (one for one in reversed(entries) if isinstance(one.event, GangBindDecided))
    return next((one for one in placed if _names(one.event, key)), None)


def _groups_at(record: Record, groups: Mapping[Life, str]) -> list[str]:
    return [
        group
        for life, group in groups.items()
        if group
        and life.begin < record.position
        and (life.end is None or record.position < life.end)
    ]


def _names(event: object, key: str) -> bool:
    return isinstance(event, Decision) and any(one.pod == key for one in event.pods)


def _is_of_group(entry: LoggedEvent, group: str) -> bool:
    event = entry.event
    favoured = event.beneficiary if isinstance(event, Decision) else ""
    if isinstance(event, Decision) and event.pods and not favoured:
        return False
    return entry.record.subject == f"PodGroup/{group}" or favoured == group
