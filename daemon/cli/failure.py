"""Errors as one line and an exit code. The only place that catches every exception."""

import errno
import traceback
from collections.abc import Iterator

import click

from daemon.cli.exit_codes import BUG, FAILED, INTERRUPTED, PIPE_CLOSED
from daemon.cli.output import print_error, print_lines
from events.errors import MusterError


def explain(error: BaseException, *, debug: bool) -> int:
    """Print an error; returns the exit code."""
    cause = _cause(error)
    if isinstance(cause, click.exceptions.NoArgsIsHelpError):
        cause.show()
        return cause.exit_code
    if isinstance(cause, click.Abort | KeyboardInterrupt):
        print_lines(["muster: interrupted"], to_stderr=True)
        return INTERRUPTED
    if isinstance(cause, BrokenPipeError):
        return PIPE_CLOSED
    if debug:
        _print_traceback(error)
    text, code = _message_and_code(cause)
    print_error(text)
    return code


def reason_of(error: BaseException) -> tuple[str, int]:
    """Return the line and exit code of an error in one part of the work that does not end the rest."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().obj.get("debug"):
        _print_traceback(error)
    return _message_and_code(_cause(error))


def _print_traceback(error: BaseException) -> None:
    lines = [line for text in traceback.format_exception(error) for line in text.splitlines()]
    print_lines(lines, to_stderr=True)


def _message_and_code(cause: BaseException) -> tuple[str, int]:
    match cause:
        case MusterError():
            return str(cause) or (cause.__doc__ or ""), cause.exit_code
        case click.UsageError():
            name = cause.ctx.command_path if cause.ctx is not None else "muster"
            return f"{cause.format_message()} (see {name} --help)", cause.exit_code
        case click.ClickException():
            return cause.format_message(), cause.exit_code
        case OSError() if cause.errno is not None:
            what = f"{cause.filename}: " if cause.filename else ""
            return f"{what}{cause.strerror or errno.errorcode.get(cause.errno, '')}", FAILED
        case _:
            where = traceback.extract_tb(cause.__traceback__)
            at = f" at {where[-1].name}, line {where[-1].lineno}" if where else ""
            text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
            return f"a bug in muster: {text}{at}; `muster --debug ...` shows more", BUG


def _cause(error: BaseException) -> BaseException:
    """Return the deciding error of a group: an unexpected one before those with an exit code of their own."""
    leaves = list(_leaves(error))
    unforeseen = (leaf for leaf in leaves if not isinstance(leaf, MusterError))
    return next(unforeseen, leaves[0] if leaves else error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
