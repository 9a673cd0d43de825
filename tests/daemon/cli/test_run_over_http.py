"""`muster run --simulate --http`: the daemon as on a real API server, and others beside it."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep  # noqa: TID251  # a daemon in a process of its own keeps real time

import pytest

from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.queries.history import write_snapshots
from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, muster, scenario

CLUSTER = """\
period: 50ms
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "2", memory: 8Gi, pods: "20"}}}
  - kind: Pod
    metadata: {name: "p{i}"}
    spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
    count: 3
"""
DEADLINE_SECONDS = 120.0


class Daemon:
    """A daemon in a process of its own, and what it told."""

    def __init__(
        self, folder: Path, *words: str, program: tuple[str, ...] = ("-m", "daemon")
    ) -> None:
        self._told = folder / "told"
        with self._told.open("wb") as told_to:
            self.process = subprocess.Popen(  # noqa: S603  # our own command
                [
                    *(sys.executable, *program, "run", "--log", str(folder / "run.db")),
                    *("--simulate", str(scenario(folder, CLUSTER)), "--http", "127.0.0.1:0"),
                    *("--listen", "127.0.0.1:0"),
                    *words,
                ],
                cwd=ROOT,
                stderr=told_to,
            )

    def told(self, event: str) -> dict[str, str]:
        """The first line about something; within bounds, there is one."""
        until(lambda: self._lines(event) != [])
        return self._lines(event)[0]

    @property
    def text(self) -> str:
        """All that it told."""
        return self._told.read_text()

    def _lines(self, event: str) -> list[dict[str, str]]:
        lines = self._told.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("}\n")]
        return [one for one in found if one["event"] == event]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that is ended with the test."""
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.process.kill()
    daemon.process.wait()


def ask(url: str, body: object = None) -> dict[str, object]:
    """What the API server, or the daemon, answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  # on loopback
        found: dict[str, object] = json.loads(answer.read())
        return found


def test_others_see_what_muster_does_and_it_sees_what_they_do(
    daemon: Daemon, tmp_path: Path
) -> None:
    probes = daemon.told("listening")["address"]
    server = daemon.told("simulated API server")
    assert json.loads(Path(server["kubeconfig"]).read_text())["clusters"][0]["cluster"] == {
        "server": server["url"]
    }
    pods = f"{server['url']}/api/v1/namespaces/default/pods"
    until(lambda: nodes(pods) == ["", "n1", "n1"])
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n2"},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}},
    }
    ask(f"{server['url']}/api/v1/nodes", node)
    until(lambda: nodes(pods) == ["n1", "n1", "n2"])
    ready = ask(f"http://{probes}/readyz")
    assert (ready["ready"], ready["role"]) == (True, "leader")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(DEADLINE_SECONDS) == 0
    log = str(tmp_path / "run.db")
    [replayed] = documents(muster("replay", log, "--output", "json"))
    assert replayed["equal"] is True
    with closing(sqlite3.connect(log)) as connection:
        [[reason]] = connection.execute(
            "select message from decision where kind = 'refuse' limit 1"
        ).fetchall()
    assert "1 Insufficient cpu" in reason


def test_a_policy_file_that_changes_decides_from_then_on(tmp_path: Path) -> None:
    """Volcano E.2"""
    path = tmp_path / "policy.yaml"
    path.write_text("quotas: none\nactions: enqueue\n")
    daemon = Daemon(tmp_path, f"--scheduler-conf={path}")
    try:
        pods = f"{daemon.told('simulated API server')['url']}/api/v1/namespaces/default/pods"
        until(lambda: nodes(pods) == ["", "", ""])
        daemon.told("cluster listed")
        path.write_text(
            'quotas: none\nactions: "enqueue, allocate"\ntiers: [{plugins: [{name: predicates}]}]\n'
        )
        until(lambda: nodes(pods) == ["", "n1", "n1"])
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_SECONDS) == 0
    finally:
        daemon.process.kill()
        daemon.process.wait()
    [replayed] = documents(muster("replay", tmp_path / "run.db", "--output", "json"))
    assert replayed["equal"] is True


def nodes(pods: str) -> list[str]:
    """Where each pod is."""
    items = ask(pods)["items"]
    assert isinstance(items, list)
    return sorted(item["spec"].get("nodeName", "") for item in items)


def test_a_daemon_archives_what_is_older_than_its_settings_say(tmp_path: Path) -> None:
    log, folder = tmp_path / "run.db", tmp_path / "archives"
    folder.mkdir()
    old = ROOT / "docs" / "examples" / "node_fault.yaml"  # Its virtual time is in 1970.
    assert muster("simulate", old, "--log", log).exit_code == 0
    before = str(documents(muster("log", "verify", log, "--output", "json"))[0]["records"])
    asyncio.run(with_snapshots(log))
    settings = tmp_path / "settings.yaml"
    settings.write_text("{retain_days: 1, archive_folder: archives}", encoding="utf-8")
    daemon = Daemon(tmp_path, "--config", str(settings))
    try:
        archived = daemon.told("archived a part of the log")
        daemon.told("pod bound")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_SECONDS) == 0
    finally:
        daemon.process.kill()
        daemon.process.wait()
    [archive] = folder.glob("*.muster")
    assert archive.name == f"log-{1:012}-{int(archived['last']):012}.muster"
    assert 1 < int(archived["last"]) <= int(before)
    for part in (archive, log):
        assert muster("log", "verify", part).exit_code == 0
        assert muster("replay", part).exit_code == 0
    assert (
        muster("rebuild", "--log", log).exit_code == 1
    )  # Rows of the archived past are gone then.
    assert muster("rebuild", "--log", log).exit_code == 0
    [apart] = documents(muster("log", "verify", log, "--output", "json"))
    assert muster("log", "join", archive, "--log", log).exit_code == 0
    [whole] = documents(muster("log", "verify", log, "--output", "json"))
    assert (whole["position"], whole["digest"]) == (apart["position"], apart["digest"])
    assert muster("replay", log).exit_code == 0


async def with_snapshots(path: Path) -> None:
    """Write the snapshots that a daemon would have written."""
    log = await open_log(str(path), "write")
    assert isinstance(log, SqlLog)
    await write_snapshots(log, 10)
    await log.close()


def until(holds: Callable[[], bool]) -> None:
    """Wait, within bounds, for something to hold."""
    end = monotonic() + DEADLINE_SECONDS
    while not holds():
        assert monotonic() < end, "it never came to be"
        sleep(0.05)


STUCK = """\
import pathlib, sys, threading
reached = pathlib.Path(sys.argv.pop())
from engine.engine import Engine
def stuck(*_):
    reached.touch()
    threading.Event().wait()
Engine.cycle = stuck
from daemon.cli.app import main
main()
"""


def test_a_daemon_whose_cycle_is_stuck_answers_and_leaves_when_it_is_asked_to(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("grace_seconds: 0.5\n")
    reached = tmp_path / "reached"
    daemon = Daemon(
        tmp_path,
        *("--config", str(settings), str(reached)),
        program=("-c", STUCK),
    )
    try:
        until(reached.exists)
        probes = f"http://{daemon.told('listening')['address']}"
        assert ask(f"{probes}/livez") == {"live": True, "still": {}}
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_SECONDS) == 70
        assert daemon.told("left during a cycle")["what"] == "the cycle"
        assert "did not end within 0.5 s" in daemon.text.splitlines()[-1]
    finally:
        daemon.process.kill()
        daemon.process.wait()
    assert "cycle_opened" not in daemon.text
