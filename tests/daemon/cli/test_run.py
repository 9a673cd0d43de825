"""`muster run`: stops in good order, and outlives its own death."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep  # noqa: TID251  # a daemon in a process of its own keeps real time

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, muster, scenario

CLUSTER = """\
period: 50ms
cluster:
  - apiVersion: v1
    kind: Node
    metadata: {name: "n{i}"}
    status: {allocatable: {cpu: "8", memory: 64Gi, pods: "20"}}
    count: 4
  - apiVersion: v1
    kind: Pod
    metadata: {name: "p{i}"}
    spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
    count: 40
"""
SPREAD = ROOT / "docs" / "examples" / "spread.yaml"
ROOM = 32
"""Pods that fit."""
DEADLINE_SECONDS = 120.0


class Daemon:
    """A daemon in a process of its own, and the world it runs against."""

    def __init__(self, folder: Path) -> None:
        self.scenario = scenario(folder, CLUSTER)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.world, self.log, self._told = folder / "world", folder / "run.db", folder / "told"

    def start(self, *words: str, crash_at: str = "") -> subprocess.Popen[bytes]:
        """Start it; it may end itself at a point."""
        program = ("tests.crash_injection", crash_at) if crash_at else ("daemon",)
        with self._told.open("wb") as told:
            process = subprocess.Popen(  # noqa: S603  # our own command
                [
                    *(sys.executable, "-m", *program, "run", "--simulate", str(self.scenario)),
                    *("--world", str(self.world), "--log", str(self.log), *words),
                ],
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != "MUSTER_LOG"},
                stderr=told,
            )
        self.processes.append(process)
        return process

    def has_settled(self) -> bool:
        """Whether it runs, and every pod that fits is bound."""
        return '"daemon started"' in self.told() and self.outcomes() == ROOM

    def told(self) -> str:
        """What it told since it was last started."""
        return self._told.read_text()

    def stop(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
        """Stop it in good order."""
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == 0, self.told()

    def bindings(self) -> list[tuple[str, int]]:
        """By the world's own journal: pods that were bound, and how often."""
        return self._rows(
            self.world,
            "select name, count(*) from journal where verb = 'bind' and result = 'done' group by 1",
        )

    def outcomes(self) -> int:
        """Pods that the log knows to be bound."""
        rows = self._rows(self.log, "select 'bound', count(*) from outcome where result = 'bound'")
        return rows[0][1] if rows else 0

    def _rows(self, path: Path, query: str) -> list[tuple[str, int]]:
        if not path.exists():
            return []
        try:
            with closing(
                sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
            ) as connection:
                return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []  # Its tables are not made yet.


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    deadline = monotonic() + DEADLINE_SECONDS
    while not holds():
        assert monotonic() < deadline
        sleep(0.05)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that is not started yet. None of its processes outlives the test."""
    daemon = Daemon(tmp_path)
    yield daemon
    for process in daemon.processes:
        process.kill()
        process.wait(DEADLINE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_daemon_in_good_order(daemon: Daemon, number: int) -> None:
    process = daemon.start()
    until(daemon.has_settled)
    daemon.stop(process, number)
    assert '"event":"daemon stopped"' in daemon.told().splitlines()[-1]
    (state,) = documents(muster("state", daemon.log, "-o", "json"))
    assert state["commitments"] == 0
    assert muster("replay", daemon.log).exit_code == 0


def test_a_daemon_that_is_started_again_goes_on(daemon: Daemon) -> None:
    for _ in range(3):
        process = daemon.start()
        until(daemon.has_settled)
        daemon.stop(process)
    assert sorted(daemon.bindings()) == sorted((name, 1) for name, _ in daemon.bindings())
    assert muster("replay", daemon.log).exit_code == 0
    assert muster("rebuild", "--log", daemon.log).exit_code == 0
    told = muster("tell", daemon.log).stdout
    assert told.count("takes over the log") == 3
    assert told.count("in force:") == 1


@pytest.mark.parametrize(
    "point",
    [
        "inside_commit:4",
        "after_commit:5",
        "after_effect:9",
        *(pytest.param(one, marks=pytest.mark.soak) for one in ("after_commit:4", "after_effect")),
    ],
)
def test_a_daemon_that_dies_is_continued_without_loss(daemon: Daemon, point: str) -> None:
    process = daemon.start(crash_at=point)
    assert process.wait(DEADLINE_SECONDS) == 137
    assert muster("log", "verify", daemon.log).exit_code == 0
    process = daemon.start()
    until(daemon.has_settled)
    daemon.stop(process)
    assert [count for _, count in daemon.bindings()] == [1] * ROOM
    assert muster("replay", daemon.log).exit_code == 0
    assert muster("rebuild", "--log", daemon.log).exit_code == 0


def test_another_policy_comes_into_force_with_a_start(daemon: Daemon) -> None:
    for words in ([], ["--policy", str(SPREAD)], ["--policy", str(SPREAD)]):
        process = daemon.start(*words)
        until(daemon.has_settled)
        daemon.stop(process)
    assert muster("tell", daemon.log).stdout.count("in force:") == 2
    assert muster("replay", daemon.log).exit_code == 0


def test_the_plain_policy_is_named_instead_of_a_file(daemon: Daemon) -> None:
    process = daemon.start("--policy", "plain")
    until(daemon.has_settled)
    daemon.stop(process)
    told = muster("tell", daemon.log).stdout
    assert "plain" in told
    assert "capacity-card" not in told
    assert muster("replay", daemon.log).exit_code == 0


def test_a_policy_file_that_changes_comes_into_force_and_a_malformed_one_does_not(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Volcano E.2"""
    path = tmp_path / "policy.yaml"
    path.write_text(SPREAD.read_text())
    process = daemon.start("--policy", str(path))
    until(daemon.has_settled)
    path.write_text("actions: fly\n")
    until(lambda: '"the policy stays as it was"' in daemon.told())
    path.write_text('actions: "enqueue, allocate"\ntiers: []\n')
    until(lambda: "no plugin keeps quotas" in daemon.told())
    path.write_text(
        'quotas: none\nactions: "enqueue, allocate"\ntiers: [{plugins: [{name: elsewhere}]}]\n'
    )
    until(lambda: '"event":"policy warned"' in daemon.told())
    daemon.stop(process)
    assert muster("tell", daemon.log).stdout.count("in force:") == 2
    assert muster("replay", daemon.log).exit_code == 0
    assert muster("rebuild", "--log", daemon.log).exit_code == 0


def test_two_daemons_do_not_share_a_log(daemon: Daemon) -> None:
    first = daemon.start()
    until(daemon.has_settled)
    second = daemon.start()
    assert second.wait(DEADLINE_SECONDS) == 3
    # The first one goes on writing to the same stderr.
    assert any(line.startswith("muster: error: ") for line in daemon.told().splitlines())
    daemon.stop(first)


def test_a_world_belongs_to_its_scenario(daemon: Daemon, tmp_path: Path) -> None:
    process = daemon.start()
    until(daemon.has_settled)
    daemon.stop(process)
    other = scenario(tmp_path, "cluster: []", "other.yaml")
    result = muster("run", "--simulate", other, "--world", daemon.world, "--log", daemon.log)
    assert result.exit_code == 2
    assert "this world was made by another scenario" in result.stderr
