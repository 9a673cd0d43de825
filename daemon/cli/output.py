"""The output of commands: text for people, JSON for programs, and progress on a terminal.

The only module that writes to stdout and stderr. Text is escaped here, line by line, since it may quote what a
cluster holds; colours are added to escaped text. No other module of the command makes a colour.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias, TypeVar

import click
import msgspec
from msgspec import Struct

from events.errors import UsageError
from replay.log_time import MOMENTS, LogTime, parse_log_time
from replay.printable import CELL_CHARS_MAX, printable, printable_json


class Styled(Struct, frozen=True):
    """Text in a colour or in bold."""

    text: str
    colour: str | None = None
    is_bold: bool = False


Part: TypeAlias = str | Styled
Line: TypeAlias = Part | tuple[Part, ...]
"""One line of output. A line break inside it is escaped like any other control character."""

Cell = str | int | None
_F = TypeVar("_F", bound=Callable[..., object])

_NUMBER: Final = re.compile(r"|-|none|~?-?\d[\d,]*(\.\d+)?( ?%| (s|min|h)|m|[KMGTPE]i)?")
"""A cell of a column of numbers: nothing, none, or an amount with or without a unit."""


def output_option(command: _F) -> _F:
    """`--output text|json`, passed to the command as `as_json`."""
    return click.option(
        "--output",
        "-o",
        "as_json",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        callback=lambda context, parameter, value: value == "json",
        help="Text, or JSON: one document per line, with stable keys.",
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
        help="Database URL, SQLite file or bundle; by default MUSTER_LOG.",
    )(command)


class MomentType(click.ParamType[LogTime]):
    """A moment of a log: a position or a time, in one of the forms of `replay/log_time.py`."""

    name = "moment"

    def convert(
        self, value: str | LogTime, param: click.Parameter | None, ctx: click.Context | None
    ) -> LogTime:
        """Parse a moment, or fail with the forms that there are."""
        if isinstance(value, LogTime):
            return value
        try:
            return parse_log_time(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def moment_option(
    flag: str, text: str, *names: str, required: bool = False, forms: str = f"is {MOMENTS}"
) -> Callable[[_F], _F]:
    """An option that takes a moment. `text` is its help, with the forms of moments behind it; `names` is the name of the
    argument, if it is not that of the flag."""
    return click.option(
        flag,
        *names,
        type=MomentType(),
        metavar="MOMENT",
        required=required,
        help=f"{text} MOMENT {forms}.",
    )


AS_FROM: Final = "as for --from"
"""Forms of the moment of --to."""

at_option = moment_option("--at", "The moment to look at; by default the end of the log.")


def print_json(document: object) -> None:
    """Print a document on one line."""
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:
        # Text of the log is UTF-8; an argument or file name may not be.
        raise UsageError("a name that was given is not UTF-8: JSON cannot hold it") from None
    click.echo(printable_json(encoded).encode())


def print_lines(lines: Iterable[Line], *, to_stderr: bool = False) -> None:
    """Print lines, each escaped and of bounded length."""
    click.echo("\n".join(map(_rendered, lines)), err=to_stderr)


def print_document(text: str) -> None:
    """Print a text that other programs read: each line escaped, but whole."""
    # An escaped character takes at most ten.
    lines = [printable(line, 10 * len(line) + 10) for line in text.splitlines()]
    click.echo("\n".join(lines))


def print_warning(text: str) -> None:
    """Print a warning on stderr."""
    print_lines([f"muster: warning: {text}"], to_stderr=True)


def print_error(text: str) -> None:
    """Print on stderr, in one line, why a command ends."""
    label = Styled("error:", "red", is_bold=True)
    print_lines([("muster: ", label, f" {' '.join(text.split())}")], to_stderr=True)


def _rendered(line: Line) -> str:
    parts = line if isinstance(line, tuple) else (line,)
    return "".join(
        click.style(printable(one.text), fg=one.colour, bold=one.is_bold or None)
        if isinstance(one, Styled)
        else printable(one)
        for one in parts
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], indent: str = "  ") -> list[Line]:
    """Columns under headers; numbers are aligned right."""
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

    return [heading(line(headers)), *map(line, cells)]


def heading(text: str) -> Styled:
    """A heading of a part of a report."""
    return Styled(text, is_bold=True)


def verdict(is_good: bool, good: str, bad: str) -> Styled:
    """The result, in its colour."""
    return Styled(good, "green") if is_good else Styled(bad, "red", is_bold=True)


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 pod`, `2,000 pods`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


Progress = Callable[[int], None]


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Progress | None]:
    """A progress bar; None if stderr is no terminal. Call it with the position reached."""
    if not sys.stderr.isatty():
        yield None
        return
    # Imported here because most commands draw none.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def _shown(cell: str | int) -> str:
    return f"{cell:,}" if isinstance(cell, int) else printable(cell, CELL_CHARS_MAX)
