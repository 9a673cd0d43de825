"""Shell completion from a table of all commands and options, so that a key press imports none of them.

The table, `completion_table.json`, is made from the commands by `make docs`. Out of it come commands that have the same names and
options and do nothing; click completes those as it would the real ones.
"""

from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

TABLE: Final = Path(__file__).with_name("completion_table.json")

FILE: Final = "file"
FOLDER: Final = "folder"


class ParameterEntry(Struct, frozen=True, omit_defaults=True):
    """An option or argument."""

    names: tuple[str, ...]
    help: str = ""
    is_argument: bool = False
    is_flag: bool = False
    is_repeated: bool = False
    is_unlimited: bool = False
    choices: tuple[str, ...] = ()
    path: str = ""
    """`file` or `folder`, if the value is a path."""


class CommandEntry(Struct, frozen=True, omit_defaults=True):
    """A command, with those below it if it is a group."""

    name: str
    help: str = ""
    parameters: tuple[ParameterEntry, ...] = ()
    commands: tuple["CommandEntry", ...] = ()


HELP: Final = ParameterEntry(("-h", "--help"), "Show this message and exit.", is_flag=True)
"""The option that click adds to every command."""


def entry_of(command: click.Command, name: str) -> CommandEntry:
    """Return the entry of a command and of all below it."""
    context = click.Context(command, info_name=name)
    below: list[CommandEntry] = []
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            if found is not None and not found.hidden:
                below.append(entry_of(found, one))
    return CommandEntry(
        name=name,
        help=command.get_short_help_str(),
        parameters=(*map(_parameter_of, command.params), HELP),
        commands=tuple(below),
    )


def table_text(command: click.Command) -> str:
    """Return the table as it stands in the file."""
    encoded = msgspec.json.format(msgspec.json.encode(entry_of(command, "muster")), indent=1)
    return encoded.decode() + "\n"


def command_of_table() -> click.Command:
    """Return the command `muster` as the table has it."""
    return _command_of(msgspec.json.decode(TABLE.read_bytes(), type=CommandEntry))


def _parameter_of(parameter: click.Parameter) -> ParameterEntry:
    kind = parameter.type
    path = ""
    if isinstance(kind, click.Path):
        path = FILE if kind.file_okay else FOLDER
    elif isinstance(kind, click.File):
        path = FILE
    is_option = isinstance(parameter, click.Option)
    return ParameterEntry(
        names=(*parameter.opts, *parameter.secondary_opts) if is_option else (parameter.opts[0],),
        help=(parameter.help or "") if isinstance(parameter, click.Option) else "",
        is_argument=not is_option,
        is_flag=isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count),
        is_repeated=parameter.multiple,
        is_unlimited=parameter.nargs == -1,
        choices=tuple(map(str, kind.choices)) if isinstance(kind, click.Choice) else (),
        path=path,
    )


def _command_of(entry: CommandEntry) -> click.Command:
    parameters = [_made(one) for one in entry.parameters]
    if not entry.commands:
        return click.Command(
            entry.name, params=parameters, short_help=entry.help, add_help_option=False
        )
    group = click.Group(entry.name, params=parameters, short_help=entry.help, add_help_option=False)
    for one in entry.commands:
        group.add_command(_command_of(one))
    return group


def _made(entry: ParameterEntry) -> click.Parameter:
    kind: click.ParamType[Any] | None = None
    if entry.choices:
        kind = click.Choice(entry.choices)
    elif entry.path:
        kind = click.Path(file_okay=entry.path == FILE)
    if entry.is_argument:
        nargs = -1 if entry.is_unlimited else 1
        return click.Argument(entry.names, type=kind, nargs=nargs, required=False)
    # Each option is stored under a name of its own; `--a-b` and `--not-a-b` are one flag here.
    return click.Option(
        entry.names, type=kind, is_flag=entry.is_flag, multiple=entry.is_repeated, help=entry.help
    )
