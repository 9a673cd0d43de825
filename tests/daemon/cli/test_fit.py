"""`muster fit`: manifests against a log, and what would be short."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.checkout import ROOT
from tests.daemon.cli.builders import error_of, logged, muster

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: asked, annotations: {volcano.sh/card.name: NVIDIA-H200}}
spec:
  schedulerName: volcano
  containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: COUNT}}}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default, annotations: {volcano.sh/card.quota: '{"NVIDIA-H200": QUOTA}'}}
"""

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j, annotations: {volcano.sh/card.request: '{"NVIDIA-H200": 5}'}}
spec:
  minAvailable: 5
  queue: cr-queue1
  tasks:
    - name: w
      replicas: 5
      template:
        metadata: {annotations: {volcano.sh/card.name: NVIDIA-H200}}
        spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: cr-queue1, annotations: {volcano.sh/card.quota: '{"NVIDIA-H200": QUOTA}'}}
"""


def answers(result: Result) -> list[Any]:
    """What a command printed as JSON, a document a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two nodes with 8 cards each, of which one is taken."""
    return logged(tmp_path_factory.mktemp("fit"))


def manifest(folder: Path, text: str, **values: int) -> Path:
    """A file of manifests."""
    for name, value in values.items():
        text = text.replace(name, str(value))
    path = folder / "manifest.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_fit_reports_nodes_and_cards(log: Path, tmp_path: Path) -> None:
    path = manifest(tmp_path, POD, COUNT=2, QUOTA=2)
    before = hashlib.sha256(log.read_bytes()).hexdigest()
    result = muster("fit", path, "--log", log, "-o", "json")
    assert result.exit_code == 0, result.output
    (answer,) = answers(result)
    (group,) = answer["pod_groups"]
    (place,) = group["placed"]
    assert (place["pod"], place["cards"]) == ("default/asked", {"NVIDIA-H200": 2})
    assert hashlib.sha256(log.read_bytes()).hexdigest() == before, "the log stays as it is"
    assert muster("fit", path, "--log", log).stdout.startswith("it fits at position 25")


def test_fit_reports_an_insufficient_quota_with_numbers(log: Path, tmp_path: Path) -> None:
    result = muster("fit", manifest(tmp_path, POD, COUNT=2, QUOTA=1), "--log", log)
    assert result.exit_code == 1
    assert "it does not fit" in result.stdout
    assert "<NVIDIA-H200> quota: requested <2000>, total would be <2000>" in result.stdout


def test_fit_reports_insufficient_nodes_and_the_nearest_one(log: Path, tmp_path: Path) -> None:
    result = muster("fit", manifest(tmp_path, POD, COUNT=9, QUOTA=20), "--log", log, "-o", "json")
    assert result.exit_code == 1
    (answer,) = answers(result)
    (group,) = answer["pod_groups"]
    waiting = group["waiting"]
    levels = {one["level"]: one["passed"] for one in waiting["hurdles"]}
    assert levels == {
        "queue": True, "admission": True, "card": True, "gang": True, "nodes": False
    }  # fmt: skip
    nodes = waiting["nodes"]
    assert (nodes["fitting"], nodes["large_enough"], nodes["total"]) == (0, 0, 2)
    assert nodes["reasons"] == {"Insufficient nvidia.com/gpu": 2}
    assert nodes["nearest"][0]["lacks"] == {"nvidia.com/gpu": 1}
    (held,) = waiting["held"]
    assert (held["name"], held["total"], held["allocated"]) == ("NVIDIA-H200", 16, 1)


def test_a_job_is_judged_by_its_request_before_it_has_pods(log: Path, tmp_path: Path) -> None:
    """Quota 3, a job of 5 one-card pods."""
    result = muster("fit", manifest(tmp_path, JOB, QUOTA=3), "--log", log)
    assert result.exit_code == 1
    assert (
        "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: requested <5000>,"
        " total would be <5000>, but capability is <3000>" in result.stdout
    )
    assert "Service: not read" in result.stderr


def test_the_pods_of_a_job_that_is_admitted_get_their_nodes(log: Path, tmp_path: Path) -> None:
    result = muster("fit", manifest(tmp_path, JOB, QUOTA=5), "--log", log, "-o", "json")
    assert result.exit_code == 0, result.output
    (answer,) = answers(result)
    (group,) = answer["pod_groups"]
    assert [one["pod"] for one in group["placed"]] == [f"default/j-w-{at}" for at in range(5)]


def test_another_policy_may_answer_otherwise(log: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]\n')
    path = manifest(tmp_path, POD, COUNT=2, QUOTA=1)
    assert muster("fit", path, "--log", log, "--policy", policy).exit_code == 0


def test_pods_of_another_scheduler_are_not_ours_to_place(log: Path, tmp_path: Path) -> None:
    path = manifest(tmp_path, POD.replace("volcano\n", "other\n"), COUNT=1, QUOTA=1)
    result = muster("fit", path, "--log", log)
    assert result.exit_code == 1
    assert "default/asked is for another scheduler" in result.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("kind: Queue\nmetadata: {name: q}\n", "nothing in the manifest asks for a node"),
        ("kind: Pod\nmetadata: {}\n", "a Pod without metadata.name"),
        ("metadata: {name: x}\n", "a manifest must name its kind"),
        ("kind: [", "not YAML"),
    ],
)
def test_a_manifest_that_says_nothing_is_an_error(
    log: Path, tmp_path: Path, text: str, said: str
) -> None:
    result = muster("fit", manifest(tmp_path, text), "--log", log)
    assert result.exit_code == 2
    assert said in error_of(result)


def test_a_job_of_another_scheduler_is_not_ours_to_place(log: Path, tmp_path: Path) -> None:
    path = manifest(
        tmp_path, JOB.replace("  queue: ", "  schedulerName: other\n  queue: "), QUOTA=5
    )
    result = muster("fit", path, "--log", log)
    assert result.exit_code == 1
    assert "is for another scheduler: muster does not decide on it" in result.stdout


ONE_CHIP = "one_chip_on_a_910_server_takes_the_ring_with_one_free_chip.yaml"

CHIP_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: second}
spec:
  schedulerName: volcano
  nodeSelector: {accelerator-type: module}
  containers: [{name: main, image: i, resources: {limits: {huawei.com/Ascend910: 1}}}]
"""


