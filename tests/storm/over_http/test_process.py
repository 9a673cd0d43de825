"""`muster run` as a process on an API server over HTTP, with its log in SQLite."""

import asyncio
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.clock import WallClock
from daemon.cluster.server.simulated_api_server import Listening, running_server
from daemon.log.opening import open_log
from daemon.log.verify import verify
from tests.storm.daemon_process import DaemonProcess, chance
from tests.storm.judge import decided_in, entries_of, replayed
from tests.storm.over_http.crowd import Crowd, cluster_of
from tests.storm.over_http.witness import Witness

SEED = 51
SECOND_NS = 1_000_000_000
SETTINGS = (
    "period_seconds: 0.2\nsnapshot_every: 500\nlisten: ''\nlog_level: info\nleader_elect: false\n"
)


async def judged(log: str, witness: Witness, pods: int) -> int:
    """Records of a log that is whole, replays equal, and says what happened, once."""
    assert witness.doubled == []
    assert len(witness.bound) == pods
    opened = await open_log(log)
    await verify(opened)
    entries = await entries_of(opened)
    await opened.close()
    state = replayed(entries)
    really = {(uid, node) for uid, (_, node) in witness.bound.items()}
    assert really <= {(uid, node) for (_, uid), node in decided_in(entries).items()}
    assert {(uid, pod.node) for uid, pod in state.cluster.pods.items()} == really
    assert not state.commitments
    return len(entries)


async def until_nobody_waits(crowd: Crowd, daemon: DaemonProcess, seconds: float) -> None:
    """Until all pods have nodes."""
    async with asyncio.timeout(seconds):
        while crowd.waiting():
            assert daemon.is_alive, daemon.told[-2000:]
            await asyncio.sleep(0.05)


async def until_recorded(log: str, pods: int) -> None:
    """Until the log says of each binding that it was done: after a death some are read back first."""
    query = "select count(distinct subject) from outcome where result = 'bound'"
    async with asyncio.timeout(60):
        while True:
            with closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as connection:
                if connection.execute(query).fetchone()[0] >= pods:
                    return
            await asyncio.sleep(0.1)


async def weathered(folder: Path, nodes: int, pods: int, kills: int) -> float:
    """Pods come all at once, the daemon is killed now and then; seconds until no pod is pending."""
    log = str(folder / "log.db")
    async with running_server(cluster_of(nodes)) as server:
        crowd, witness = Crowd(server.api), Witness(server.api)
        cluster = ["--kubeconfig", str(server.kubeconfig(folder / "kubeconfig"))]
        daemon = DaemonProcess(folder, log, cluster, SETTINGS)
        await daemon.start()
        try:
            crowd.come(pods)
            began = WallClock().elapsed_ns()
            for index in range(kills):
                while len(witness.bound) < pods * (index + 1) // (kills + 1):
                    assert daemon.is_alive, daemon.told[-2000:]
                    await asyncio.sleep(0.05 * chance(SEED, index))
                await daemon.kill()
                await daemon.start()
            await until_nobody_waits(crowd, daemon, seconds=300)
            seconds = (WallClock().elapsed_ns() - began) / SECOND_NS
            await daemon.until_told()
            await until_recorded(log, pods)
            assert await daemon.stop() == 0, daemon.told[-2000:]
            assert "Traceback" not in daemon.told
            await judged(log, witness, pods)
        finally:
            await daemon.kill()
    return seconds


async def test_a_daemon_that_is_killed_while_it_binds_binds_each_pod_once(tmp_path: Path) -> None:
    await weathered(tmp_path, nodes=30, pods=160, kills=2)


@pytest.mark.soak
async def test_five_thousand_pods_come_to_a_thousand_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "once").mkdir()
    seconds = await weathered(tmp_path / "once", nodes=1000, pods=5000, kills=0)
    (tmp_path / "killed").mkdir()
    await weathered(tmp_path / "killed", nodes=1000, pods=5000, kills=10)
    with capsys.disabled():
        print(f"5,000 pods on 1,000 nodes: {seconds:.1f} s, {5000 / seconds:.0f} pods/s")  # noqa: T201


async def test_a_daemon_without_a_server_says_so_and_leaves_when_asked(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = str(tmp_path / "log.db")
    scenario = cluster_of(2)
    kubeconfig = tmp_path / "kubeconfig"
    async with running_server(scenario, listening=Listening(port=port)) as server:
        server.kubeconfig(kubeconfig)
    settings = SETTINGS.replace("leader_elect: false", "log_level: warning").replace(
        "log_level: info\n", ""
    )
    daemon = DaemonProcess(tmp_path, log, ["--kubeconfig", str(kubeconfig)], settings)
    await daemon.start()
    try:
        await daemon.until_told("the lease was not reached")
        async with running_server(scenario, listening=Listening(port=port)) as server:
            crowd = Crowd(server.api)
            crowd.come(4)
            await until_nobody_waits(crowd, daemon, seconds=40)
        assert await daemon.stop() == 0, daemon.told[-2000:]
    finally:
        await daemon.kill()
    assert "Traceback" not in daemon.told
    assert len(daemon.told.splitlines()) < 60, "a line a change, not a line a try"
