"""All metrics together, in the text that Prometheus reads.

The format is that of the library `prometheus_client` (pure Python, no dependencies, 200 KB): escapes,
histograms and process figures are its business. Its registry is ours alone, so nothing is exported that
another library registers somewhere.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import Metric as Family

from daemon.health import Health
from daemon.metrics.closed import QUEUES_MAX
from daemon.metrics.gauges import Gauges
from daemon.metrics.instruments import Instruments
from daemon.metrics.sources import Sources

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

IDLE_SECONDS: Final = 2.0
"""How long a scrape waits for the end of a cycle, before it answers with the last known figures of State."""


class Metrics:
    """What is counted, what is read at each scrape, and both as text."""

    def __init__(
        self, health: Health, version: str, decider: int, queues_max: int = QUEUES_MAX
    ) -> None:
        self._registry = CollectorRegistry()
        self.sources = Sources()
        self.counted = Instruments(self._registry, self.sources, queues_max)
        labels, build = self.counted.queue_labels, (version, str(decider))
        self._registry.register(Gauges(health, self.sources, build, labels))
        ProcessCollector(registry=self._registry)

    async def scrape(self) -> list[Family]:
        """All figures, those of State as of the end of a cycle where one ends soon."""
        if self.sources.is_state_busy():
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS):
                    await self.sources.until_state_is_idle()
        return self.collect()

    def collect(self) -> list[Family]:
        """All figures as they are now; in the event loop's thread. While a cycle changes State, its last known ones."""
        state = None if self.sources.is_state_busy() else self.sources.state()
        if state is not None:
            self.counted.update_queues(state.cluster.queues)
        return list(self._registry.collect())


def text_of(families: list[Family]) -> bytes:
    """Figures as text. In whatever thread: with hundreds of queues it is most of the work."""
    return generate_latest(_Collected(families))


class _Collected(CollectorRegistry):
    """What was collected before."""

    def __init__(self, families: list[Family]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Family]:
        """It."""
        return self._families