def test_fit_and_state_name_the_devices_of_pods(tmp_path: Path) -> None:
    """Node a has no chip left; on b the ring with two free chips comes before that with three."""
    log = tmp_path / "chips.db"
    source = ROOT / "tests" / "scenarios" / "devices" / ONE_CHIP
    assert muster("simulate", source, "--log", log).exit_code == 0
    (state,) = answers(muster("state", log, "-o", "json"))
    assert [one["devices"] for one in state["pods"]] == [["Ascend910-0"]]
    assert "Ascend910-0" in muster("state", log).stdout
    path = manifest(tmp_path, CHIP_POD)
    result = muster("fit", path, "--log", log, "-o", "json")
    (answer,) = answers(result)
    (place,) = answer["pod_groups"][0]["placed"]
    assert (place["node"], place["devices"]) == ("b", ["Ascend910-4"])
    shown = muster("fit", path, "--log", log).stdout
    assert "default/second -> b, charged 1 Ascend910, devices Ascend910-4\n" in shown


PAIR = """\
apiVersion: v1
kind: Pod
metadata: {name: asked}
spec:
  nodeSelector: {accelerator-type: module}
  containers: [{name: main, image: i, resources: {requests: {huawei.com/Ascend910: COUNT}}}]
"""
RINGS = ROOT / "tests" / "scenarios" / "devices"
FIRST_CLUSTER = ROOT / "docs" / "examples" / "first_cluster.yaml"
PAIRS = RINGS / "a_pair_on_a_910_server_takes_a_ring_of_two_then_of_four_then_of_three.yaml"


