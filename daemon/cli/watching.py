"""`--watch`: show what a command shows again whenever it changes."""

import functools
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Final

import click

from daemon.cli.output import remember_terminal

EVERY_SECONDS: Final = 2.0


def watch_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--watch`, of a command that shows the present."""

    @functools.wraps(command)
    def shown(*given: object, watch: bool, **named: object) -> Any:
        if not watch:
            return command(*given, **named)
        return _show_again_and_again(functools.partial(command, *given, **named))

    return click.option(
        "--watch",
        "-w",
        is_flag=True,
        help="Show it again whenever it changes, until Ctrl-C; it is looked at every 2 seconds.",
    )(shown)


def _show_again_and_again(show: Callable[[], Any]) -> Any:
    """Show until Ctrl-C; return the last exit code. An error ends it."""
    is_terminal = remember_terminal()
    last, code, pause = None, None, threading.Event()
    try:
        while True:
            text = StringIO()
            with redirect_stdout(text):
                code = show()
            if text.getvalue() != last:
                last = text.getvalue()
                if is_terminal:
                    click.clear()
                sys.stdout.write(last)
                sys.stdout.flush()
            pause.wait(EVERY_SECONDS)
    except KeyboardInterrupt:
        return code
