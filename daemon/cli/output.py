"""What commands print: text for people, JSON for programs, and progress where someone watches."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import click
import msgspec

Cell = str | int | None
_F = TypeVar("_F", bound=Callable[..., object])

_NUMBER: Final = re.compile(r"|-|none|~?-?\d[\d,]*(\.\d+)?( ?%| (s|min|h)|m|[KMGTPE]i)?")
"""What stands in a column of numbers: nothing, none, or an amount with or without a unit."""


def output_option(command: _F) -> _F:
    """`--output text|json`, handed to the command as `as_json`."""
    return click.option(
        "--output",
        "-o",
        "as_json",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        callback=lambda context, parameter, value: value == "json",
        help="Text for people, or JSON: one document a line, with stable keys.",
    )(command)


def log_argument(command: _F) -> _F:
    """LOG, or else MUSTER_LOG."""
    return click.argument("log", metavar="LOG", envvar="MUSTER_LOG")(command)


def log_option(command: _F) -> _F:
    """`--log`, or else MUSTER_LOG."""
    return click.option(
        "--log",
        "log",
        metavar="LOG",
        envvar="MUSTER_LOG",
        required=True,
        help="Database URL, SQLite file or bundle; else MUSTER_LOG says.",
    )(command)


def print_json(document: object) -> None:
    """A document on one line."""
    click.echo(msgspec.json.encode(document))


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], indent: str = "  ") -> str:
    """Columns under headers; numbers stand to the right."""
    cells = [["-" if cell is None else _shown(cell) for cell in row] for row in rows]
    widths = [
        max([len(header), *(len(row[at]) for row in cells)]) for at, header in enumerate(headers)
    ]
    right = [
        bool(column) and all(map(_NUMBER.fullmatch, column))
        for column in (list(zip(*cells, strict=True)) or [()] * len(headers))
    ]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        return (indent + "  ".join(padded)).rstrip()

    return "\n".join([click.style(line(headers), bold=True), *map(line, cells)])


def heading(text: str) -> str:
    """A line above a part of a report."""
    return click.style(text, bold=True)


def verdict(is_good: bool, good: str, bad: str) -> str:
    """What came out, in the colour for it."""
    return click.style(good, fg="green") if is_good else click.style(bad, fg="red", bold=True)


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 pod`, `2,000 pods`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


Progress = Callable[[int], None]


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Progress | None]:
    """A bar on a terminal; None where nobody watches. It is told how far the work is."""
    if not sys.stderr.isatty():
        yield None
        return
    # Only here, as most commands never draw one.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def _shown(cell: str | int) -> str:
    return f"{cell:,}" if isinstance(cell, int) else cell
