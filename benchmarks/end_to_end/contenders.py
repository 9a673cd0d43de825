"""The measured schedulers. Each is a process of its own with an API server of its own."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.end_to_end.arena import NAMESPACE, Arena, Run
from projections.kinds.pod import PODS
from tests.checkout import ROOT

IN_FLIGHT: Final = 16
END_SECONDS: Final = 60.0
KUBE_SCHEDULER: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "%s", qps: 10000, burst: 10000}
"""
"""Its default of 50 requests a second would be measured otherwise. All else is as it comes."""

Contender: TypeAlias = Callable[[Arena, Path], Awaitable[Run]]


async def muster(arena: Arena, folder: Path, *interpreter: str) -> Run:
    """The daemon, with its log in SQLite and everything switched on. `interpreter`: its options."""
    command = ["-m", "daemon", "run", "--kubeconfig", str(arena.cluster.muster)]
    command += ["--log", str(folder / "muster.db"), "--listen", ""]
    return await _measured(arena, folder, "muster", *interpreter, *command)


def profiled(path: Path) -> Contender:
    """The daemon again, slowed down by a profile of where its time goes."""

    async def run(arena: Arena, folder: Path) -> Run:
        return await muster(arena, folder, "-m", "cProfile", "-o", str(path))

    return run


async def kube_scheduler(arena: Arena, folder: Path) -> Run:
    """Kubernetes' own scheduler."""
    config = folder / "kube-scheduler.yaml"
    config.write_text(KUBE_SCHEDULER % arena.cluster.admin, encoding="utf-8")
    arena.plane.start_scheduler("--config", str(config))
    try:
        pids = {"kube-scheduler": arena.plane.pid("kube-scheduler"), **_servers(arena)}
        return await arena.observe(pids)
    finally:
        arena.plane.stop_scheduler()


def bare(bindings: dict[str, str]) -> Contender:
    """A client that posts bindings which someone else has found."""

    async def run(arena: Arena, folder: Path) -> Run:
        uids = {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in await arena.api.items(PODS.collection_path(NAMESPACE))
        }
        known = {name: (uids[name], node) for name, node in bindings.items()}
        path = folder / "bindings.json"
        path.write_text(json.dumps(known), encoding="utf-8")
        command = ["-m", "benchmarks.end_to_end.bare", str(arena.cluster.muster), str(path)]
        return await _measured(arena, folder, "bare client", *command, str(IN_FLIGHT))

    return run


async def _measured(arena: Arena, folder: Path, name: str, *arguments: str) -> Run:
    """What a Python program does to the pods. It is ended when all are bound."""
    stderr_path = folder / "stderr.txt"
    with stderr_path.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, cwd=ROOT, stderr=stderr, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                pids = {name: process.pid, **_servers(arena)}
                observing = tasks.create_task(arena.observe(pids), name="observe")
                ending = tasks.create_task(process.wait(), name="end")
                await asyncio.wait({observing, ending}, return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                if not observing.done() and process.returncode:
                    raise RuntimeError(f"{name} ended: {stderr_path.read_text()[-2_000:]}")
                return await observing
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to leave, unless it has left; do not wait for ever."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _servers(arena: Arena) -> dict[str, int]:
    return {name: arena.plane.pid(name) for name in ("kube-apiserver", "etcd")}
