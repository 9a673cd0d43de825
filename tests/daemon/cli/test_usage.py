"""`muster usage`: card-hours between two moments, worked out by hand."""

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from tests.daemon.cli.builders import documents, error_of, muster, scenario

DAY = """\
policy:
  pools: [{name: default, decider: priority, preemptionTimeout: 0s}]
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}}
  - {kind: Namespace, metadata: {name: ml}}
  - {kind: Namespace, metadata: {name: web}}
steps:
  - at: 0s
    apply:
      - {kind: Pod, metadata: {name: a, namespace: ml, annotations: {muster.sh/run-seconds: "7200"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
      - {kind: Pod, metadata: {name: b, namespace: web}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
  - at: 3600s
    apply:
      - {kind: Pod, metadata: {name: c, namespace: ml, annotations: {muster.sh/run-seconds: "3600"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
  - at: 5400s
    apply:
      - {kind: Pod, metadata: {name: d, namespace: ml, annotations: {muster.sh/priority: "90"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
until: 14400s
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a` runs from 0 h to 2 h, `b` until `d` takes its place at 1.5 h, `c` waits from 1 h to 2 h and runs to 3 h."""
    folder = tmp_path_factory.mktemp("usage")
    path = folder / "day.db"
    result = muster("simulate", scenario(folder, DAY), "--log", path)
    assert result.exit_code == 0, result.output
    return path


def rows(log: Path, *words: str) -> dict[str, dict[str, object]]:
    """Return the rows by name, with hours rounded to seconds."""
    [answer] = documents(muster("usage", "--log", log, "-o", "json", *words))
    found = answer["rows"]
    assert isinstance(found, list)
    return {one.pop("name"): {key: rounded(value) for key, value in one.items()} for one in found}


def rounded(value: object) -> object:
    """Return hours to one decimal: a bind, an eviction and a cycle take some seconds."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 1) if isinstance(value, float) else value


def test_card_hours_by_namespace(log: Path) -> None:
    # ml: a 2 h, c 1 h, d from 1.5 h on, with 4 cards each; the last record is of 3 h, when c ends. web: b 1.5 h, and then it was evicted.
    assert rows(log, "--by", "namespace") == {
        "ml": {
            "card_hours": {"nvidia.com/gpu": 18.0},
            "lost_card_hours": 0,
            "pod_hours": 4.5,
            "pods": 3,
            "preempted": 0,
            "waiting_pod_hours": 1.0,
        },
        "web": {
            "card_hours": {"nvidia.com/gpu": 6.0},
            "lost_card_hours": 6.0,
            "pod_hours": 1.5,
            "pods": 1,
            "preempted": 1,
            "waiting_pod_hours": 0.0,
        },
    }


def test_only_the_hours_of_the_stretch_count(log: Path) -> None:
    # From 1.5 h to 2.5 h: d has four cards all the time, and a and then c the other four.
    found = rows(log, "--from", "5400s", "--to", "9000s")
    assert found["default"]["card_hours"] == {"nvidia.com/gpu": 8.0}
    assert found["default"]["waiting_pod_hours"] == 0.5


def test_nodes_are_summed_up_without_waiting(log: Path) -> None:
    found = rows(log, "--by", "node")
    assert list(found) == ["n1"]
    assert found["n1"]["card_hours"] == {"nvidia.com/gpu": 24.0}
    assert found["n1"]["waiting_pod_hours"] == 0


def test_a_table_is_printed_for_people(log: Path) -> None:
    printed = muster("usage", "--log", log, "--by", "namespace").stdout.splitlines()
    assert printed[1].split()[:3] == ["namespace", "card", "hours"]
    assert printed[2].split()[:2] == ["ml", "18.0"]


def test_views_of_another_release_are_made_anew_first(log: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    with closing(connect(log)) as source, closing(connect(old)) as copy:
        source.backup(copy)
        copy.execute("update projection set version = version - 1 where name = 'placement'")
        copy.commit()
    result = muster("usage", "--log", old)
    assert result.exit_code == 2
    assert "the view placement is not up to date: `muster rebuild`" in error_of(result)
    assert muster("rebuild", "--log", old).exit_code in (0, 1)
    assert muster("usage", "--log", old).exit_code == 0


def test_an_empty_stretch_a_moment_outside_and_a_bundle_are_errors(
    log: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "day.muster"
    assert muster("log", "export", log, "--file", bundle).exit_code == 0
    for words, said in (
        (("--log", log, "--from", "9000s", "--to", "9000s"), "the stretch is empty"),
        (("--log", log, "--from", "999999"), "--from 999999"),
        (("--log", bundle), "has no views"),
    ):
        result = muster("usage", *words)
        assert result.exit_code == 2
        assert said in error_of(result)
