"""A daemon in the process of its test: client, loop and a log in memory, without leadership."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.kubernetes import ClusterOptions, KubernetesCluster
from daemon.fold import refolder
from daemon.health import Health
from daemon.log.memory import Memory, MemoryLog
from daemon.loop import Loop, Running
from daemon.simulation import policy_of
from engine.batch import Batch
from events.record import GENESIS
from projections.state import State
from simulator.scenario import Scenario
from tests.storm.over_http.hurry import LoopClock

READING_NS: Final = 20_000


class WorkingClock(LoopClock):
    """Virtual time that each reading takes some of: audits, which may take a share of the time, come to an end."""

    _readings = 0

    def elapsed_ns(self) -> int:
        """Of the loop, and of the readings."""
        self._readings += 1
        return super().elapsed_ns() + READING_NS * self._readings


class InProcessDaemon:
    """One start of a daemon. Several may have one memory, as processes have one database."""

    def __init__(
        self,
        scenario: Scenario,
        kubeconfig: Path,
        memory: Memory,
        jitter: Callable[[], float],
        *,
        updates_status: bool = True,
    ) -> None:
        self.log = MemoryLog(memory)
        self.log.base = GENESIS  # Of what is shared all is there.
        self._policy = policy_of(scenario)
        self._kubeconfig = kubeconfig
        self._jitter = jitter
        self._updates_status = updates_status
        self._loop: Loop | None = None

    @property
    def state(self) -> State:
        """State of the daemon."""
        assert self._loop is not None
        assert self._loop.engine is not None
        return self._loop.engine.state

    @property
    def is_idle(self) -> bool:
        """Whether the daemon is in sync, and has nothing to decide, to do or to record."""
        if self._loop is None or self._loop.engine is None or not self.state.is_synced:
            return False
        is_doing = self._loop.in_flight or self._loop.intake
        return not (self.state.commitments or self.state.evictions or is_doing)

    async def run(self) -> None:
        """Run until cancelled, which ends it as a kill does."""
        clock = LoopClock()
        access = Access(kubeconfig=self._kubeconfig)
        client = await Client.connect(access, self._jitter, "storm/1")
        cluster = KubernetesCluster(
            client,
            ClusterOptions(),
            "storm",
            jitter=self._jitter,
            now_ns=clock.now_ns,
            elapsed_ns=clock.elapsed_ns,
        )
        health = Health(clock.elapsed_ns)
        running = Running(
            holder="storm",
            version="1",
            period_ns=200_000_000,
            policy=self._policy,
            updates_status=self._updates_status,
        )
        fold = refolder(self.log, with_views=False)
        append = self.log.append

        async def append_and_note(*batches: Batch) -> None:
            await append(*batches)
            for batch in batches:
                cluster.note(batch, self.state.cluster)

        self.log.append = append_and_note  # type: ignore[method-assign]
        self._loop = Loop(self.log, cluster, WorkingClock(), fold, running, health)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(cluster.run(health), name="cluster")
                tasks.create_task(self._loop.run(), name="loop")
        finally:
            await client.close()
