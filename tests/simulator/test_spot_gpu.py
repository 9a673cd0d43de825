"""The spot-gpu workload: real nodes, a synthetic load drawn from published counts."""

import json
import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from benchmarks.make_spot_gpu_table import Published, make_table
from engine.engine import Engine
from events.duration import SECOND
from simulator.generated_workload import GeneratedWorkload, with_workload
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, section, text_at, whole_at
from simulator.scenario import Apply, Scenario, WorkloadSource
from simulator.spot_gpu import spot_gpu_workload
from simulator.spot_gpu_table import shipped_table, write_table
from tests.properties.overlooked import overlooked
from tests.scenarios.play import play

HOUR = 3600 * SECOND
WHOLE = WorkloadSource("spot-gpu", window_ns=24 * HOUR)
DIGEST = "f86f33f1825cb9d038a8c0a50c13ada4b204d666669f82ad42ee24700b8d9ed2"
SHORT = WorkloadSource("spot-gpu", scale_percent=5, window_ns=2 * HOUR)


def made(source: WorkloadSource) -> GeneratedWorkload:
    """What the workload brings."""
    return spot_gpu_workload(source, shipped_table())


def jobs(workload: GeneratedWorkload) -> list[tuple[int, Manifest]]:
    """When each job comes, and its manifest."""
    return [(step.at_ns, step.manifest) for step in workload.steps if isinstance(step, Apply)]


def task_of(job: Manifest) -> tuple[str, int, int]:
    """Card, workers, and cards a worker."""
    [task] = list_at(section(job, "spec"), "tasks")
    template = section(task, "template")
    [container] = list_at(section(template, "spec"), "containers")
    cards = text_at(section(container, "resources", "limits"), "nvidia.com/gpu")
    card = text_at(section(template, "metadata", "annotations"), "volcano.sh/card.name")
    return card, whole_at(task, "replicas", 0), int(cards)


def quotas(workload: GeneratedWorkload) -> dict[str, dict[str, int]]:
    """Queue to its quotas."""
    found = {}
    for placed in workload.cluster:
        if placed.kind.kind == "Queue":
            annotations = section(placed.manifest, "metadata", "annotations")
            found[placed.name] = json.loads(text_at(annotations, "volcano.sh/card.quota"))
    return found


def test_the_nodes_are_those_of_the_published_cluster() -> None:
    notes = made(WHOLE).notes
    assert notes.nodes == 4278
    assert notes.cards == {
        "A10": 2494,
        "A100-SXM4-80GB": 3456,
        "A800-SXM4-80GB": 176,
        "GPU-series-1": 1558,
        "GPU-series-2": 976,
        "H800": 1752,
    }
    assert "synthetic" in notes.origin


def test_at_first_as_much_is_asked_for_as_in_the_median_hour() -> None:
    asked: Counter[str] = Counter()
    for at, job in jobs(made(WHOLE)):
        card, workers, cards = task_of(job)
        if at == 0:
            asked[card] += workers * cards
    for model in shipped_table().models:
        # The last job that is drawn may be a large gang.
        assert model.median <= asked[model.name] <= model.median * 3 // 2, model.name


