"""Text that fits the terminal: tables and lines are broken, and nothing is left out."""

import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from fcntl import ioctl
from itertools import chain, repeat
from pathlib import Path

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from daemon.cli.app import cli
from daemon.cli.terminal import broken_cell, broken_line, fitting_widths
from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, muster

WORDS = st.lists(st.text("ab-/_T0", min_size=1, max_size=30), max_size=6).map(" ".join)


@given(WORDS, st.integers(1, 40))
def test_a_broken_cell_fits_and_holds_every_character(cell: str, width: int) -> None:
    lines = broken_cell(cell, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == cell.replace(" ", "")


@given(WORDS, st.integers(40, 100), st.integers(0, 12))
def test_a_broken_line_fits_and_what_follows_is_indented_further(
    words: str, columns: int, indent: int
) -> None:
    lines = broken_line(" " * indent + words, columns)
    assert all(len(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == words.replace(" ", "")
    assert all(line.startswith(" " * (indent + 4)) for line in lines[1:])


def test_a_table_is_broken_between_words_before_it_is_broken_within_them() -> None:
    headers, columns = ["pods hit", "at"], [["1"], ["2026-11-26T02:33:12.970Z"]]
    assert fitting_widths(headers, columns, 80) == ([8, 24], 2)
    assert fitting_widths(headers, columns, 25) == ([8, 15], 2)
    assert fitting_widths(headers, columns, 18) == ([4, 13], 1)
    assert broken_cell(columns[1][0], 13) == ["2026-11-26T", "02:33:12.970Z"]


def test_numbers_of_a_table_are_never_broken() -> None:
    headers, columns = ["queue", "memory"], [["a-long-name-of-a-queue"], ["1,099,511,627,776"]]
    assert fitting_widths(headers, columns, 26) == ([8, 17], 1)
    assert fitting_widths(headers, columns, 10) == ([8, 17], 1)


def test_alternative_cards_are_broken_at_their_bars() -> None:
    assert broken_cell("P100|V100M16|V100M32", 8) == ["P100|", "V100M16|", "V100M32"]


def test_help_fits_80_columns_with_its_examples() -> None:
    shown = [(words, muster(*words, "--help").stdout) for words in _command_words(cli, ())]
    assert len(shown) > 30
    for words, text in shown:
        assert max(map(len, text.splitlines())) <= 80, words


def _command_words(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command and subcommand."""
    context = click.Context(group)
    yield words
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _command_words(command, (*words, name))
        else:
            yield (*words, name)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of an example with faults."""
    path = tmp_path_factory.mktemp("terminal") / "fault.db"
    assert muster("simulate", ROOT / "docs/examples/node_fault.yaml", "--log", path).exit_code == 0
    return path


def on_a_terminal(columns: int, *words: str | Path) -> str:
    """What a command prints on a terminal of this width, without colours."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-m", "daemon", *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(  # noqa: S603 - our own arguments
        command, cwd=ROOT, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
    ) as process:
        os.close(theirs)
        told = b""
        while piece := _piece(ours):
            told += piece
        assert process.wait() == 0
    os.close(ours)
    return told.decode().replace("\r\n", "\n").replace("\x1b[1m", "").replace("\x1b[0m", "")


def _piece(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # The other side is closed.
        return b""


def test_an_incident_fits_80_columns_and_wide_is_as_in_a_pipe(log: Path) -> None:
    piped = muster("incident", log).stdout
    assert max(map(len, piped.splitlines())) > 80
    shown = on_a_terminal(80, "incident", log)
    assert max(map(len, shown.splitlines())) <= 80
    # Words of headers are broken with hyphens.
    assert sorted("".join(shown.split()).replace("-", "")) == sorted(
        "".join(piped.split()).replace("-", "")
    )
    assert on_a_terminal(80, "incident", log, "-o", "wide") == piped
    assert on_a_terminal(200, "incident", log) == piped


def test_yaml_holds_the_documents_of_json(log: Path) -> None:
    for words in (("queue", "list", "--log", log), ("tell", log, "--to", "20")):
        (*parsed,) = yaml.safe_load_all(muster(*words, "-o", "yaml").stdout)
        assert parsed == documents(muster(*words, "-o", "json"))


def test_what_is_watched_is_shown_again_when_it_changes_until_ctrl_c(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = chain(["one", "one"], repeat("two"))
    monkeypatch.setattr("daemon.cli.watching.EVERY_SECONDS", 0.01)
    monkeypatch.setattr("daemon.cli.queues.print_lines", lambda lines: print(next(answers)))  # noqa: T201

    def interrupt(*given: object) -> list[object]:
        seen.append(None)
        if len(seen) == 3:
            threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
        return []

    seen: list[None] = []
    monkeypatch.setattr("daemon.cli.queues.ask_log", interrupt)
    result = muster("queue", "list", "--log", log, "--watch")
    assert result.stdout.split() == ["one", "two"]
    assert result.exit_code == 0, result.output


def test_the_list_of_commands_has_whole_sentences() -> None:
    shown = muster("--help").stdout
    assert "..." not in shown.partition("Commands:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    assert cli.name == "cli"
