"""What Volcano's scheduler is given on its command line, `muster run` is given, too (volcano E.1)."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from msgspec import structs
from structlog.testing import capture_logs

from daemon.cli import volcano_flags
from daemon.cli.app import cli
from daemon.cli.run import run
from daemon.cli.volcano_flags import FLAGS, over, warn
from daemon.settings import Settings
from events.errors import UsageError
from tests.checkout import ROOT
from tests.daemon.cli.builders import muster

SEED = (
    "--logtostderr",
    "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf",
    "--enable-healthz=true",
    "--enable-metrics=true",
    "--leader-elect=true",
    "--kube-api-qps=2000",
    "--kube-api-burst=2000",
    "--schedule-period=3s",
    "--node-worker-threads=20",
    "-v=3",
    "2>&1",
)
"""The start-up list of the design."""


def flags(*words: str) -> dict[str, str]:
    """The flags that a command line gives."""
    with run.make_context("run", list(words)) as context:
        return dict(volcano_flags.given(context))


def test_the_start_up_list_of_the_design_is_understood_as_it_stands() -> None:
    given = flags(*SEED)
    assert over(Settings(), given) == structs.replace(
        Settings(),
        policy="/volcano.scheduler/volcano-scheduler.conf",
        listen="0.0.0.0:8080",
        probes_listen="0.0.0.0:11251",
        leader_elect=True,
        period_seconds=3.0,
    )
    with capture_logs() as said:
        warn(given, structs.replace(Settings(), scheduler_names=("volcano",)))
    named = [one["option"] for one in said]
    assert named == ["--kube-api-qps", "--kube-api-burst", "--node-worker-threads"]


def test_volcano_flags_warn_that_the_default_scheduler_name_differs() -> None:
    with capture_logs() as said:
        warn({}, Settings())
        warn({"-v": "3"}, Settings())
    assert [one["instead"] for one in said] == ["--scheduler-name=volcano"]


def test_the_default_queue_by_its_name_changes_nothing() -> None:
    assert over(Settings(), flags("--default-queue=default")) == Settings()


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["--leader-elect=false"], {"leader_elect": False}),
        (["--leader-elect"], {"leader_elect": True}),
        (["--leader-elect-lease-duration", "20.5s"], {"lease_seconds": 21}),
        (["--leader-elect-renew-deadline=12s"], {"give_up_seconds": 12.0}),
        (["--leader-elect-retry-period=500ms"], {"renew_seconds": 0.5}),
        (["--leader-elect-resource-name=volcano"], {"lease_name": "volcano"}),
        (["--listen-address=:9090", "--enable-metrics"], {"listen": "0.0.0.0:9090"}),
        (["--listen-address=127.0.0.1:1"], {"listen": "127.0.0.1:1"}),
        (["--enable-metrics=false", "--enable-healthz=0"], {}),
        (["--healthz-address=:1"], {}),
        (["--healthz-address=[::1]:1", "--enable-healthz"], {"probes_listen": "[::1]:1"}),
        (["-v", "5"], {"log_level": "debug"}),
        (["--v=4"], {"log_level": "debug"}),
        (["--scheduler-conf="], {}),
        (["--priority-class", "--scheduler-sharding-mode=none"], {}),
    ],
)
def test_a_flag_becomes_a_setting(words: list[str], changes: dict[str, object]) -> None:
    assert over(Settings(), flags(*words)) == structs.replace(Settings(), **changes)


@pytest.mark.parametrize(
    "word",
    [
        "--default-queue=other",
        "--node-selector=zone:a",
        "--scheduler-sharding-mode=hard",
        "--priority-class=false",
        "--schedule-period=soon",
        "--schedule-period=0s",
        "--leader-elect=perhaps",
        "-v=much",
    ],
)
def test_what_cannot_be_done_is_an_error_that_names_the_flag(word: str) -> None:
    with pytest.raises(UsageError, match=re.escape(word.partition("=")[0])):
        over(Settings(), flags(word))


def test_musters_own_options_come_first_and_arguments_alone_are_those_of_run(
    tmp_path: Path,
) -> None:
    """An image whose entry point is `muster` is given Volcano's arguments, and no command."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("actions: fly\n")
    common = ("--log", str(tmp_path / "l.db"), "--policy", str(policy))
    result = muster("--logtostderr", "--scheduler-conf=/nowhere", *common)
    assert result.exit_code == 2
    assert f"{policy}: actions: 'fly' is not an action" in result.stderr


def test_an_unknown_option_is_an_error() -> None:
    result = muster("--no-such-option")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


def test_no_flag_stands_in_the_help_and_every_one_in_the_page() -> None:
    text = CliRunner().invoke(cli, ["run", "--help"]).stdout
    page = (ROOT / "docs/from-volcano.md").read_text(encoding="utf-8")
    for flag in FLAGS:
        assert not re.search(rf"(^|\s){flag.name}\b", text)
        assert f"| `{flag.name}` | {flag.becomes}" in page
    assert {name for name, *_ in re.findall(r"^\| `(-[\w-]+)` \|", page, re.MULTILINE)}


def test_every_flag_is_an_option_of_run() -> None:
    known = {name for one in run.params if isinstance(one, click.Option) for name in one.opts}
    assert {flag.name for flag in FLAGS} <= known
