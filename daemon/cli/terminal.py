"""How wide a terminal is, and text that is broken so that it fits."""

import re
import shutil
import sys
from collections.abc import Sequence
from itertools import chain
from textwrap import TextWrapper
from typing import Final, TextIO

COLUMNS_MIN: Final = 40
"""A narrower terminal breaks lines itself."""
CELL_MINS: Final = (13, 8)
"""To which columns of long words are broken: as a rule, and where they do not fit."""
HEADER_MIN: Final = 6
"""To which headers of long words are broken."""
GAPS: Final = (2, 1)
"""Spaces between columns: as a rule, and where they do not fit."""

_HYPHENATED: Final = {
    word.replace("-", ""): word.split("-")
    for word in (
        *(
            "guaran-tee",
            "de-served",
            "re-served",
            "capa-bility",
            "allo-cated",
            "in-queue",
            "re-quest",
        ),
        *("re-quested", "elas-tic", "po-sition", "prior-ity", "health-y", "evict-ed", "pre-empted"),
        *("wait-ing", "de-vices", "re-source", "pend-ing", "re-corded", "hap-pened", "re-leased"),
        *("inci-dent", "deci-sion", "run-ning"),
    )
}
"""Words of headers to their parts."""

_INDENT: Final = re.compile(r" *")
_WORDS: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T|[^ /_|]*[/_|]|[^ /_|]+ *| +")
"""What stays on one line: a word, a date, the part of a name up to a slash, underscore or bar."""
_NUMBER: Final = re.compile(r"~?-?\d[\d,]*(\.\d+)?(%|[a-zA-Z]{0,2})")
"""An amount with or without a unit."""
_HYPHENS: Final = re.compile(r"[^-]*-|[^-]+")


def terminal_columns(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal that shows a stream, by default stdout; None if it is none."""
    if not (sys.stdout if stream is None else stream).isatty():
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

    Cells are broken between words, then headers within words, at last cells within words. Numbers are never broken.
    """
    widths = [
        max(map(len, [header, *cells])) for header, cells in zip(headers, columns, strict=True)
    ]
    of_cells = [max((_longest_word(cell) for cell in cells), default=0) for cells in columns]
    of_headers = [_longest_word(header) for header in headers]
    of_parts = [_narrowest_header(header) for header in headers]
    wide, narrow = GAPS
    for floors, gap in (
        (list(map(max, of_cells, of_headers)), wide),
        (list(map(max, of_cells, of_parts)), wide),
        (list(map(max, of_cells, of_parts)), narrow),
        *((_broken_widths(columns, of_parts, least), narrow) for least in CELL_MINS),
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


def _broken_widths(
    columns: Sequence[Sequence[str]], of_headers: Sequence[int], least: int
) -> list[int]:
    """Return the widths to which columns can be broken if words other than numbers may be broken to `least`."""
    return [
        max(
            [
                header,
                *(_narrowest_word(word, least) for cell in cells for word in _WORDS.findall(cell)),
            ]
        )
        for cells, header in zip(columns, of_headers, strict=True)
    ]


def _narrowest_word(word: str, least: int) -> int:
    length = len(word.rstrip())
    return length if _NUMBER.fullmatch(word.rstrip()) else min(length, least)


def broken_header(header: str, width: int) -> list[str]:
    """Break a header between words, and words that are wider than the column, with a hyphen where their parts are known."""
    words: list[str] = []
    for word in _WORDS.findall(header):
        parts = _HYPHENATED.get(word.rstrip())
        if parts is None or len(word.rstrip()) <= width:
            words.append(word)
            continue
        first, last = parts
        words += [f"{first}-".ljust(width), last + word[len(word.rstrip()) :]]
    return _broken_words(words, width)


def broken_cell(cell: str, width: int) -> list[str]:
    """Break a cell between words, and words that are wider than the column."""
    return _broken_words(_WORDS.findall(cell), width)


def _broken_words(words: Sequence[str], width: int) -> list[str]:
    lines: list[str] = [""]
    for word in chain.from_iterable(_narrow_words(one, width) for one in words):
        if len(lines[-1]) + len(word.rstrip()) > width and lines[-1]:
            lines.append("")
        rest = word
        while len(rest.rstrip()) > width:
            lines[-1:] = [rest[:width], ""]
            rest = rest[width:]
        lines[-1] += rest
    return [one.rstrip() for one in lines]


def _narrow_words(word: str, width: int) -> list[str]:
    """Return the parts of a word that is wider than the column, up to its hyphens."""
    return [word] if len(word.rstrip()) <= width else _HYPHENS.findall(word)


def _narrowest_header(header: str) -> int:
    """Return the width to which a header can be broken."""
    widths = [0]
    for word in map(str.rstrip, _WORDS.findall(header)):
        parts = _HYPHENATED.get(word)
        widths.append(
            min(len(word), HEADER_MIN) if parts is None else max(len(parts[0]) + 1, len(parts[1]))
        )
    return max(widths)


def _longest_word(cell: str) -> int:
    return max((len(word.rstrip()) for word in _WORDS.findall(cell)), default=0)