def test_jobs_come_as_in_the_hours_of_the_day() -> None:
    table = shipped_table()
    came = Counter(at // HOUR for at, _ in jobs(made(WHOLE)) if at > 0)
    assert max(came) == 23
    for hour, count in came.items():
        assert min(table.hours[hour]) - 1 <= count <= max(table.hours[hour]) + 1


def test_a_heavier_load_asks_for_more_of_the_same_cluster() -> None:
    heavy = made(msgspec.structs.replace(SHORT, load_percent=300))
    assert heavy.notes.cards == made(SHORT).notes.cards
    assert heavy.notes.cards_asked > 2 * made(SHORT).notes.cards_asked
    assert quotas(heavy) == quotas(made(SHORT))


def test_so_many_jobs_are_spot_as_is_said() -> None:
    def spot(source: WorkloadSource) -> float:
        came = [section(job, "spec") for at, job in jobs(made(source)) if at > 0]
        return sum(text_at(spec, "priorityClassName") == "spot" for spec in came) / len(came)

    assert 0.08 < spot(WHOLE) < 0.14
    assert 0.45 < spot(msgspec.structs.replace(WHOLE, spot_percent=50)) < 0.55


def test_no_gang_asks_for_more_than_its_organization_may_use() -> None:
    workload = made(WHOLE)
    allowed = quotas(workload)
    for _, job in jobs(workload):
        card, workers, cards = task_of(job)
        assert workers >= 1
        assert workers * cards <= allowed[text_at(section(job, "spec"), "queue")][card]


def test_quotas_are_what_the_published_share_comes_to_in_the_busiest_hour() -> None:
    """13 used 72.2 % of all A10 hours: of 2,494 cards, times 4,830 / 3,366, that is more than there are."""
    found = quotas(made(WHOLE))
    assert found["org-13"]["A10"] == 2494
    # 18 used 3.2 % of them.
    share = 3_608_533_664.6 * 0.46357670901358505 / 52_819_975_029.56
    assert found["org-18"]["A10"] == -(-(share * 2494 * 4830 / 3366) // 1)
    # 69 has one short job: no less than a node.
    assert found["org-69"] == {"A100-SXM4-80GB": 8}
    assert len(found) == 84


def digest(workload: GeneratedWorkload) -> str:
    """One digest over all objects and times."""
    objects = [placed.manifest for placed in workload.cluster]
    return sha256(msgspec.json.encode((objects, jobs(workload)), order="sorted")).hexdigest()


def test_a_seed_makes_the_same_bytes_everywhere_and_another_makes_others() -> None:
    assert digest(made(SHORT)) == DIGEST
    assert digest(made(msgspec.structs.replace(SHORT, seed=2))) != digest(made(SHORT))


def test_the_shipped_counts_are_those_of_the_real_files() -> None:
    folder = Path(os.environ.get("MUSTER_TRACES") or "") / "spot-gpu"
    if not os.environ.get("MUSTER_TRACES") or not folder.is_dir():
        pytest.skip("MUSTER_TRACES does not name a folder that holds spot-gpu")
    shipped = Path(__file__).parents[2] / "simulator/spot_gpu_counts.json"
    assert write_table(make_table(Published(folder))) == shipped.read_bytes()


def test_what_was_fitted_agrees_with_the_published_sums() -> None:
    table = shipped_table()
    by_model: Counter[str] = Counter()
    for one in table.tenancies:
        by_model[one.model] += one.jobs
    published = {
        "A10": 228_643,
        "A100-SXM4-80GB": 169_020,
        "A800-SXM4-80GB": 8_799,
        "GPU-series-1": 18_911,
        "GPU-series-2": 30_397,
        "H800": 11_097,
    }
    # Each cell counts at least one job.
    assert all(abs(by_model[name] - count) <= 20 for name, count in published.items())
    sizes = dict(table.workers)
    asked = {"A10": 210_325.44 + 48_587, "A100-SXM4-80GB": 828_768, "H800": 721_498}
    for name, cards in asked.items():
        mean = 0.0
        for shape in table.shapes:
            if shape.model == name:
                span = range(shape.least_workers, shape.most_workers + 1)
                count = sum(sizes.get(size, 0) for size in span)
                workers = sum(size * sizes.get(size, 0) for size in span) / count
                mean += shape.weight / 1_000_000 * workers * shape.cards
        assert mean == pytest.approx(cards / published[name], rel=0.001)


async def test_a_drawn_load_stays_within_quota_and_no_placeable_pod_stays_pending() -> None:
    source = msgspec.structs.replace(SHORT, load_percent=150, spot_percent=50)
    bare = Scenario(name="drawn", until_ns=2 * HOUR)
    played = await play(with_workload(bare, made(source)))
    account = played.result.document["account"]
    assert isinstance(account, dict)
    assert account["evictions"]
    assert account["above_quota"] == {"pods": 0, "decisions": []}
    assert played.divergence is None
    assert overlooked(Engine(played.end.state, played.end.head), 3 * HOUR) == []
