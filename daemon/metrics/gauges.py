"""Figures of the moment, read from State and from watches when they are asked for.

It costs as much as there are queues, nodes and pod groups that wait; pods are never looped over.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family

from daemon.health import Health
from daemon.metrics.closed import CHOICE, OTHER, QueueLabels, cause_of, resource_of
from daemon.metrics.sources import Sources, WatchFigures
from daemon.metrics.table import METRICS
from engine.report_ages import STALE_NS
from projections.cluster import Cluster
from projections.faulty_pods import FAULTS_OF_PODS, FaultyPods
from projections.feature_documents import Gauge
from projections.node_faults import EFFECTS
from projections.observed_kind import UNREADABLE
from projections.pod_groups import PodGroup
from projections.quarantine import ALL_TENANTS
from projections.refusals import OWN_LIMITS
from projections.state import State
from projections.views.catalogue import QUEUE_QUOTA
from projections.views.now import queue_rows
from scheduling.quota.quota_check import limit_of
from scheduling.quota.real_capability import RealCapability

NOT_TRIED: Final = "NotTried"
BACKING_OFF: Final = "BackingOff"

COUNTED: Final = ("events", "dropped", "malformed")
"""Counters of each watch, as `muster_watch_<name>_total`."""

_MEASURES: Final = QUEUE_QUOTA.column_names[QUEUE_QUOTA.keys :]
_EXPORTED: Final = (*_MEASURES, "limit")
_LIMITS: Final = ("capability", "limit")
_SUMS: Final = frozenset({CHOICE, OTHER})
_CORES: Final = "cpu_cores"
_UNITS: Final = {"cpu": _CORES, "memory": "memory_bytes"}
"""Resource to the unit of its metrics; all others are counted."""
_COUNTED: Final = "cards"
_MILLI: Final = 1000


class Gauges:
    """A collector, as the registry wants it."""

    def __init__(
        self, health: Health, sources: Sources, build: tuple[str, str], queues: QueueLabels
    ) -> None:
        self._health = health
        self._sources = sources
        self._build = build
        self._queues = queues
        self._last: list[Family] = []
        """The figures of State as of the last scrape that could read it."""

    def describe(self) -> Iterable[Family]:
        """Nothing beforehand: the registry is not to ask State before there is any."""
        return ()

    def collect(self) -> Iterator[Family]:
        """All of them, as they are now."""
        yield from self._process()
        if not self._sources.is_state_busy():
            state = self._sources.state()
            self._last = [] if state is None else list(_of_state(state, self._queues))
        yield from self._last
        yield from watches(self._sources.watches())

    def _process(self) -> Iterator[Family]:
        sources, health = self._sources, self._health
        yield _one("muster_leader", health.role in ("leader", "shadow"))
        yield _one("muster_epoch", sources.epoch())
        yield _one("muster_ready", health.is_ready)
        stands = Tally(key.partition("/")[0] for key in health.blocking)
        yield _many("muster_not_ready", (((key,), count) for key, count in stands.items()))
        yield _many("muster_build_info", [(self._build, 1)])
        yield _one("muster_clock_ahead_seconds", sources.clock_ahead())
        yield _one("muster_cycle_under_way_seconds", sources.under_way_seconds())
        yield _one("muster_log_position", sources.position())
        if (anchor := sources.anchor()) is not None:
            labels = (str(anchor.position), anchor.digest)
            yield _many("muster_log_anchor_info", [(labels, 1)])
        yield _one("muster_unknown_decisions", sources.unknown_decisions())
        yield _one("muster_policy_stale", sources.stale_policy())
        stale = dict.fromkeys(STALE_NS, 0) | dict(sources.stale_reports())
        yield _many("muster_stale_reports", (((kind,), stale[kind]) for kind in stale))
        yield _one("muster_effects_in_flight", sources.in_flight())
        yield _one("muster_queued_watch_events", sources.intake())
        queued, dropped, put_off, resting = sources.status_updates()
        yield _one("muster_status_updates_queued", queued)
        yield _one("muster_status_updates_dropped", dropped)
        yield _one("muster_status_updates_put_off", put_off)
        yield _one("muster_status_objects_resting", resting)
        yield _one("muster_events_queued", sources.events_queued())
        lag = sources.lag()
        if lag is not None:
            yield _one("muster_log_lag_records", lag.records)
            yield _one("muster_log_lag_seconds", lag.seconds)


def _of_state(state: State, labels: QueueLabels) -> Iterator[Family]:
    """Figures of State."""
    cluster = state.cluster
    yield from queues(cluster, labels)
    yield from cards(cluster)
    yield from waiting(cluster, labels)
    for one in state.features.of(Gauge):
        yield _many(one.metric, (((key,), count) for key, count in one.counts(cluster).items()))
    yield from faults(cluster)
    yield _one("muster_commitments", len(state.commitments))
    yield quarantined_nodes(cluster)
    yield _one("muster_queues_without_guarantee", len(RealCapability(cluster).unkept_guarantees()))
    yield _objects(cluster)
    yield _unreadable(cluster)


def queues(cluster: Cluster, labels: QueueLabels) -> Iterator[Family]:
    """What queues may use, use and ask for."""
    known = _known_resources(cluster)
    families = {
        unit: [_family(f"muster_queue_{measure}_{unit}") for measure in _EXPORTED]
        for unit in (*_UNITS.values(), _COUNTED)
    }
    sums: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for queue in cluster.queues:
        label = labels.of(queue)
        if label == OTHER and cluster.queues[queue].sums:
            continue  # The queues below it have been added up already.
        for _, name, *measured in queue_rows(cluster, queue):
            resource = CHOICE if "|" in str(name) else str(name) if name in known else OTHER
            limit = limit_of(cluster, cluster.queues[queue], str(name))
            amounts = (*measured, limit)
            unit = _UNITS.get(resource, _COUNTED)
            key: tuple[str, ...] = (label, resource) if unit == _COUNTED else (label,)
            if label == OTHER or resource in _SUMS:
                total = sums.setdefault((unit, key), [0] * len(amounts))
                for index, amount in enumerate(amounts):
                    total[index] += amount if isinstance(amount, int) else 0
            else:
                _add(families[unit], unit, key, amounts)
    for (unit, key), total in sums.items():
        # Limits of several do not add up.
        kept = [
            None if measure in _LIMITS else amount
            for measure, amount in zip(_EXPORTED, total, strict=True)
        ]
        _add(families[unit], unit, key, kept)
    for unit in families:
        yield from families[unit]


def _add(
    families: Iterable[GaugeMetricFamily],
    unit: str,
    key: tuple[str, ...],
    amounts: Iterable[object],
) -> None:
    """Add the series of a queue; a measure that is None is without limit."""
    for family, amount in zip(families, amounts, strict=True):
        if isinstance(amount, int):
            family.add_metric(key, amount / _MILLI if unit == _CORES else amount)


def _known_resources(cluster: Cluster) -> set[str]:
    """Resources that a node has or a Queue names. A pod may request what it likes."""
    known = set(_UNITS)
    for node in cluster.nodes.nodes.values():
        if node.facts is not None:
            known.update(node.facts.allocatable, node.facts.cards.values())
    for queue in cluster.queues.values():
        facts = queue.facts
        if facts is not None:
            for named in (facts.capability, facts.guarantee, facts.deserved, facts.quota):
                known.update(named)
    return known


def cards(cluster: Cluster) -> Iterator[Family]:
    """Cards of all nodes, and what queues are given of them, by model. A model of which nothing is left is
    exported with 0 as long as a quota names it."""
    total: Tally[str] = Tally()
    healthy: Tally[str] = Tally()
    allocated: Tally[str] = Tally()
    for node in cluster.nodes.nodes.values():
        facts = node.facts
        if facts is None:
            continue
        for resource, count in facts.card_totals:
            name = facts.cards[resource]
            total[name] += count
            healthy[name] += facts.allocatable.get(resource, 0)
            allocated[name] += node.occupied.get(resource, 0)
    quota: Tally[str] = Tally()
    for queue in cluster.queues.values():
        quota.update(cluster.plugins.quota.card_quotas(queue) or {})
    free = {card: healthy[card] - allocated[card] for card in total}
    names = sorted({*total, *quota})
    for metric, counts in (
        ("muster_cards", total),
        ("muster_healthy_cards", healthy),
        ("muster_allocated_cards", allocated),
        ("muster_free_cards", free),
        ("muster_quota_cards", quota),
    ):
        yield _many(metric, (((card,), counts.get(card, 0)) for card in names))


def quarantined_nodes(cluster: Cluster) -> Family:
    """Count the nodes that are closed to pods because their kubelets rejected some."""
    closed: dict[str, dict[str, None]] = {"all": {}, "namespace": {}}
    for one in cluster.quarantines.all.values():
        if not one.is_over:
            closed["all" if one.tenant == ALL_TENANTS else "namespace"][one.node] = None
    found = (((scope,), len(nodes)) for scope, nodes in closed.items())
    return _many("muster_quarantined_nodes", found)


def faults(cluster: Cluster) -> Iterator[Family]:
    """Faults of nodes, the pods that they hit, and the jobs that are restarted."""
    index = cluster.indexes.of(FaultyPods)
    effects = Tally(one.effect for found in index.nodes.values() for one in found)
    kinds = Tally(one.kind for one in index.pods.values())
    yield _many("muster_node_faults", (((one,), effects[one]) for one in EFFECTS))
    yield _many("muster_faulty_pods", (((one,), kinds[one]) for one in FAULTS_OF_PODS))
    yield _one("muster_restarting_pod_groups", len(cluster.reschedulings.restarts))
    yield _one("muster_stranded_pod_groups", len(index.stranded))


def waiting(cluster: Cluster, labels: QueueLabels | None = None) -> Iterator[Family]:
    """Pod groups of which something waits, and their pods that do."""
    groups: Tally[tuple[str, ...]] = Tally()
    pods: Tally[tuple[str, ...]] = Tally()
    overlooked: Tally[tuple[str, ...]] = Tally()
    for group, is_resting in _who_waits(cluster):
        refusal = group.main_refusal
        code = BACKING_OFF if is_resting else NOT_TRIED if refusal is None else refusal.code
        queue = group.queue if labels is None else labels.of(group.queue)
        groups[queue, code] += 1
        pods[(queue,)] += len(group.pending)
        is_overlooked = refusal is not None and refusal.limit in OWN_LIMITS
        overlooked[(queue,)] += len(group.pending) if is_overlooked else 0
    yield _many("muster_pending_pod_groups", groups.items())
    yield _many("muster_pending_pods", pods.items())
    yield _many("muster_pods_without_scale_up", overlooked.items())


def _who_waits(cluster: Cluster) -> Iterator[tuple[PodGroup, bool]]:
    """Each group that stands in a line, once; then those that rest."""
    for lines in cluster.scheduling_queue.by_queue.values():
        seen: dict[str, None] = {}
        for line in lines.values():
            for _, group in line.jobs:
                if group.key not in seen:
                    seen[group.key] = None
                    yield group, False
    for key in cluster.bind_backoffs.until:
        resting = cluster.groups.get(key)
        if resting is not None and resting.pending:
            yield resting, True


def _objects(cluster: Cluster) -> Family:
    counts = {
        "Node": len(cluster.nodes.nodes),
        "Pod": len(cluster.pods),
        "PodGroup": len(cluster.groups),
        "Queue": len(cluster.queues),
    }
    return _many("muster_objects", (((kind,), count) for kind, count in counts.items()))


def _unreadable(cluster: Cluster) -> Family:
    """How many objects of each kind could not be read, by a fault of ours."""
    found = [
        subject.partition("/")[0]
        for subject, faults in cluster.config_errors.current.items()
        if any(code == UNREADABLE for code, _ in faults)
    ]
    counts = Tally(dict.fromkeys(("Node", "Pod", "PodGroup", "Queue"), 0))
    counts.update(map(resource_of, found))
    return _many("muster_unreadable_objects", (((kind,), count) for kind, count in counts.items()))


def watches(figures: Iterable[WatchFigures]) -> Iterator[Family]:
    """Counters of watches."""
    opened, age = _family("muster_watch_open"), _family("muster_watch_age_seconds")
    lag = _family("muster_watch_lag_seconds")
    restarts = _counter("muster_watch_restarts_total")
    counters = {name: _counter(f"muster_watch_{name}_total") for name in COUNTED}
    for one in figures:
        resource = resource_of(one.resource)
        opened.add_metric((resource,), one.state == "watching")
        if one.last_event_seconds is not None:
            age.add_metric((resource,), one.last_event_seconds)
        if one.lag_seconds is not None:
            lag.add_metric((resource,), one.lag_seconds)
        for name, family in counters.items():
            family.add_metric((resource,), getattr(one, name))
        causes: Tally[str] = Tally()
        for cause, count in one.restarts.items():
            causes[cause_of(cause)] += count
        for cause, count in causes.items():
            restarts.add_metric((resource, cause), count)
    yield from (opened, age, lag, *counters.values(), restarts)


def _counter(name: str) -> CounterMetricFamily:
    metric = METRICS[name]
    assert metric.kind == "counter", name
    return CounterMetricFamily(name, metric.help, labels=tuple(metric.labels))


def _family(name: str) -> GaugeMetricFamily:
    metric = METRICS[name]
    assert metric.kind == "gauge", name
    return GaugeMetricFamily(name, metric.help, labels=tuple(metric.labels))


def _one(name: str, value: float) -> Family:
    return _many(name, [((), value)])


def _many(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    family = _family(name)
    for labels, value in values:
        family.add_metric(labels, value)
    return family