def test_fit_lists_every_node_of_a_scenario_with_score_and_devices(tmp_path: Path) -> None:
    path = manifest(tmp_path, PAIR, COUNT=4)
    result = muster("fit", path, "--scenario", PAIRS, "-o", "json")
    assert result.exit_code == 0, result.output
    (answer,) = answers(result)
    (of_pod,) = answer["pod_groups"][0]["nodes"]
    assert (of_pod["pod"], of_pod["alike"]) == ("default/asked", 1)
    rows = {one.pop("node"): one for one in of_pod["nodes"]}
    assert rows["b"].pop("score").keys() == {"ascend"}
    assert rows == {
        "a": {"fits": False, "reason": rows["a"]["reason"], "score": {}, "devices": []},
        "b": {"fits": True, "reason": "", "devices": [f"Ascend910-{one}" for one in range(4)]},
        "c": {"fits": False, "reason": rows["c"]["reason"], "score": {}, "devices": []},
    }
    assert rows["a"]["reason"].endswith("req<4>, idle<2>")


def test_fit_shows_the_best_nodes_and_why_others_do_not_fit(tmp_path: Path) -> None:
    said = muster("fit", manifest(tmp_path, PAIR, COUNT=3), "--scenario", PAIRS).stdout
    assert "waits" in said
    said = muster("fit", manifest(tmp_path, PAIR, COUNT=4), "--scenario", PAIRS).stdout
    assert "alone, before any is placed: it fits 1 of 3" in said
    shown = [line.split() for line in said.splitlines() if line.startswith("  b ")]
    assert shown[0][-4:] == ["Ascend910-0,", "Ascend910-1,", "Ascend910-2,", "Ascend910-3"]
    assert (
        "\n      1  NPUResourceShortage: node don't have enough resource, req<4>, idle<2> (a)"
        in said
    )
    assert "idle<3> (c)\n" in said


def test_every_node_of_a_refused_request_has_the_message_of_its_device_family(
    tmp_path: Path,
) -> None:
    path = manifest(tmp_path, PAIR, COUNT=3)
    (answer,) = answers(muster("fit", path, "--log", PAIRS, "-o", "json"))
    (group,) = answer["pod_groups"]
    (of_pod,) = group["nodes"]
    refused = f"checkSingleTrainMode job<{group['pod_group']}> req npu num <3> not in [1,2,4,8]"
    assert [(one["fits"], one["reason"]) for one in of_pod["nodes"]] == [(False, refused)] * 3


def test_a_text_counts_the_nodes_of_each_reason(tmp_path: Path) -> None:
    nodes = [
        f'  - {{kind: Node, metadata: {{name: "{name}{{i}}"}}, status: {{allocatable: {{cpu: {cpu}}}}}, count: {count}}}'
        for name, cpu, count in (("s", 1, 7), ("t", 2, 2), ("u", 9, 6))
    ]
    scenario = tmp_path / "mixed.yaml"
    scenario.write_text("\n".join(["scenario: mixed", "cluster:", *nodes]), encoding="utf-8")
    asked = (
        "kind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{image: i, resources: {requests: {cpu: 4}}}]}"
    )
    said = muster("fit", manifest(tmp_path, asked), "--scenario", scenario).stdout
    assert said.startswith(f"it fits on the cluster of {scenario} at time 0\n")
    assert said.endswith(
        "      7  lacks 3 cpu (s1, s2, s3, ...)\n"
        "      2  lacks 2 cpu (t1, t2)\n"
        "  ... and 1 more (-o json lists every node)\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--log or --scenario is needed"),
        (["--scenario", PAIRS, "--at", "3"], "a scenario begins at time 0"),
        (["--log", PAIRS, "--at", "3"], "a scenario begins at time 0"),
        (["--scenario", PAIRS, "--log", "some.db"], "--log and --scenario"),
        (["--scenario", FIRST_CLUSTER], "first_cluster.yaml:10: a second document in one file"),
        (["--scenario", ROOT / "docs" / "examples" / "spread.yaml"], "spread.yaml"),
    ],
)
def test_a_place_that_is_missing_or_no_scenario_is_a_usage_error(
    words: list[str | Path], said: str, tmp_path: Path
) -> None:
    result = muster("fit", manifest(tmp_path, PAIR, COUNT=2), *words)
    assert result.exit_code == 2
    assert said in error_of(result)
