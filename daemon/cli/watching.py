"""`--watch`: show what a command shows again whenever it changes."""

import functools
from collections.abc import Callable
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from threading import Event
from typing import Any, Final

import click

from daemon.cli.output import is_text_shown, print_captured, remember_terminal

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


class _Shown(TextIOWrapper):
    """What a command prints: text or, as documents, bytes."""

    def __init__(self) -> None:
        self.content = BytesIO()
        super().__init__(self.content, encoding="utf-8", write_through=True)


def _show_again_and_again(show: Callable[[], Any]) -> Any:
    """Show until Ctrl-C; return the last exit code. An error ends it.

    Text is shown in place of the text before it; documents follow one another.
    """
    is_terminal, is_text = remember_terminal(), is_text_shown()
    last, code, pause = None, None, Event()
    try:
        while True:
            shown = _Shown()
            with redirect_stdout(shown):
                code = show()
            shown.flush()
            if (text := shown.content.getvalue()) != last:
                last = text
                if is_terminal and is_text:
                    click.clear()
                print_captured(text)
            pause.wait(EVERY_SECONDS)
    except KeyboardInterrupt:
        return code
