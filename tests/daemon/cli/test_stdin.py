"""`-` in place of a file: manifests and scenarios from standard input; standard streams that are closed."""

import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from daemon.cli.app import cli
from tests.checkout import ROOT
from tests.daemon.cli.builders import QUOTA

SCENARIO = """\
scenario: one pod
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "2", memory: 8Gi, pods: "20"}}}
cycles: 1
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {schedulerName: muster, containers: [{name: main, resources: {requests: {cpu: "%s"}}}]}
"""


def muster(text: str | bytes, *words: str) -> Result:
    """Run a command with this on standard input."""
    return CliRunner(env={"MUSTER_LOG": None}).invoke(cli, words, input=text, prog_name="muster")


def test_fit_reads_manifests_from_standard_input(tmp_path: object) -> None:
    path = f"{tmp_path}/s.yaml"
    with open(path, "w") as file:
        file.write(SCENARIO)
    assert muster(POD % 1, "fit", "-", "--scenario", path).exit_code == 0
    assert muster(POD % 3, "fit", "-", "--scenario", path).exit_code == 1


def test_simulate_reads_a_scenario_from_standard_input() -> None:
    result = muster(SCENARIO, "simulate", "-", "--output", "json")
    assert (result.exit_code, '"scenario":"one pod"' in result.stdout) == (0, True)


def test_what_is_wrong_with_standard_input_is_one_line_that_names_it(tmp_path: object) -> None:
    for text, said in (
        ("", "standard input: it is empty"),
        (b"\xff\xfe", "standard input: not a text in UTF-8"),
        (SCENARIO + "cycle: 2\n", "standard input"),
    ):
        result = muster(text, "simulate", "-")
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), result.stderr
        assert said in result.stderr
    result = muster(POD % 1, "fit", "-", "-", "--log", f"{tmp_path}/none.db")
    assert "`-` is given twice" in result.stderr


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stdout_or_stderr_changes_no_exit_code(closing: str) -> None:
    for scenario, code in ((QUOTA, 0), ("none.yaml", 2)):
        command = ["bash", "-c", f'exec "$@" {closing}', "bash", sys.executable, "-m", "daemon"]
        done = subprocess.run(  # noqa: S603 - our own arguments
            [*command, "simulate", str(scenario)], cwd=ROOT, capture_output=True, check=False
        )
        assert done.returncode == code, done.stderr
