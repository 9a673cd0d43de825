"""The command as a user runs it, and small scenarios to run it on."""

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from daemon.cli.app import cli
from tests.checkout import ROOT

QUOTA = ROOT / "docs" / "examples" / "quota.yaml"
"""A scenario in which one pod is bound and another is refused."""

SMALL_OPENB = "workload: {name: openb, scale: 0.02}\nuntil: 130s\n"
"""A scenario of some hundred pods."""

Json = dict[str, object]


def muster(
    *words: str | Path, env: dict[str, str] | None = None, stdin: str | None = None
) -> Result:
    """Run a command in this process."""
    runner = CliRunner(env={"MUSTER_LOG": None, **(env or {})})
    return runner.invoke(cli, [str(one) for one in words], stdin, prog_name="muster")


def muster_apart(
    *words: str | Path,
    env: dict[str, str] | None = None,
    python: tuple[str, ...] = (),
    file_size: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, in which no file may grow beyond a size."""
    command = [sys.executable, *python, "-m", "daemon", *map(str, words)]
    if file_size is not None:
        command = ["bash", "-c", f'ulimit -f {file_size // 1024}; exec "$@"', "bash", *command]
    return subprocess.run(  # noqa: S603  # our own command
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def documents(result: Result) -> list[Json]:
    """What a command printed as JSON, a document a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def scenario(folder: Path, text: str, name: str = "scenario.yaml") -> Path:
    """A scenario in a file."""
    path = folder / name
    path.write_text(f"scenario: {name}\n{text}", encoding="utf-8")
    return path


def logged_openb(folder: Path) -> Path:
    """A log of some hundred pods of the workload openb."""
    path = folder / "openb.db"
    result = muster("simulate", scenario(folder, SMALL_OPENB), "--log", path)
    assert result.exit_code == 0, result.output
    return path


def logged(folder: Path, name: str = "quota.db") -> Path:
    """A log of the scenario QUOTA."""
    path = folder / name
    result = muster("simulate", QUOTA, "--log", path)
    assert result.exit_code == 0, result.output
    return path


def error_of(result: Result) -> str:
    """The one line that a command said on stderr."""
    (line,) = result.stderr.splitlines()
    assert line.startswith("muster: error: ")
    assert "Traceback" not in result.output
    return line.removeprefix("muster: error: ")
