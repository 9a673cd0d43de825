"""`make cluster`: a person starts a cluster, tries something on it, and stops it."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.volcano_queue import QUEUES
from tests.checkout import ROOT
from tests.control_plane.__main__ import HELP
from tests.control_plane.api import Api
from tests.control_plane.cluster import Cluster
from tests.control_plane.manifests import binding, pod
from tests.control_plane.test_plane import processes

COMMAND = (sys.executable, "-m", "tests.control_plane")
START_SECONDS = 120.0
STOP_SECONDS = 30.0
RUN_SECONDS = 30.0


def test_make_knows_the_target_and_says_what_it_is_for() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "cluster"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout.rstrip().endswith("-m tests.control_plane")
    listed = subprocess.run(
        ["make", "help"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert re.search(r"^make cluster .*Ctrl-C", listed.stdout, re.MULTILINE)


def test_the_page_on_the_first_cluster_shows_what_the_command_prints() -> None:
    page = (ROOT / "docs/first-cluster.md").read_text(encoding="utf-8")
    shape = re.sub(r"\\\{\w+\\\}", r"\\S+", re.escape(HELP))
    assert re.search(rf"^```\n{shape}```$", page, re.MULTILINE)


def test_a_folder_that_exists_is_not_written_to(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own arguments
        [*COMMAND, "--folder", tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path} exists already; --folder names a new folder\n"
    assert list(tmp_path.iterdir()) == []


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command, and what it printed before it waits."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--folder", str(folder), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            told = await process.stdout.readuntil(b"removes it.\n")
        yield process, told.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.apiserver
async def test_the_cluster_runs_pods_until_ctrl_c_and_then_nothing_is_left(
    cluster: Cluster, tmp_path: Path
) -> None:
    """`cluster` is another one, asked for so that this test is skipped where none can be started."""
    if cluster.plane is None:
        pytest.skip("the cluster under test is not ours, so its programs need not be here")
    folder = tmp_path / "cluster"
    async with started(folder) as (process, told):
        (kubeconfig,) = re.findall(r"^  export KUBECONFIG=(\S+)$", told, re.MULTILINE)
        (of_muster,) = re.findall(r"^  muster run --kubeconfig (\S+) ", told, re.MULTILINE)
        async with Api.of(Path(kubeconfig)) as api:
            nodes = await api.items(NODES.path)
            assert [one["metadata"]["name"] for one in nodes] == ["node-1", "node-2"]
            conditions = {one["type"]: one["status"] for one in nodes[0]["status"]["conditions"]}
            assert conditions["Ready"] == "True"
            assert await api.items(QUEUES.path) == []
            made = await api.create(PODS, pod("default", "tried"))
            path = PODS.object_path("tried", "default")
            (await api.post(f"{path}/binding", binding(made, "node-1"))).expect(201)
            async with asyncio.timeout(RUN_SECONDS):
                async with api.watch(PODS.path, fieldSelector="status.phase=Running") as watch:
                    running = (await watch.until("ADDED", "tried"))[-1].object
            statuses = running["status"]["containerStatuses"]
            assert [one["ready"] for one in statuses] == [True]
        async with Api.of(Path(of_muster)) as muster:
            assert len(await muster.items(NODES.path)) == 2
            assert (await muster.get("/api/v1/secrets")).status == 403
        assert processes(folder)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(STOP_SECONDS):
            assert await process.wait() == 0
    assert processes(folder) == []
    assert not folder.exists()
