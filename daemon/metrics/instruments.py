"""What is counted and timed as it happens.

Records are counted once they are durable, and as a rule by their kind alone; only decisions and outcomes,
of which a figure needs more, are decoded.
"""

from collections import Counter as Tally
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Final, get_args

from prometheus_client import CollectorRegistry

from daemon.metrics.closed import QUEUES_MAX, QueueLabels, call_of, code_of, resource_of, status_of
from daemon.metrics.sources import Sources
from daemon.metrics.table import METRICS
from daemon.metrics.tallies import Counter, CountSeries, DurationSeries, Histogram
from engine.batch import Batch
from events.cluster import ObjectUnreadable
from events.decisions.gang_bind import GangBindDecided
from events.decisions.reschedule import (
    JOB,
    POD,
    RESTART_RESULTS,
    SUPER_POD,
    RescheduleDecided,
    RestartEnded,
)
from events.outcome import BindFailed, BindOutcomeUnknown, PodBound
from events.record import Record
from events.union import DECISIONS, Event, Outcome
from events.watch import (
    WENT_BACK,
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    WatchClosed,
)
from projections.queues import Queue
from scheduling.session_decider import ACTIONS

_WORDS: Final = {one.kind.partition(".")[0]: one.word for one in DECISIONS}
"""Kind of a decision to what it is called in views and metrics."""

ACTIVITIES: Final = (*ACTIONS, "apply", "report", "requests", "views", "listeners")
"""What may be under way when an exception is held to its subject."""

_OUTCOMES: Final = frozenset(outcome.kind for outcome in get_args(Outcome))
_BINDINGS: Final = frozenset(one.kind for one in DECISIONS if issubclass(one, GangBindDecided))
_DECODED: Final = (
    _OUTCOMES
    | _BINDINGS
    | {KindCompared.kind, WatchClosed.kind, RescheduleDecided.kind, RestartEnded.kind}
)
_RESULTS: Final = {PodBound: "bound", BindFailed: "failed", BindOutcomeUnknown: "unknown"}
_NS: Final = 1_000_000_000


