"""The output of commands: text for people, JSON for programs, and progress on a terminal.

The only module that writes to stdout and stderr. Text is escaped here, line by line, since it may quote what a
cluster holds; colours are added to escaped text. No other module of the command makes a colour.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import zip_longest
from typing import Final, TypeAlias, TypeVar

import click
import msgspec
from click.core import ParameterSource
from msgspec import Struct, structs

from daemon.cli.terminal import (
    broken_cell,
    broken_header,
    broken_line,
    fitting_widths,
    terminal_columns,
)
from events.errors import UsageError
from replay.log_time import MOMENTS, LogTime, parse_log_time
from replay.printable import CELL_CHARS_MAX, printable, printable_json


class Styled(Struct, frozen=True):
    """Text in a colour or in bold."""

    text: str
    colour: str | None = None
    is_bold: bool = False
    is_fitted: bool = False
    """Whether it is not to be broken, for it fits the terminal as well as it can."""


Part: TypeAlias = str | Styled
Line: TypeAlias = Part | tuple[Part, ...]
"""One line of output. A line break inside it is escaped like any other control character."""

Cell = str | int | None
_F = TypeVar("_F", bound=Callable[..., object])
ResultT = TypeVar("ResultT")

_NUMBER: Final = re.compile(r"|-|none|~?-?\d[\d,]*(\.\d+)?( ?%| (s|min|h)|m|[KMGTPE]i)?")
"""A cell of a column of numbers: nothing, none, or an amount with or without a unit."""


def output_option(command: _F) -> _F:
    """`--output text|wide|json|yaml`, passed to the command as `as_json`: whether it prints documents."""
    return click.option(
        "--output",
        "-o",
        "as_json",
        type=click.Choice(["text", "wide", "json", "yaml"]),
        metavar="FORMAT",
        default="text",
        show_default=True,
        callback=_note_format,
        help="text; wide: text that is not broken to fit the terminal; json: one document per line, with stable keys; "
        "yaml: the same documents.",
    )(command)


_FORMAT: Final = "muster.format"
_COLUMNS: Final = "muster.columns"
"""Keys of what the context of a command remembers."""


def _note_format(context: click.Context, parameter: click.Parameter, value: str) -> bool:
    context.meta[_FORMAT] = value
    return value in ("json", "yaml")


def remember_terminal() -> bool:
    """Write for the terminal of stdout also where stdout is then redirected; return whether it is one."""
    context = click.get_current_context()
    context.meta[_COLUMNS] = columns = terminal_columns()
    if columns is not None:
        context.color = True
    return columns is not None


def is_text_shown() -> bool:
    """Return whether the command prints text, and no documents."""
    return _format() in ("text", "wide")


def _format() -> str:
    context = click.get_current_context(silent=True)
    return "text" if context is None else str(context.meta.get(_FORMAT, "text"))


def _columns() -> int | None:
    """The columns that text has to fit into; None if it may have any length."""
    context = click.get_current_context(silent=True)
    if _format() == "wide":
        return None
    if context is not None and _COLUMNS in context.meta:
        known: int | None = context.meta[_COLUMNS]
        return known
    return terminal_columns()


def log_argument(command: Callable[..., ResultT]) -> Callable[..., ResultT]:
    """LOG, or else `--log LOG`, or else MUSTER_LOG."""

    @wraps(command)
    def with_log(*, log: str | None, log_option: str | None, **others: object) -> ResultT:
        context = click.get_current_context()
        is_given = context.get_parameter_source("log_option") is ParameterSource.COMMANDLINE
        if log is not None and is_given:
            raise click.UsageError("the log is given twice: as LOG and with --log")
        if log is None and log_option is None:
            raise click.UsageError("Missing argument 'LOG': give it, or --log LOG, or MUSTER_LOG")
        return command(log=log if log is not None else log_option, **others)

    option = click.option(
        "--log",
        "log_option",
        metavar="LOG",
        envvar="MUSTER_LOG",
        help="The log, if no LOG is given; by default MUSTER_LOG.",
    )
    return click.argument("log", metavar="[LOG]", required=False)(option(with_log))


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
    """Print a document: on one line, or as YAML if that is asked for."""
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:
        # Text of the log is UTF-8; an argument or file name may not be.
        raise UsageError("a name that was given is not UTF-8: JSON cannot hold it") from None
    if _format() == "yaml":
        import yaml  # Imported here because most commands print none.

        document = msgspec.json.decode(printable_json(encoded))
        click.echo(yaml.safe_dump(document, sort_keys=False, explicit_start=True), nl=False)
    else:
        click.echo(printable_json(encoded).encode())


def print_captured(output: bytes) -> None:
    """Print what a command printed before: documents are UTF-8 everywhere, and text is written in the encoding of stdout."""
    click.echo(output.decode() if is_text_shown() else output, nl=False)


def print_lines(lines: Iterable[Line], *, to_stderr: bool = False) -> None:
    """Print lines, each escaped and of bounded length."""
    columns = terminal_columns(sys.stderr) if to_stderr else _columns()
    rendered = [text for line in lines for text in _broken(line, columns)]
    click.echo("\n".join(rendered), err=to_stderr)


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


def _broken(line: Line, columns: int | None) -> list[str]:
    """The lines into which a line is broken. Of one of several parts, those on its first line keep their style."""
    text = line.text if isinstance(line, Styled) else line
    if columns is None:
        return [_rendered(line)]
    if isinstance(text, tuple):
        return _broken_parts(text, columns)
    if isinstance(line, Styled):
        if line.is_fitted:
            return [_rendered(line)]
        parts = broken_line(printable(text), columns)
        return [_rendered(Styled(one, line.colour, line.is_bold)) for one in parts]
    return broken_line(printable(text), columns)


def _broken_parts(parts: tuple[Part, ...], columns: int) -> list[str]:
    texts = [printable(one.text if isinstance(one, Styled) else one) for one in parts]
    first, *more = broken_line("".join(texts), columns)
    shown, at = "", 0
    for part, text in zip(parts, texts, strict=True):
        there = first[at : at + len(text)]
        shown += _rendered(structs.replace(part, text=there) if isinstance(part, Styled) else there)
        at += len(text)
    return [shown, *more]


def _rendered(line: Line) -> str:
    parts = line if isinstance(line, tuple) else (line,)
    return "".join(
        click.style(printable(one.text), fg=one.colour, bold=one.is_bold or None)
        if isinstance(one, Styled)
        else printable(one)
        for one in parts
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], indent: str = "  ") -> list[Line]:
    """Columns under headers; numbers are aligned right. On a terminal, cells are broken so that it fits; the indent is
    left out where it does not."""
    cells = [["-" if cell is None else _shown(cell) for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True)) or [()] * len(headers)
    right = [bool(one) and all(map(_NUMBER.fullmatch, one)) for one in columns]
    room = _columns()
    widths, gap = fitting_widths(
        headers, columns, sys.maxsize if room is None else room - len(indent)
    )
    if room is not None and len(indent) + sum(widths) + gap * (len(widths) - 1) > room:
        indent = ""

    def lines(
        row: Sequence[str], break_: Callable[[str, int], list[str]] = broken_cell
    ) -> list[str]:
        broken = [break_(cell, width) for cell, width in zip(row, widths, strict=True)]
        return [line(one) for one in zip_longest(*broken, fillvalue="")]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        return (indent + (" " * gap).join(padded)).rstrip()

    is_fitted = room is not None
    shown: list[Line] = [
        Styled(one, is_bold=True, is_fitted=is_fitted) for one in lines(headers, broken_header)
    ]
    for row in cells:
        shown += [Styled(one, is_fitted=True) for one in lines(row)] if is_fitted else lines(row)
    return shown


def table_texts(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table as plain text; the first row holds the headers."""
    headers, *others = rows
    lines = table(headers, others)
    return [line.text if isinstance(line, Styled) else str(line) for line in lines]


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
