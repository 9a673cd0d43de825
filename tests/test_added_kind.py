"""An observed kind that only a test adds to the table goes all the way: lists, roles, log, State and `tell`."""

import json
import subprocess
import sys
from pathlib import Path

from tests.checkout import ROOT

SCENARIO = """
scenario: an object of an added kind
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}}
  - {kind: ResourceQuota, metadata: {name: few}, spec: {hard: {pods: 4}}}
  - {kind: Pod, metadata: {name: p}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
steps:
  - at: 2s
    apply: [{kind: ResourceQuota, metadata: {name: few}, spec: {hard: {pods: 5}}}]
  - at: 3s
    delete: [{kind: ResourceQuota, name: few}]
until: 5s
"""


def run(*words: str | Path, module: str = "tests.added_kind") -> subprocess.CompletedProcess[str]:
    """Run a command in a process whose table of kinds has one more."""
    return subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-m", module, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_calls_roles_and_the_simulated_server_follow_from_the_table() -> None:
    result = run("tables")
    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "calls": ["list resourcequotas", "watch resourcequotas"],
        "rules": [["list", "watch"]],
        "redacted": ["ResourceQuota"],
        "served": ["quota"],
    }


def test_an_object_of_an_added_kind_is_recorded_summarized_and_replayed(tmp_path: Path) -> None:
    scenario, log = tmp_path / "scenario.yaml", f"sqlite:///{tmp_path / 'log.db'}"
    scenario.write_text(SCENARIO, encoding="utf-8")
    assert run("simulate", scenario, module="daemon").returncode == 2
    result = run("simulate", scenario, "--log", log)
    assert (result.returncode, result.stderr) == (0, "")
    told = run("tell", log).stdout
    assert "ResourceQuota default/few is seen: at most 4 pods" in told
    assert "ResourceQuota default/few is seen: at most 5 pods" in told
    assert "ResourceQuota default/few is gone" in told
    for command in (("replay", log), ("rebuild", "--log", log)):
        result = run(*command)
        assert (result.returncode, result.stderr) == (0, "")
