"""Metrics after a short scenario, and what Prometheus reads of them."""

from textwrap import dedent

from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from daemon.health import Health
from daemon.log.memory import MemoryLog
from daemon.metrics.closed import QUEUES_MAX
from daemon.metrics.export import Metrics, text_of
from daemon.simulation import simulate
from engine.batch import Batch
from events import codec
from events.record import GENESIS, Record
from events.union import Event
from simulator.scenario import parse_scenario

CLUSTER = """
cluster:
  - kind: Node
    metadata: {name: "n{i}", labels: {nvidia.com/gpu.product: H200}}
    status: {allocatable: {cpu: 8, memory: 16Gi, pods: 110, nvidia.com/gpu: 4}, capacity: {nvidia.com/gpu: 5}}
    count: 2
  - kind: Queue
    metadata: {name: research, annotations: {volcano.sh/card.quota: '{"H200": 3}'}}
    spec: {capability: {cpu: 4}}
  - kind: Pod
    metadata:
      name: "a-{i}"
      annotations: {scheduling.volcano.sh/queue-name: research, volcano.sh/card.name: H200}
    spec: {containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]}
    count: 5
"""


class Figures(Struct):
    """The counters of a watch."""

    resource: str = "Pod"
    state: str = "watching"
    last_event_seconds: float | None = 2.5
    restarts: dict[str, int] = field(default_factory=lambda: {"cut": 2})
    events: int = 10
    dropped: int = 1
    malformed: int = 0
    lag_seconds: float | None = 4.0


class HeardLog(MemoryLog):
    """A log whose batches are counted."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics

    async def append(self, *batches: Batch) -> None:
        """As ever."""
        await super().append(*batches)
        for batch in batches:
            self._metrics.counted.observe_batch(batch, 0.002)


def made(queues_max: int = QUEUES_MAX) -> Metrics:
    """Metrics of a process in which nothing happened yet."""
    return Metrics(Health(lambda: 0), "1.2.3", 4, queues_max)


async def played(text: str = CLUSTER, queues_max: int = QUEUES_MAX) -> Metrics:
    """Metrics after a scenario."""
    metrics = made(queues_max)
    scenario = parse_scenario("scenario: a test\n" + dedent(text), "test.yaml")
    done = await simulate(scenario, HeardLog(metrics), with_views=False)
    metrics.sources.state = lambda: done.state
    metrics.sources.position = lambda: done.head.position
    metrics.sources.anchor = lambda: done.head
    return metrics


def batch_of(*events: Event, subject: str = "Pod/default/a") -> Batch:
    """A batch of these, as the log holds it."""
    records = [
        Record(
            position=index,
            batch=1,
            epoch=1,
            recorded_at_ns=100_000_000_000,
            cycle=None,
            cause=None,
            kind=event.kind,
            subject=subject,
            body=codec.encode(event),
            object=None,
            digest="",
        )
        for index, event in enumerate(events, 1)
    ]
    return Batch(before=GENESIS, records=records)


def samples(metrics: Metrics) -> list[Sample]:
    """Everything that a scrape gets."""
    text = text_of(metrics.collect()).decode()
    return [one for family in text_string_to_metric_families(text) for one in family.samples]


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One figure, or None where there is no such series."""
    found = [one.value for one in samples(metrics) if (one.name, one.labels) == (name, labels)]
    assert len(found) <= 1
    return found[0] if found else None
