"""What was used between two moments, in card-hours, and how long pods waited: from the views of a log."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.log.store import SqlLog
from daemon.queries.moments import At, recorded_at_ns, resolved
from events.errors import UsageError
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
            then 1 else 0 end
  from placement p
 where bound_at_ns < {end} and (released_at_ns is null or released_at_ns > {start})
"""
_WAITS: Final = """
select g.pod_group, g.queue, g.pods_wanted - g.pods_bound, coalesce(f.recorded_at_ns, {start}), t.recorded_at_ns
  from pod_group_history g
  left join log f on f.position = g.from_position
  left join log t on t.position = g.to_position
 where g.pods_wanted > g.pods_bound and coalesce(f.recorded_at_ns, {start}) < {end}
   and (g.to_position is null or g.to_position > {base})
   and (t.recorded_at_ns is null or t.recorded_at_ns > {start})
"""


class Usage(Struct):
    """What one queue, namespace, ... used. Each number is of the stretch only."""

    name: str
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


BY: Final[Mapping[str, Callable[[_Placement], str]]] = {
    "queue": lambda one: one.queue,
    "namespace": lambda one: one.namespace,
    "group": lambda one: one.pod_group,
    "node": lambda one: one.node,
}
"""What usage can be summed up by; waiting is not known by node."""


async def usage(log: ReadableLog, by: str, first: At = None, last: At = None) -> UsageAnswer:
    """Return what was used between two moments; by default in the whole log.

    Raises UsageError for a moment outside of the log, an empty stretch, and a bundle, which has no views.
    """
    if not isinstance(log, SqlLog):
        raise UsageError(f"{log.place} is a bundle, which has no views: import it into a database")
    if log.head.position <= log.base.position:
        raise UsageError(f"{log.place} holds no records")
    await _check_views(log)
    start = await _time(log, first, "--from", log.base.position + 1)
    end = await _time(log, last, "--to", log.head.position)
    if start >= end:
        raise UsageError("the stretch is empty: --from is not before --to")
    name_of, rows = BY[by], dict[str, Usage]()
    placed = await log.ask(_PLACEMENTS.format(start=start, end=end))
    for place in msgspec.convert(placed.rows, list[_Placement]):
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
    if by != "node":
        waits = await log.ask(_WAITS.format(start=start, end=end, base=log.base.position))
        for wait in msgspec.convert(waits.rows, list[_Wait]):
            one = _row(rows, name_of(_Placement(wait.pod_group, wait.pod_group, wait.queue)))
            one.waiting_pod_hours += wait.pods * _hours(wait.since_ns, wait.until_ns, start, end)
    return UsageAnswer(by, start, end, _sorted(rows.values()))


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
