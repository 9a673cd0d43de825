"""The report of a run as tables: waiting by priority class, evictions, and use of queues over time."""

import resource
import sys
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from daemon.cli.output import Line, table
from events.normalize import Json, JsonObject

SHOWN_MAX: Final = 10
"""The most queues and cards in a text report: those with the highest use."""

_MINUTE: Final = 60
_HOUR: Final = 3600
_KIB: Final = 1024

Section: TypeAlias = Mapping[str, Json]


def report_lines(account: Section) -> Iterator[Line]:
    """Return the report as lines of text and tables."""
    waiting, evictions = _section(account, "waiting"), _section(account, "evictions")
    if waiting:
        yield from table(
            (
                *("class", "pods", "never started", "mean wait", "p50", "p90", "p99", "longest"),
                *("evicted", "lost card-hours"),
            ),
            [_class(name, _section(waiting, name), _section(evictions, name)) for name in waiting],
        )
    yield from _cards(_section(account, "cards"))
    yield from _use(_section(account, "use"))
    above = _section(account, "above_quota").get("pods")
    if above is not None:
        yield f"  quotas     pods that a decision put above a quota of cards: {above}"


def pace_line(bound: int, elapsed_ns: int) -> str:
    """Return the line on binding throughput, overhead included, and memory."""
    pace = bound * 1_000_000_000 // max(elapsed_ns, 1)
    return f"  pace       {pace:,} pods/s bound, with the cluster simulated; {memory_mib():,} MiB of memory"


def memory_mib() -> int:
    """The peak memory of this process."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // _KIB // (_KIB if sys.platform == "darwin" else 1)


def _class(name: str, waiting: Section, evictions: Section) -> tuple[str | int, ...]:
    waits = _section(waiting, "seconds")
    spans = [_span(_number(waits, key)) for key in ("mean", "p50", "p90", "p99", "max")]
    counts = (int(_number(waiting, "pods")), int(_number(waiting, "never_started")))
    lost = _number(evictions, "lost_card_seconds") / _HOUR
    return (name, *counts, *spans, int(_number(evictions, "pods")), f"{lost:,.1f}")


def _cards(cards: Section) -> Iterator[Line]:
    rows = [
        (card, f"{_number(one, 'there'):,.0f}", f"{_number(one, 'mean'):,.1f}", _percent(one))
        for card in cards
        for one in (_section(cards, card),)
    ]
    if rows:
        yield from table(("card", "there", "used on average", "of the cluster"), rows)


def _use(use: Section) -> Iterator[Line]:
    found = [
        (queue, card, _section(_section(use, queue), card))
        for queue in use
        for card in _section(use, queue)
    ]
    found.sort(key=lambda one: (-_number(one[2], "mean"), one[0], one[1]))
    if found:
        yield from table(
            ("queue", "card", "quota", "used on average", "peak", "of quota", "of the cluster"),
            [
                (
                    *(queue, card, f"{_number(one, 'quota'):,.0f}", f"{_number(one, 'mean'):,.1f}"),
                    *(int(_number(one, "peak")), _percent(one, "of_quota"), _percent(one)),
                )
                for queue, card, one in found[:SHOWN_MAX]
            ],
        )
    if len(found) > SHOWN_MAX:
        yield f"  ... and {len(found) - SHOWN_MAX:,} more"


def _section(document: Section, key: str) -> JsonObject:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _number(document: Section, key: str) -> float:
    found = document.get(key)
    return found if isinstance(found, int | float) else 0


def _percent(document: Section, key: str = "of_cluster") -> str:
    return f"{_number(document, key) * 100:.1f} %"


def _span(seconds: float) -> str:
    if seconds < 2 * _MINUTE:
        return f"{seconds:.4g} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.1f} min"
    return f"{seconds / _HOUR:.1f} h"
