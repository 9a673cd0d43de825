"""What was used between two moments, in card-hours, and how long pods waited: from the views of a log."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.log.store import SqlLog
from daemon.queries.bases import past_at_base
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, recorded_at_ns, resolved
from daemon.queries.recorded_pods import (
    EarlierObjects,
    RecordedPod,
    pods_at,
    pods_of_groups,
    top_owners,
)
from events.errors import UsageError
from events.limits import quoted
from projections.views.catalogue import PLACEMENT, POD_GROUP

HOUR_NS: Final = 3_600_000_000_000
NOT_FINISHED: Final = ("failed", "bind failed")
"""Why pods were released without having done their work."""

_PLACEMENTS: Final = """
select pod, pod_group, queue, node, cards, bound_at_ns, released_at_ns, reason,
       case when exists (select 1 from decision d
                          where d.subject = 'Pod/' || p.pod and d.kind in ('evict', 'release')
                            and d.position > p.bound_position
                            and (p.released_position is null or d.position <= p.released_position))
            then 1 else 0 end,
       bound_position, {seen}
  from placement p
 where bound_at_ns < {end} and (released_at_ns is null or released_at_ns > {start})
"""
_SEEN: Final = """(select l.position from log l
          where l.subject = 'Pod/' || p.pod and l.kind = 'object_observed.v1' and l.position <= p.bound_position
          order by l.position desc limit 1)"""
"""The observation of a pod that was the newest when it was bound."""
_WAITS: Final = """
select g.pod_group, g.queue, g.pods_wanted - g.pods_bound, f.recorded_at_ns, t.recorded_at_ns
  from pod_group_history g
  join log f on f.position = g.from_position
  left join log t on t.position = g.to_position
 where g.pods_wanted > g.pods_bound and f.recorded_at_ns < {end}
   and (t.recorded_at_ns is null or t.recorded_at_ns > {start})
