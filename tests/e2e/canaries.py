"""Plain pods in a queue of their own, on a node that is reserved for them, while something is attacked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from msgspec import Struct, field

from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import GONE, STRATEGIC
from tests.control_plane.manifests import pod, pod_spec
from tests.e2e.rig import POOL, Rig

NAME: Final = "canary"
PAUSE_SECONDS: Final = 0.3
"""Between the binding of one canary and the creation of the next."""
POLL_SECONDS: Final = 0.02
LOST_SECONDS: Final = 90.0
"""Seconds after which a canary is taken to be left alone for good."""


T = TypeVar("T")


class Waits(Struct):
    """How long canaries waited for their node, in seconds from the answer to their creation."""

    seconds: list[float] = field(default_factory=list)
    begun: float = 0.0
    """On the loop's clock, when the one that still waits was created; 0 where none does."""

    server_seconds: float = 0.0
    """The longest that the API server, or the test's own loop, took for one request of the canaries'."""

    def longest(self) -> float:
        """The longest wait, that of the one that still waits included."""
        waiting = asyncio.get_running_loop().time() - self.begun if self.begun else 0.0
        return max([*self.seconds, waiting])


class Canaries:
    """Keeps one canary after the other going."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._count = 0
        self.node = f"{rig.namespace}-{NAME}"
        self.queue = f"{rig.namespace}-{NAME}"

    async def prepare(self) -> None:
        """Make their node and their queue."""
        rig = self._rig
        (made,) = await rig.add_nodes(1, prefix=NAME)
        taint = {"key": NAME, "value": rig.namespace, "effect": "NoSchedule"}
        patch = {
            "metadata": {"labels": {NAME: rig.namespace, POOL: ""}},
            "spec": {"taints": [taint]},
        }
        (await rig.api.patch(NODES.object_path(made), patch, STRATEGIC)).expect(200)
        manifest = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": self.queue},
            "spec": {"weight": 1, "reclaimable": False},
        }
        await rig.api.create(QUEUES, manifest)

    async def close(self) -> None:
        """Remove the queue; the node goes with the rig's."""
        with suppress(*GONE):
            await self._rig.api.delete(QUEUES.object_path(self.queue))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Waits]:
        """Create one canary after the other for as long as the block lasts, and two more."""
        waits = Waits()
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._run(waits))
            try:
                yield waits
                # The one that waits, and one more: both began before the attack was over.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOST_SECONDS):
                        count = len(waits.seconds)
                        while len(waits.seconds) < count + 2:  # noqa: ASYNC110 - of another task
                            await asyncio.sleep(POLL_SECONDS)
            finally:
                work.cancel()

    async def _run(self, waits: Waits) -> None:
        now = asyncio.get_running_loop().time

        async def timed(call: Awaitable[T]) -> T:
            begun = now()
            answer = await call
            waits.server_seconds = max(waits.server_seconds, now() - begun)
            return answer

        while True:
            self._count += 1
            name = f"{NAME}-{self._count}"
            await timed(self._create(name))
            waits.begun = now()
            path = PODS.object_path(name, self._rig.namespace)
            while not (await timed(self._rig.api.get(path))).expect(200)["spec"].get("nodeName"):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
            waits.seconds.append(now() - waits.begun)
            waits.begun = 0.0
            await self._rig.api.delete(path, {"gracePeriodSeconds": 0})
            await asyncio.sleep(PAUSE_SECONDS)

    async def _create(self, name: str) -> None:
        manifest = {
            **pod(self._rig.namespace, name),
            "spec": pod_spec(
                schedulerName=self._rig.scheduler,
                nodeSelector={NAME: self._rig.namespace},
                tolerations=[{"key": NAME, "operator": "Exists"}],
            ),
        }
        manifest["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": self.queue}
        await self._rig.api.create(PODS, manifest)
