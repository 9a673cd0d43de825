"""The command `muster`: its subcommands, its exit codes, and its one error handler."""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from daemon.cli.command_list import CommandGroup
from daemon.cli.exit_codes import PIPE_CLOSED
from daemon.memory_tuning import collect_rarely, collector_paused, return_large_blocks
from daemon.version import VERSION
from events.errors import SettingsError, UsageError

COMMANDS: Final = {
    "completion": "daemon.cli.completion",
    "demo": "daemon.cli.demo",
    "diff": "daemon.cli.diff",
    "fit": "daemon.cli.fit",
    "group": "daemon.cli.groups",
    "history": "daemon.cli.history",
    "incident": "daemon.cli.incident",
    "log": "daemon.cli.log_commands",
    "migrate": "daemon.cli.migrate",
    "object": "daemon.cli.object",
    "queue": "daemon.cli.queues",
    "rebuild": "daemon.cli.rebuild",
    "reduce": "daemon.cli.reduce",
    "replay": "daemon.cli.replay",
    "run": "daemon.cli.run",
    "shadow": "daemon.cli.shadow",
    "simulate": "daemon.cli.simulate",
    "state": "daemon.cli.state",
    "tell": "daemon.cli.tell",
    "topology": "daemon.cli.topology",
    "usage": "daemon.cli.usage",
    "verify": "daemon.cli.verify",
    "what-if": "daemon.cli.what_if",
    "why": "daemon.cli.why",
}
"""The module of each command. It is imported when the command is used: each start imports only what it needs."""


COMPLETION: Final = "_MUSTER_COMPLETE"
"""The environment variable by which a shell asks for completion."""

WITHOUT_PLUGINS: Final = ("completion", "migrate")
"""Commands that read no policy."""


HELP_COLUMNS: Final = 100
"""The width of help on a terminal that is wide enough."""


class Muster(CommandGroup):
    """The group of all commands. An error is one line, and its kind is the exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit."""
        wishes: dict[str, bool] = {}
        _open_closed_streams()
        try:
            _refuse_without_assertions()
            _replace_what_stdout_cannot_encode()
            _refuse_what_is_not_utf8(sys.argv[1:] if args is None else args)
            name = prog_name or "muster"
            result = super().main(args, name, complete_var, standalone_mode=False, obj=wishes)
            code = result if isinstance(result, int) else 0
            sys.stdout.flush()
        except Exception as error:  # the one place
            from daemon.cli.failure import explain  # It brings in what prints, which takes time.

            code = explain(error, debug=wishes.get("debug", False))
        if code == PIPE_CLOSED:
            _forget_stdout()
        sys.exit(code)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Options of `run` without a command mean `run`, for a container image that is given
        them."""
        first = args[0].partition("=")[0] if args else ""
        if first.startswith("-") and first not in _options(self):
            run = self.get_command(ctx, "run")
            if run is not None and first in _options(run):
                args = ["run", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name]
        from daemon.stderr import print_warnings_on_stderr  # `--version` does without it.

        print_warnings_on_stderr()
        if module not in sys.modules:
            with collector_paused():
                import_module(module)
        name = cmd_name.replace("-", "_")
        # `object` is a builtin: its function is called `object_`.
        command = getattr(sys.modules[module], name, None) or getattr(
            sys.modules[module], f"{name}_"
        )
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. A reader that closes the pipe is no error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(PIPE_CLOSED) from None


@click.group(
    cls=Muster,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_COLUMNS},
)
@click.version_option(VERSION, prog_name="muster", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """A Kubernetes scheduler for AI accelerators that can account for every decision.

    LOG is a database URL (sqlite:///FILE, postgresql://...), a SQLite file or a bundle (.muster). Every command that
    reads one log takes it as --log LOG, where its usage has [LOG] also as an argument, else from MUSTER_LOG.
    MUSTER_LIMITS sets how much of an input file is read.

    Exit codes: 0 done, equal; 1 difference found, or does not fit; 2 usage or input error; 3 the API
    server, a database or a file failed; 4 the log is damaged; 5 the log is from a newer version; 70 a bug.
    """
    context.obj["debug"] = debug
    if context.invoked_subcommand not in WITHOUT_PLUGINS:
        from daemon.installed_plugins import load_plugins

        load_plugins()


def main() -> None:
    """The entry point."""
    if os.environ.get(COMPLETION):
        from daemon.cli.completion_table import command_of_table

        command_of_table().main(prog_name="muster", complete_var=COMPLETION)
    collect_rarely()
    return_large_blocks()
    cli.main()


def _options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def _refuse_without_assertions() -> None:
    if not __debug__:
        raise SettingsError("muster does not run under `python -O`: its assertions are meant")


def _refuse_what_is_not_utf8(args: Sequence[str]) -> None:
    """Refuse arguments and environment variables that no log, and no JSON, can hold."""
    given = [("argument", one) for one in args]
    given += [(name, text) for name, text in os.environ.items() if name.startswith("MUSTER_")]
    for what, text in given:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(text).decode(errors="backslashreplace")
            raise UsageError(f"{what} {shown!r} is not UTF-8") from None


def _open_closed_streams() -> None:
    """Open /dev/null in place of a closed stdout or stderr, so that no other file is opened as one of them."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays open
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it stays open


def _replace_what_stdout_cannot_encode() -> None:
    """Print text on a terminal that is not UTF-8 with escapes, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Drop what is left in the buffer, which would raise an error at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
