"""Texts about nodes and their scores, in rows and columns."""

from typing import Final

from events.amount_text import amounts_text
from replay.log_time import withheld_text
from replay.printable import CELL_CHARS_MAX, printable
from scheduling.explanation import NodeShortfall

_POINT: Final = 1000
"""Scores are in thousandths of a point."""


def shortfall_text(shortfall: NodeShortfall) -> str:
    """Return why a node does not fit a pod: what excludes it, what it lacks, what the node withholds."""
    lacks = shortfall.lacks and f"lacks {amounts_text(shortfall.lacks) or 'a place for a pod'}"
    texts = (shortfall.obstacle, lacks, withheld_text(shortfall.withheld_until_ns))
    return "; ".join(text for text in texts if text)


def points_text(score: int) -> str:
    """Return thousandths of a point as points; "-" for an infeasible node."""
    return f"{score // _POINT}.{score % _POINT:03}" if score >= 0 else "-"


def table_lines(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows in columns: the first to the left, all others to the right."""
    rows = [tuple(printable(cell, CELL_CHARS_MAX) for cell in row) for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines: list[str] = []
    for first, *others in rows:
        cells = [f"{one:>{width}}" for one, width in zip(others, widths[1:], strict=True)]
        lines.append(f"  {first:<{widths[0]}}  {'  '.join(cells)}")
    return lines