class Instruments:
    """Counters and histograms, by the names of the table."""

    def __init__(
        self, registry: CollectorRegistry, sources: Sources, queues_max: int = QUEUES_MAX
    ) -> None:
        self._registry = registry
        self._sources = sources
        self.queue_labels = QueueLabels(queues_max)
        self._cycle = self._histogram("muster_cycle_seconds").labels()
        self._decide = self._histogram("muster_decide_seconds").labels()
        self._append = self._histogram("muster_append_seconds").labels()
        self._bind = self._histogram("muster_bind_seconds")
        self._wait = self._histogram("muster_wait_seconds")
        self._restart = self._histogram("muster_restart_seconds")
        self._rescheduled = self._counter("muster_rescheduled_pods_total")
        self._records = self._counter("muster_records_total")
        self._decisions = self._counter("muster_decisions_total")
        self._placements = self._counter("muster_placements_total")
        self._outcomes = self._counter("muster_outcomes_total")
        self._no_objects = self._counter("muster_no_objects_total").labels()
        self._foreign = self._counter("muster_foreign_placements_total").labels()
        self._rejections = self._counter("muster_node_rejections_total").labels()
        self._requests = self._counter("muster_api_requests_total")
        self._request = self._histogram("muster_api_request_duration_seconds")
        self._dropped = self._counter("muster_events_dropped_total").labels()
        self._http_refused = self._counter("muster_http_refused_total")
        self._internal = self._counter("muster_internal_errors_total")
        self._went_back = self._counter("muster_revisions_went_back_total").labels()
        self._full_lists = self._counter("muster_full_lists_total")
        self._differences = self._counter("muster_full_list_differences_total")
        for scope in (POD, SUPER_POD, JOB):
            self._rescheduled.labels(scope)
        for result in RESTART_RESULTS:
            self._restart.labels(result)
        for activity in ACTIVITIES:
            self._internal.labels(activity)
        self._request_series: dict[tuple[str, int], tuple[CountSeries, DurationSeries]] = {}
        """Call and status to the series of such requests; calls and statuses are closed lists."""
        self._bind_series = {event: self._bind.labels(result) for event, result in _RESULTS.items()}
        for kind in _WORDS.values():
            # What never happened is 0, not absent: a rate can then be taken of the first one.
            self._decisions.labels(kind)

    def cycle_held(self, decide_seconds: float, seconds: float) -> None:
        """A cycle was held, and what it decided is durable."""
        self._decide.observe(decide_seconds)
        self._cycle.observe(seconds)

    def observe_batch(self, batch: Batch, seconds: float) -> None:
        """A batch is durable, so many seconds after it was handed over."""
        self._append.observe(seconds)
        for kind, count in Tally(map(attrgetter("kind"), batch.records)).items():
            name = kind.partition(".")[0]
            self._records.labels(name).inc(count)
            if name in _WORDS:
                self._decisions.labels(_WORDS[name]).inc(count)
            if kind == ForeignPodPlaced.kind:
                self._foreign.inc(count)
            elif kind == ObjectUnreadable.kind:
                self._no_objects.inc(count)
            elif kind == BindRejectedByNode.kind:
                self._rejections.inc(count)
        outcomes: Tally[tuple[str, str]] = Tally()
        for record, event in batch.events_of(_DECODED):
            self._look_into(record, event)
            if record.kind in _OUTCOMES:
                outcomes[record.kind, getattr(event, "code", "")] += 1
        for (kind, code), count in outcomes.items():
            self._outcomes.labels(kind.partition(".")[0], code_of(code)).inc(count)

    def observe_request(self, what: str, status: int, seconds: float) -> None:
        """A request to the API server was answered; with status 0, no answer came."""
        series = self._request_series.get((what, status))
        if series is None:
            call = call_of(what)
            series = self._requests.labels(*call, status_of(status)), self._request.labels(*call)
            if call != call_of(""):
                self._request_series[what, status] = series
        requests, durations = series
        requests.inc()
        durations.observe(seconds)

    def event_dropped(self, count: int = 1) -> None:
        """Kubernetes Events that will not be written."""
        self._dropped.inc(count)

    def http_refused(self, reason: str) -> None:
        """An HTTP connection or request was refused or broken off."""
        self._http_refused.labels(reason).inc()

    def internal_error(self, activity: str) -> None:
        """An exception out of our own code was held to its subject."""
        self._internal.labels(activity).inc()

    def update_queues(self, queues: Mapping[str, Queue]) -> None:
        """Give series to the queues that there are now, and leave none of those that are gone."""
        for name in self.queue_labels.update(queues):
            for metric in (self._placements, self._wait):
                with suppress(KeyError):
                    metric.remove(name)

    def _look_into(self, record: Record, event: Event) -> None:
        match event:
            case GangBindDecided():
                self._placed(record, event)
            case RescheduleDecided():
                self._rescheduled.labels(event.scope).inc(len(event.evictions))
            case RestartEnded():
                self._restart.labels(event.code).observe(event.restart_ns / _NS)
            case KindCompared():
                resource = resource_of(event.resource)
                self._full_lists.labels(resource).inc()
                self._differences.labels(resource).inc(event.differences)
            case WatchClosed():
                # All kinds have a gap then; Pod stands for them.
                self._went_back.inc(event.cause == WENT_BACK and event.resource == "Pod")
            case PodBound() | BindFailed() | BindOutcomeUnknown():
                self._bind_series[type(event)].observe(event.latency_ns / _NS)
            case _:
                pass

    def _placed(self, record: Record, event: GangBindDecided) -> None:
        state = self._sources.state()
        self.queue_labels.add(None if state is None else state.cluster.queues, event.queue)
        queue = self.queue_labels.of(event.queue)
        self._placements.labels(queue).inc(len(event.placements))
        if state is None:
            return
        waiting = self._wait.labels(queue)
        for placement in event.placements:
            pod = state.cluster.pods.get(placement.uid)
            if pod is not None and pod.facts.created_ns:
                waited = record.recorded_at_ns - pod.facts.created_ns
                waiting.observe(max(0, waited) / _NS)

    def _counter(self, name: str) -> Counter:
        metric = METRICS[name]
        assert metric.kind == "counter", name
        return Counter(metric, self._registry)

    def _histogram(self, name: str) -> Histogram:
        metric = METRICS[name]
        assert metric.kind == "histogram", name
        return Histogram(metric, self._registry)
