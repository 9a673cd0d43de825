"""What all commands have in common: help, errors in one line, exit codes."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from daemon.cli.app import cli
from daemon.cli.failure import explain
from events.errors import DamagedLogError, FencedError, NewerRecordError, UsageError
from tests.checkout import ROOT
from tests.daemon.cli.builders import error_of, logged, muster, muster_apart


def commands(group: click.Group = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


COMMANDS = dict(commands())


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_with_an_example(words: str) -> None:
    result = muster(*words.split(), "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"muster {words}" in result.stdout.partition("Example")[2]


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if words not in ("completion", "run")]
)
def test_every_command_can_speak_json(words: str) -> None:
    assert "--output" in [name for one in COMMANDS[words].params for name in one.opts]


def test_version_prints_the_version() -> None:
    assert muster("--version").stdout == "muster 0.1.0\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(shell: str) -> None:
    assert f"_MUSTER_COMPLETE={shell}_complete" in muster("completion", shell).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulat"], "No such command 'simulat'"),
        (["simulate"], "Missing argument 'SCENARIO...'. (see muster simulate --help)"),
        (["simulate", "x.yaml", "--fast"], "--fast"),
        (
            ["replay"],
            "Missing argument 'LOG': give it, or --log LOG, or MUSTER_LOG (see muster replay --help)",
        ),
        (["log", "tail", "x", "-n", "many"], "'many' is not a valid integer range."),
        (["why", "Node/n1"], "without --log the running daemon is asked"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words: list[str], said: str) -> None:
    result = muster(*words)
    assert result.exit_code == 2
    assert said in error_of(result)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no such thing"), 2, "no such thing"),
        (FencedError("someone else\nwrites"), 3, "someone else writes"),
        (
            OSError(errno.ENOSPC, "No space left on device", "x.muster"),
            3,
            "x.muster: No space left",
        ),
        (DamagedLogError("position 7: no"), 4, "position 7: no"),
        (NewerRecordError("position 7: new"), 5, "position 7: new"),
        (ValueError("odd"), 70, "a bug in muster: ValueError: odd"),
        (AssertionError(), 70, "a bug in muster: AssertionError"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    error: Exception, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(error, debug=False) == code
    told = capsys.readouterr().err
    assert told.startswith(f"muster: error: {said}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([FencedError("fenced")], 3),
        ([FencedError("fenced"), KeyError("odd")], 70),
        ([ExceptionGroup("inner", [DamagedLogError("position 1")])], 4),
    ],
)
def test_an_exception_group_has_the_exit_code_of_its_worst_error(
    errors: list[Exception], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(ExceptionGroup("tasks", errors), debug=False) == code
    assert "ExceptionGroup" not in capsys.readouterr().err


def test_an_interrupt_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(KeyboardInterrupt(), debug=False) == 130
    assert capsys.readouterr().err == "muster: interrupted\n"


def test_a_bug_shows_its_traceback_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(url: str) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("daemon.log.opening.open_log", break_down)
    assert "a bug in muster: ZeroDivisionError: odd" in error_of(muster("state", "x.db"))
    result = muster("--debug", "state", "x.db")
    assert result.exit_code == 70
    assert "Traceback" in result.stderr


def test_muster_does_not_run_without_its_assertions() -> None:
    done = muster_apart("--version", python=("-O",))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("muster: error: muster does not run under `python -O`")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    log = logged(tmp_path)
    with subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-m", "daemon", "tell", str(log)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_the_log_can_be_named_by_the_environment(tmp_path: Path) -> None:
    log = logged(tmp_path)
    for words in (["replay"], ["log", "verify"], ["why", "default/p1"], ["rebuild"]):
        assert muster(*words, env={"MUSTER_LOG": str(log)}).exit_code == 0
