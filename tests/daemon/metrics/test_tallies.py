"""Our counters and histograms export what those of `prometheus_client` export."""

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from daemon.metrics.table import Metric
from daemon.metrics.tallies import Counter, Histogram

BUCKETS = (0.5, 1, 2.5, 1_000)
LABELS = {"queue": "a queue", "code": "a code"}
series = st.tuples(st.sampled_from(["a", 'b"\\\n', ""]), st.sampled_from(["x", "y"]))
values = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 999.5, 1_000.0, 1e6])


@given(st.lists(st.tuples(series, values)), st.booleans())
def test_series_are_exported_as_by_the_library(
    seen: list[tuple[tuple[str, str], float]], has_labels: bool
) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]  # as the library has it
    labels = LABELS if has_labels else {}
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counter = Counter(Metric("a_total", "counter", "Help.", labels), ours)
    histogram = Histogram(Metric("b_seconds", "histogram", "Help.", labels, BUCKETS), ours)
    names = tuple(labels)
    expected = prometheus_client.Counter("a_total", "Help.", names, registry=theirs)
    timed = prometheus_client.Histogram(
        "b_seconds", "Help.", names, registry=theirs, buckets=BUCKETS
    )
    for of, value in seen:
        labelled = of if has_labels else ()
        counter.labels(*labelled).inc(value)
        histogram.labels(*labelled).observe(value)
        (expected.labels(*of) if has_labels else expected).inc(value)
        (timed.labels(*of) if has_labels else timed).observe(value)
    assert generate_latest(ours) == generate_latest(theirs)
    if has_labels and seen:
        gone, _ = seen[0]
        for one in (counter, histogram, expected, timed):
            one.remove(*gone)
        assert generate_latest(ours) == generate_latest(theirs)
