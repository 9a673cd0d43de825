"""What is exported is what the table says: names, types, labels, buckets and help, no more and no less."""

import asyncio
import re
from asyncio.subprocess import PIPE, STDOUT

import pytest
from msgspec import structs
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from daemon.metrics.export import Metrics, text_of
from daemon.metrics.sources import Lag
from daemon.metrics.table import METRICS, Metric
from events.decision import Placement
from events.decisions.gang_bind import GangBindDecided
from events.outcome import BindFailed
from events.watch import KindCompared
from tests.daemon.metrics.builders import CLUSTER, Figures, batch_of, played
from tests.programs.build import program

SHARED_SUFFIXES = ("_total", "_bucket", "_count", "_sum")


async def everything() -> Metrics:
    """Metrics of which each has a series."""
    metrics = await played(CLUSTER.replace("{cpu: 4}", "{cpu: 4, memory: 8Gi}"))
    metrics.sources.watches = lambda: [Figures()]
    metrics.sources.lag = lambda: Lag(records=3, seconds=0.5)
    counted = metrics.counted
    counted.cycle_held(0.01, 0.02)
    counted.observe_request("create pods/binding", 201, 0.01)
    counted.event_dropped()
    counted.http_refused("head")
    state = metrics.sources.state()
    assert state is not None
    pods = state.cluster.pods
    for uid, pod in pods.items():
        pods[uid] = structs.replace(pod, facts=structs.replace(pod.facts, created_ns=1))
    placed = tuple(
        Placement(pod=pod.key, uid=uid, node="n1") for uid, pod in state.cluster.pods.items()
    )
    decided = GangBindDecided(pod_group="g", queue="research", placements=placed)
    failed = BindFailed(pod="default/a", uid="u", node="n", code="Conflict", message="")
    compared = KindCompared(resource="Pod", resource_version="9", count=1, differences=1)
    counted.observe_batch(batch_of(decided, failed, compared), 0.01)
    return metrics


async def families() -> dict[str, Family]:
    """Family by the name that the table has for it."""
    text = text_of((await everything()).collect()).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        suffix = "_total" if family.type == "counter" else ""
        found[family.name + suffix] = family
    return found


async def test_what_is_exported_equals_the_table() -> None:
    exported = await families()
    assert sorted(exported) == sorted(METRICS)
    kinds = {name: family.type for name, family in exported.items()}
    assert kinds == {name: metric.kind for name, metric in METRICS.items()}
    texts = {name: family.documentation for name, family in exported.items()}
    assert texts == {name: metric.help for name, metric in METRICS.items()}


async def test_every_series_has_the_labels_of_the_table_and_no_others() -> None:
    for name, family in (await families()).items():
        assert family.samples, f"{name} has no series, so nothing is known of its labels"
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(METRICS[name].labels), name


async def test_every_histogram_has_the_buckets_of_the_table() -> None:
    exported = await families()
    for metric in METRICS.values():
        bounds = [
            float(sample.labels["le"])
            for sample in exported[metric.name].samples
            if "le" in sample.labels
        ]
        assert bounds[: len(metric.buckets)] == [float(one) for one in metric.buckets]
        assert bool(metric.buckets) == (metric.kind == "histogram")


async def test_promtool_finds_nothing_to_say_of_a_scrape() -> None:
    text = text_of((await everything()).collect())
    process = await asyncio.create_subprocess_exec(
        program("promtool"), "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate(text)
    assert (process.returncode, said) == (0, b"")


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_name_follows_the_practice_of_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"(muster|process)(_[a-z0-9]+)+", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    if metric.kind == "histogram":
        assert metric.name.endswith("_seconds")
    for unit in ("millis", "milli", "ms", "percent", "minutes", "mebibytes"):
        assert f"_{unit}" not in metric.name


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_no_label_names_a_pod_and_every_one_is_explained(metric: Metric) -> None:
    assert not {"pod", "pod_group", "uid", "node", "namespace", "name"} & set(metric.labels)
    assert all(metric.labels.values())
    assert metric.help.endswith(".")
    assert not metric.name.endswith(SHARED_SUFFIXES[1:])


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_is_one_quantity(metric: Metric) -> None:
    """Its sum over all labels means something: what is had, used and asked for are metrics of their own."""
    assert not {"measure", "type", "stat", "unit"} & set(metric.labels)


def test_figures_of_the_process_have_the_names_that_every_dashboard_knows() -> None:
    standard = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"}
    assert standard <= set(METRICS)
    assert [name for name in METRICS if name.startswith("muster_process")] == []
