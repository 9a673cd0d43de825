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

OWNERS = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}}
steps:
  - at: 0s
    apply:
      - kind: Deployment
        apiVersion: apps/v1
        metadata: {name: web}
        spec:
          replicas: 1
          selector: {matchLabels: {team: search}}
          template: {metadata: {labels: {team: search}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
      - {kind: Pod, metadata: {name: train-0, labels: {team: ml}, ownerReferences: [{kind: Job, name: train, uid: j1, apiVersion: batch/v1, controller: true}], annotations: {muster.sh/run-seconds: "3600"}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 4}}}]}}
      - {kind: Pod, metadata: {name: bare, annotations: {muster.sh/run-seconds: "5400"}}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
  - at: 1800s
    apply:
      - {kind: Pod, metadata: {name: late, labels: {team: ml}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 8}}}]}}
until: 5500s
"""


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`web` has four cards for 1.5 h, `train` for one; `late` waits from 0.5 h on."""
    folder = tmp_path_factory.mktemp("owners")
    path = folder / "owners.db"
    result = muster("simulate", scenario(folder, OWNERS), "--log", path)
    assert result.exit_code == 0, result.output
    return path


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


def test_the_hours_of_pods_count_for_their_top_level_owner(owners: Path) -> None:
    # The pod of `web` is owned by a ReplicaSet, which the log shows. It shows no Job `train`.
    found = rows(owners, "--by", "owner")
    cards = {name: (one["card_hours"], one["waiting_pod_hours"]) for name, one in found.items()}
    assert cards == {
        "Deployment/default/web": ({"nvidia.com/gpu": 6.0}, 0.0),
        "Job/default/train": ({"nvidia.com/gpu": 4.0}, 0.0),
        "Pod/default/bare": ({}, 0.0),
        "Pod/default/late": ({}, 1.0),
    }


def test_the_hours_of_pods_count_for_the_value_of_their_label(owners: Path) -> None:
    found = rows(owners, "--by", "label:team")
    assert {name: one["card_hours"] for name, one in found.items()} == {
        "search": {"nvidia.com/gpu": 6.0},
        "ml": {"nvidia.com/gpu": 4.0},
        "": {},
    }
    # `late` was never bound: its label is that of the pod of its group.
    assert found["ml"]["waiting_pod_hours"] == 1.0
    printed = muster("usage", "--log", owners, "--by", "label:team").stdout.splitlines()
    assert printed[1].split()[0] == "team"
    assert [line.split()[0] for line in printed[2:]] == ["search", "ml", "(none)"]


def test_the_hours_by_another_sum_add_up_to_the_same(owners: Path) -> None:
    def total(by: str) -> float:
        [answer] = documents(muster("usage", "--log", owners, "-o", "json", "--by", by))
        found = answer["rows"]
        assert isinstance(found, list)
        hours = [float(one[name]) for one in found for name in ("pod_hours", "waiting_pod_hours")]
        return round(sum(hours), 6)

    assert len({total(by) for by in ("queue", "group", "owner", "label:team", "label:no")}) == 1


@pytest.mark.parametrize("by", ["team", "label:", "label", "Owner"])
def test_what_usage_cannot_be_summed_up_by_is_an_error(owners: Path, by: str) -> None:
    result = muster("usage", "--log", owners, "--by", by)
    assert result.exit_code == 2
    assert error_of(result) == (
        f"--by '{by}': give one of queue, namespace, group, node, owner, label:KEY"
    )


def test_a_table_is_printed_for_people(log: Path) -> None:
    printed = muster("usage", "--log", log, "--by", "namespace").stdout.splitlines()
    assert printed[1].split()[:3] == ["namespace", "card", "hours"]
    assert printed[2].split()[:2] == ["ml", "18.0"]


def test_many_models_of_cards_have_a_table_of_their_own(tmp_path: Path) -> None:
    models = [f"MODEL-{letter}" for letter in "abcd"]
    text = "cluster:\n" + "".join(
        f"""\
  - {{kind: Node, metadata: {{name: n-{index}, labels: {{nvidia.com/gpu.product: {model}}}}}, status: {{allocatable: {{cpu: 8, pods: 9, nvidia.com/gpu: 1}}}}}}
  - {{kind: Pod, metadata: {{name: p-{index}, annotations: {{volcano.sh/card.name: {model}, muster.sh/run-seconds: "3600"}}}}, spec: {{containers: [{{name: c, resources: {{requests: {{nvidia.com/gpu: 1}}}}}}]}}}}
"""
        for index, model in enumerate(models)
    )
    log = tmp_path / "many.db"
    assert muster("simulate", scenario(tmp_path, text), "--log", log).exit_code == 0
    lines = [line.split() for line in muster("usage", "--log", log).stdout.splitlines()]
    assert lines[1:3] == [
        ["queue", "card", "hours", "lost", "pod", "hours", "pods", "preempted", "waiting"],
        ["default", "4.0", "0", "4.0", "4", "0", "0"],
    ]
    assert lines[5:] == [["queue", *models], ["default", *["1.0"] * 4]]


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
