"""Counters and histograms, as collectors of Prometheus' registry.

Those of `prometheus_client` take a lock and some eight calls for each value; a pod that is bound has five of them. Here a value is
one addition, and the families of the library are built at a scrape. A series is changed by one thread at a time.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.utils import floatToGoString

from daemon.metrics.table import Metric

_INFINITE: Final = float("inf")


class CountSeries:
    """The value of one counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Add to the count."""
        self.value += amount


class DurationSeries:
    """How many values were at most each upper bound and above the one before, and the sum of all."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


SeriesT = TypeVar("SeriesT")


class _Labelled(Generic[SeriesT]):
    """Series by the values of their labels."""

    def __init__(
        self, metric: Metric, new: Callable[[], SeriesT], registry: CollectorRegistry
    ) -> None:
        self._metric = metric
        self._new = new
        self._series: dict[tuple[str, ...], SeriesT] = {}
        if not metric.labels:
            self.labels()  # What never happened is 0, not absent.
        registry.register(self)

    def labels(self, *values: str) -> SeriesT:
        """Return the series with these values of the labels, in the order of the table."""
        series = self._series.get(values)
        if series is None:
            assert len(values) == len(self._metric.labels), self._metric.name
            series = self._series[values] = self._new()
        return series

    def remove(self, *values: str) -> None:
        """Stop exporting the series with these values. Raise KeyError if there is none."""
        del self._series[values]

    def describe(self) -> Iterable[Family]:
        """Return nothing beforehand: names are unique in the table."""
        return ()

    def collect(self) -> Iterator[Family]:
        """Yield all series as they are now."""
        raise NotImplementedError


class Counter(_Labelled[CountSeries]):
    """A counter of the table."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        super().__init__(metric, CountSeries, registry)

    def collect(self) -> Iterator[Family]:
        family = CounterMetricFamily(
            self._metric.name, self._metric.help, labels=tuple(self._metric.labels)
        )
        for values, series in list(self._series.items()):
            family.add_metric(values, series.value)
        yield family


class Histogram(_Labelled[DurationSeries]):
    """A histogram of the table."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        bounds = tuple(map(float, metric.buckets))
        super().__init__(metric, lambda: DurationSeries(bounds), registry)
        self._names = [_text(bound) for bound in (*bounds, _INFINITE)]

    def collect(self) -> Iterator[Family]:
        family = HistogramMetricFamily(
            self._metric.name, self._metric.help, labels=tuple(self._metric.labels)
        )
        for values, series in list(self._series.items()):
            buckets = list(zip(self._names, map(float, accumulate(series.counts)), strict=True))
            family.add_metric(values, buckets, series.sum)
        yield family


def _text(bound: float) -> str:
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]  # prometheus_client states no types here
    return text
