"""How wide a terminal is, and text that is broken so that it fits."""

import re
import shutil
import sys
from collections.abc import Sequence
from textwrap import TextWrapper
from typing import Final

COLUMNS_MIN: Final = 40
"""A narrower terminal breaks lines itself."""
CELL_MIN: Final = 13
"""To which a column of long words is broken."""
HEADER_MIN: Final = 6
"""To which headers of long words are broken."""
GAPS: Final = (2, 1)
"""Spaces between columns: as a rule, and where they do not fit."""

_INDENT: Final = re.compile(r" *")
_WORDS: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T|[^ /_]*[/_]|[^ /_]+ *| +")
"""What stays on one line: a word, a date, the part of a name up to a slash or underscore."""


def terminal_columns() -> int | None:
    """Return the columns of the terminal that shows stdout; None if it is none."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, COLUMNS_MIN)


def broken_line(line: str, columns: int) -> list[str]:
    """Break a line between words; what follows is indented further. Words are not broken."""
    if len(line) <= columns:
        return [line]
    found = _INDENT.match(line)
    indent = found.end() if found is not None else 0
    wrapper = TextWrapper(
        columns,
        subsequent_indent=" " * min(indent + 4, columns // 2),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return wrapper.wrap(line)


def fitting_widths(
    headers: Sequence[str], columns: Sequence[Sequence[str]], room: int
) -> tuple[list[int], int]:
    """Return the widths of columns that fit into the room, as far as that goes, and the gap between them.

    Cells are broken between words, then headers within words, at last cells within words.
    """
    widths = [
        max(map(len, [header, *cells])) for header, cells in zip(headers, columns, strict=True)
    ]
    of_cells = [max((_longest_word(cell) for cell in cells), default=0) for cells in columns]
    of_headers = [_longest_word(header) for header in headers]
    of_parts = [min(one, HEADER_MIN) for one in of_headers]
    of_broken = [min(one, CELL_MIN) for one in of_cells]
    wide, narrow = GAPS
    for floors, gap in (
        (list(map(max, of_cells, of_headers)), wide),
        (list(map(max, of_cells, of_parts)), wide),
        (list(map(max, of_cells, of_parts)), narrow),
        (list(map(max, of_broken, of_parts)), narrow),
    ):
        excess = sum(widths) + gap * (len(widths) - 1) - room
        while excess > 0:
            # The widest that can give something gives one column.
            at = max(range(len(widths)), key=lambda at: (widths[at] > floors[at], widths[at]))
            if widths[at] <= floors[at]:
                break
            widths[at] -= 1
            excess -= 1
        if excess <= 0:
            return widths, gap
    return widths, narrow


def broken_cell(cell: str, width: int) -> list[str]:
    """Break a cell between words, and words that are wider than the column."""
    lines: list[str] = [""]
    for word in _WORDS.findall(cell):
        if len(lines[-1]) + len(word.rstrip()) > width and lines[-1]:
            lines.append("")
        rest = word
        while len(rest.rstrip()) > width:
            lines[-1:] = [rest[:width], ""]
            rest = rest[width:]
        lines[-1] += rest
    return [one.rstrip() for one in lines]


def _longest_word(cell: str) -> int:
    return max((len(word.rstrip()) for word in _WORDS.findall(cell)), default=0)
