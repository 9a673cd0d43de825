"""A kind of object or decision that only a test adds to its table goes all the way, from the list to the replay."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.checkout import ROOT

SCENARIO = """
scenario: an object of an added kind
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}}
  - {kind: TeamLimit, metadata: {name: few}, spec: {hard: {pods: 4}}}
  - {kind: Pod, metadata: {name: p}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
steps:
  - at: 2s
    apply: [{kind: TeamLimit, metadata: {name: few}, spec: {hard: {pods: 5}}}]
  - at: 3s
    delete: [{kind: TeamLimit, name: few}]
until: 5s
"""

IDLE = """
scenario: a decision of an added kind
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}}
  - kind: Pod
    metadata: {name: lazy, labels: {idle: "yes"}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
steps:
  - at: 4s
    apply:
      - {kind: Pod, metadata: {name: next}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
until: 10s
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
        "calls": ["list teamlimits", "watch teamlimits"],
        "rules": [["list", "watch"]],
        "redacted": ["TeamLimit"],
        "served": ["tl"],
    }


def test_an_object_of_an_added_kind_is_recorded_summarized_and_replayed(tmp_path: Path) -> None:
    scenario, log = tmp_path / "scenario.yaml", f"sqlite:///{tmp_path / 'log.db'}"
    scenario.write_text(SCENARIO, encoding="utf-8")
    assert run("simulate", scenario, module="daemon").returncode == 2
    result = run("simulate", scenario, "--log", log)
    assert (result.returncode, result.stderr) == (0, "")
    told = run("tell", log).stdout
    assert "TeamLimit default/few is seen: at most 4 pods" in told
    assert "TeamLimit default/few is seen: at most 5 pods" in told
    assert "TeamLimit default/few is gone" in told
    for command in (("replay", log), ("rebuild", "--log", log)):
        result = run(*command)
        assert (result.returncode, result.stderr) == (0, "")


def test_a_decision_of_an_added_kind_is_carried_out_shown_and_replayed(tmp_path: Path) -> None:
    scenario, path = tmp_path / "scenario.yaml", tmp_path / "log.db"
    log, module = f"sqlite:///{path}", "tests.added_decision"
    scenario.write_text(IDLE, encoding="utf-8")
    result = run("simulate", scenario, "--log", log, "--output", "json", module=module)
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    [found] = [one for one in document["decisions"] if one["kind"] == "evict_idle"]
    assert (found["pod"], found["node"], found["code"]) == ("default/lazy", "n1", "Idle")
    assert list(document["pods"]) == ["default/next"]
    with closing(sqlite3.connect(path)) as connection:
        query = "select subject, node, code, message from decision where kind = 'evict_idle'"
        assert connection.execute(query).fetchall() == [
            ("Pod/default/lazy", "n1", "Idle", "it does nothing")
        ]
    told = run("tell", log, module=module).stdout
    assert "enqueue: it does nothing, idle for 5 s" in told
    assert "pod default/lazy is evicted from n1" in told
    why = run("why", "--log", log, "Pod/default/lazy", module=module).stdout
    assert "idle for 5 s" in why
    for command in (("replay", log), ("rebuild", "--log", log)):
        result = run(*command, module=module)
        assert (result.returncode, result.stderr) == (0, "")
    assert run("replay", log, module="daemon").returncode == 5
