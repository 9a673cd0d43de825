"""The systemd unit: sound, hardened, and in agreement with the daemon."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from daemon.cli.run import run
from daemon.settings import read_settings
from tests.checkout import ROOT

FOLDER = ROOT / "deploy/systemd"
UNIT = FOLDER / "muster.service"
COMMAND = "/opt/muster/bin/muster"

present = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on the PATH"
)


def unit() -> Mapping[str, list[str]]:
    """Every key of the unit with its values."""
    found = re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return {key: [value for other, value in found if other == key] for key, _ in found}


def analyze(*arguments: str | Path) -> str:
    """What systemd-analyze says; it must find nothing wrong."""
    done = subprocess.run(  # noqa: S603 - arguments of this file
        ["systemd-analyze", *arguments],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@present
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    # The command is not installed here, and systemd looks whether it can be run.
    text = UNIT.read_text(encoding="utf-8")
    assert COMMAND in text
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace(COMMAND, shutil.which("true") or ""), encoding="utf-8")
    assert analyze("verify", "--man=no", copy) == ""


@present
def test_the_exposure_of_the_unit_is_what_the_manual_says() -> None:
    page = (ROOT / "docs/deploying.md").read_text(encoding="utf-8")
    stated = re.search(r"exposure of (\d+\.\d) \(systemd (\d+)\)", page)
    assert stated is not None
    told = analyze("security", "--offline=true", UNIT)
    measured = re.search(r"exposure level for muster.service: (\d+\.\d)", told)
    assert measured is not None
    # Other releases weigh other things; none may find it wide open.
    if f"systemd {stated[2]} " in analyze("--version"):
        assert measured[1] == stated[1]
    assert float(measured[1]) < 2


def test_the_unit_starts_the_command_with_options_that_it_has() -> None:
    command, subcommand, *arguments = unit()["ExecStart"][0].split()
    assert (command, subcommand) == (COMMAND, "run")
    known = {name for parameter in run.params for name in parameter.opts}
    assert {word for word in arguments if word.startswith("-")} - known == set()


def test_the_unit_waits_longer_for_the_end_than_the_daemon_does() -> None:
    settings = read_settings(FOLDER / "muster.yaml")
    assert int(unit()["TimeoutStopSec"][0]) > settings.grace_seconds


def test_what_a_restart_cannot_mend_is_not_restarted() -> None:
    """The exit codes of wrong settings, a damaged log and a newer log."""
    assert unit()["RestartPreventExitStatus"] == ["2 4 5"]


def test_the_unit_is_watched_and_says_when_it_is_ready() -> None:
    found = unit()
    assert found["Type"] == ["notify"]
    assert int(found["WatchdogSec"][0]) > 0


def test_the_log_of_the_settings_is_where_the_unit_may_write() -> None:
    log = read_settings(FOLDER / "muster.yaml").log
    assert log is not None
    assert Path(log).parent == Path("/var/lib") / unit()["StateDirectory"][0]
