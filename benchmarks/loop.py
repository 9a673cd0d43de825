"""Watch events through the daemon's own loop, at several sizes of batches, while pods wait: rate, and share of the audits.

What runs is what `muster run` composes around State: the loop, the deciding thread, views, SQLite, snapshots and audits.
The cluster beside it shows a batch as soon as the one before was taken in, while that is being made durable. It begins when the conditions of all waiting
pods are written. All times are CPU times of the process, the period of the cycles included, so other work on the machine
does not count, and what making the events takes is left out.
"""

import asyncio
import time  # CPU times
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from benchmarks import manifests
from benchmarks.append import lives
from benchmarks.driving import SECOND, composed_loop, nothing_of
from benchmarks.figures import Figure
from benchmarks.full import Filled, ran, waits
from benchmarks.scale import Scale
from daemon.clock import WallClock
from daemon.deciding_thread import DecidingThread
from daemon.loop import Loop
from engine.batch import Batch
from events.messages import Accepted, PodConditionRequest, Reply, Request, ResumePoint, WatchMessage

BATCHES: Final = (1, 10, 100, 1_000)
RATES: Final = {10: 5_000.0, 100: 10_000.0, 1_000: 20_000.0}
"""Size of batches to the events a second of CPU that are to be reached."""
LIVES_MAX: Final = 1_000_000
SHARE_MAX: Final = 1.0
"""Per cent of the time that audits may take (`daemon/auditing.py`)."""


class CpuClock(WallClock):
    """Real time, of which only what this process computes counts as elapsed."""

    def __init__(self) -> None:
        self._begun_ns = 0

    def count_cpu(self) -> None:
        """From now on only CPU time counts in `now_ns` as well, so that a cycle is due once a CPU second."""
        self._begun_ns = super().now_ns() - self.elapsed_ns()

    def now_ns(self) -> int:
        """Real time up to `count_cpu`, and CPU time since."""
        return self._begun_ns + self.elapsed_ns() if self._begun_ns else super().now_ns()

    def elapsed_ns(self) -> int:
        """CPU time of the process."""
        return time.process_time_ns()


class Feed:
    """A cluster that shows a full cluster with waiting pods, and then batches of a size without end."""

    def __init__(self, shape: Filled, size: int) -> None:
        self._shape = shape
        self._size = size
        self.loop: Loop | None = None
        self.making_ns = 0
        """CPU time that making the events took."""
        self.count = 0
        """Events taken in."""
        self.is_filled = asyncio.Event()
        self._conditions = 0
        """Conditions of pods that were written."""
        self._appended = asyncio.Event()

    async def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """All there is, and then one batch after the other."""
        yield self._cluster()
        loop = self.loop
        assert loop is not None
        await self._until(lambda: loop.is_synced and loop.cycles > 1 and not _is_cut_short(loop))
        await self._until(lambda: self._conditions >= self._shape.waiting)
        self.is_filled.set()
        events = lives(LIVES_MAX, self._shape.nodes)
        while True:
            began = time.thread_time_ns()
            batch = list(islice(events, self._size))
            self.making_ns += time.thread_time_ns() - began
            yield batch  # The loop asks for the next when it has taken this one in.
            self.count += len(batch)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Return when something is so after a batch of the loop is durable."""
        while True:
            await self._appended.wait()
            self._appended.clear()
            if is_so():
                return

    def on_batch(self, batch: Batch, seconds: float) -> None:
        """A batch of the loop is durable."""
        self._appended.set()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Nothing was shown before."""

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Everything that is asked is done."""
        self._conditions += isinstance(request, PodConditionRequest)
        return Accepted(), 1

    def _cluster(self) -> list[WatchMessage]:
        shape = self._shape
        return [
            *manifests.nodes(shape.nodes),
            *nothing_of("PriorityClass", "Namespace", "PodGroup"),
            *manifests.queues(shape.nodes, share=1, count=shape.queues),
            *manifests.listed("Pod", self._pods()),
        ]

    def _pods(self) -> Iterator[WatchMessage]:
        for index in range(self._shape.nodes):
            yield ran(index, 0, self._shape, "Running")
        for index in range(self._shape.waiting):
            yield waits(f"wait-{index:06}", index)


async def measure(scale: Scale) -> list[Figure]:
    """Rate and share at each size of batches."""
    figures: list[Figure] = []
    for size in BATCHES:
        figures += await _measured(scale, size)
    return figures


async def _measured(scale: Scale, size: int) -> list[Figure]:
    shape = Filled(nodes=scale.nodes[0], waiting=scale.waiting_beside)
    clock, feed = CpuClock(), Feed(shape, size)
    thread = DecidingThread(clock.elapsed_ns)
    async with composed_loop(feed, clock, feed.on_batch, thread, size) as loop:
        feed.loop = loop
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.run(), name="loop")
            await feed.is_filled.wait()
            clock.count_cpu()
            began, made, count = time.process_time_ns(), feed.making_ns, feed.count
            audited = loop.audited_ns
            while time.process_time_ns() - began < scale.loop_seconds * SECOND:  # noqa: ASYNC110  # nothing tells of CPU time
                await asyncio.sleep(0.1)
            passed = time.process_time_ns() - began
            spent = passed - (feed.making_ns - made)
            audited, count = loop.audited_ns - audited, feed.count - count
            loop.stop()
    name = f"batches of {size:,}, {shape.waiting:,} pods waiting"
    return [
        Figure(
            benchmark="loop",
            name=f"watch events a second of CPU, {name}",
            value=count / (spent / SECOND),
            unit="events/s",
            bound="at least" if size in RATES else "none",
            target=RATES.get(size),
        ),
        Figure(
            benchmark="loop",
            name=f"share of the audits, {name}",
            value=100 * audited / passed,
            unit="%",
            bound="at most",
            target=SHARE_MAX,
            detail={"cpu_seconds": spent / SECOND, "events": count},
        ),
    ]


def _is_cut_short(loop: Loop) -> bool:
    """Whether the first cycles deferred work."""
    return loop.engine is None or loop.engine.is_cut_short