"""


class Usage(Struct):
    """What one queue, namespace, ... used. Each number is of the stretch only."""

    name: str
    """Empty for pods without the label."""
    card_hours: dict[str, float] = {}
    """Card to the hours that pods had it."""
    lost_card_hours: float = 0
    """Of pods that failed, or were evicted or asked to exit."""
    pod_hours: float = 0
    """Of pods with a node, those without cards among them."""
    pods: int = 0
    """Times that a pod had a node."""
    preempted: int = 0
    """Those of them that were evicted or asked to exit."""
    waiting_pod_hours: float = 0
    """Of pods that waited for a node."""

    @property
    def total_card_hours(self) -> float:
        """Return the hours of all cards."""
        return sum(self.card_hours.values())


class UsageAnswer(Struct):
    """The usage of a stretch of a log, the largest first."""

    by: str
    start_ns: int
    end_ns: int
    rows: list[Usage]


class _Placement(Struct, array_like=True):
    """A row of the query of placements; of `_Wait`, only whose it is."""

    pod: str
    pod_group: str
    queue: str
    node: str = ""
    cards: str = "{}"
    since_ns: int = 0
    until_ns: int | None = None
    reason: str = ""
    was_asked: int = 0
    bound_position: int = 0
    seen: int | None = None
    """Position of the observation with its labels and owners."""

    @property
    def namespace(self) -> str:
        return self.pod.partition("/")[0]


class _Wait(Struct, array_like=True):
    """A row of the query of waits."""

    pod_group: str
    queue: str
    pods: int
    since_ns: int
    until_ns: int | None


_NameOf: TypeAlias = Callable[[_Placement], str]

BY: Final[Mapping[str, _NameOf]] = {
    "queue": lambda one: one.queue,
    "namespace": lambda one: one.namespace,
    "group": lambda one: one.pod_group,
    "node": lambda one: one.node,
}
"""What usage can be summed up by out of the views alone; waiting is not known by node."""

OWNER: Final = "owner"
LABEL: Final = "label:"
"""Further ones, which the objects of pods name; the key of the label follows."""

BY_FORMS: Final = (*BY, OWNER, f"{LABEL}KEY")


def check_by(by: str) -> None:
    """Raise UsageError unless usage can be summed up by this."""
    key = by.removeprefix(LABEL)
    if by not in BY and by != OWNER and (key == by or not key):
        raise UsageError(f"--by {quoted(by)}: give one of {', '.join(BY_FORMS)}")


async def usage(log: ReadableLog, by: str, first: At = None, last: At = None) -> UsageAnswer:
    """Return what was used between two moments; by default in the whole log.

    Raises UsageError for a moment outside of the log, an empty stretch, and a bundle, which has no views.
    """
    check_by(by)
    if not isinstance(log, SqlLog):
        raise UsageError(f"{log.place} is a bundle, which has no views: import it into a database")
    if log.head.position <= log.base.position:
        raise UsageError(f"{log.place} holds no records")
    await _check_views(log)
    start = await _time(log, first, "--from", log.base.position + 1)
    end = await _time(log, last, "--to", log.head.position)
    if start >= end:
        raise UsageError("the stretch is empty: --from is not before --to")
    seen = "null" if by in BY else _SEEN
    asked = await log.ask(_PLACEMENTS.format(start=start, end=end, seen=seen))
    placed = msgspec.convert(asked.rows, list[_Placement])
    waits: list[_Wait] = []
    if by != "node":
        asked = await log.ask(_WAITS.format(start=start, end=end))
        waits = msgspec.convert(asked.rows, list[_Wait])
    name_of = BY[by] if by in BY else await _names_of_pods(log, by, placed, waits)
    rows: dict[str, Usage] = {}
    for place in placed:
        one = _row(rows, name_of(place))
        hours = _hours(place.since_ns, place.until_ns, start, end)
        counts = msgspec.json.decode(place.cards, type=dict[str, int])
        for card, count in counts.items():
            one.card_hours[card] = one.card_hours.get(card, 0) + count * hours
        one.pod_hours += hours
        one.pods += 1
        one.preempted += place.was_asked
        if place.was_asked or place.reason in NOT_FINISHED:
            one.lost_card_hours += sum(counts.values()) * hours
    for wait in waits:
        one = _row(rows, name_of(_Placement(wait.pod_group, wait.pod_group, wait.queue)))
        one.waiting_pod_hours += wait.pods * _hours(wait.since_ns, wait.until_ns, start, end)
    return UsageAnswer(by, start, end, _sorted(rows.values()))


async def _names_of_pods(
    log: SqlLog, by: str, placed: list[_Placement], waits: list[_Wait]
) -> _NameOf:
    """Return what names the owner or the label of a placement by the pod as it was when it was bound.

    Waiting is known by pod group, and counts for the first pod of the group.
    """
    check_complete(log, ", and labels and owners of pods that were bound before are in them")
    pods = await pods_at(log, [one.seen for one in placed if one.seen is not None])
    earlier = EarlierObjects(await past_at_base(log))
    of_group: dict[str, RecordedPod] = {}

    def pod_of(one: _Placement) -> RecordedPod | None:
        if one.seen is not None:
            return pods.get(one.seen)
        return earlier.pod(one.pod, one.bound_position) if one.bound_position else None

    for one in placed:
        if (pod := pod_of(one)) is not None:
            of_group.setdefault(one.pod_group, pod)
    never_bound = {one.pod_group for one in waits} - of_group.keys()
    of_group.update(await pods_of_groups(log, never_bound, earlier))
    tops: dict[str, str] = {}
    if by == OWNER:
        placed_pods = [pod for one in placed if (pod := pod_of(one)) is not None]
        owners = [one.owner for one in (*placed_pods, *of_group.values())]
        tops = await top_owners(log, owners, earlier)
    key = by.removeprefix(LABEL)

    def name_of(one: _Placement) -> str:
        pod = pod_of(one) or of_group.get(one.pod_group)
        if pod is None:
            return ""
        return tops[pod.owner].replace("//", "/") if by == OWNER else pod.labels.get(key, "")

    return name_of


async def _check_views(log: SqlLog) -> None:
    """Raise UsageError if a view that is asked does not hold the whole log, or is of another release."""
    standing = {one.name: one for one in await log.projections()}
    for view in (PLACEMENT, POD_GROUP):
        one = standing.get(view.name)
        if one is None or one.version != view.version or one.position < log.head.position:
            raise UsageError(
                f"{log.place}: the view {view.name} is not up to date: `muster rebuild` computes it again"
            )


def _row(rows: dict[str, Usage], name: str) -> Usage:
    found = rows.get(name)
    if found is None:
        found = rows[name] = Usage(name, {})
    return found


def _hours(since: int, until: int | None, start: int, end: int) -> float:
    """Return the hours of an interval within a stretch."""
    return (min(end, end if until is None else until) - max(start, since)) / HOUR_NS


def _sorted(rows: Iterable[Usage]) -> list[Usage]:
    return sorted(rows, key=lambda one: (-one.total_card_hours, -one.pod_hours, one.name))


async def _time(log: ReadableLog, at: At, option: str, position: int) -> int:
    """Return the time of a moment; by default that of the record at a position."""
    if at is not None:
        moment = await resolved(log, at, option)
        if moment.at_ns is not None:
            return moment.at_ns
        position = log.head.position if moment.position is None else moment.position
    return await recorded_at_ns(log, position)
