"""`muster simulate`: reports, expectations, and one digest whatever it runs on."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import simulation
from daemon.cli import simulate
from daemon.cli.inputs import load_scenario
from daemon.log.contract import Log
from events.decision import Decision
from scheduling.session_decider import ACTIONS
from simulator.scenario import Scenario
from simulator.scenario_sources import LoadedScenario
from tests.checkout import ROOT
from tests.daemon.cli.builders import (
    QUOTA,
    SMALL_OPENB,
    documents,
    error_of,
    logged,
    muster,
    muster_apart,
    scenario,
)

KEYS = (
    *("scenario", "at_seconds", "log", "decisions", "pods", "pod_groups", "queues", "switches"),
    *("workloads", "account", "expected"),
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,P100\n"
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time
a,1000,1024,1,1000,,LS,0,9,0
b,1000,1024,1,500,P100,LS,1,9,1
c,1000,1024,1,1000,,BE,2,9,2
"""


def test_simulate_reports_decisions_pods_cards_and_pending_pods() -> None:
    result = muster("simulate", QUOTA)
    assert result.exit_code == 0
    for line in (
        "a card quota refuses a second card  as expected",
        "  decisions  1 bind, 1 enqueue, 1 refuse",
        "  pods       1 pending, 1 running",
        "  examined   2 nodes for classes of pods, 3 pod groups",
        "  NVIDIA-H200     16          1    15",
    ):
        assert line in result.stdout.splitlines()
    assert "default/p2  InsufficientScalarQuota  Queue <q1> has insufficient" in result.stdout
    assert "log        position 25, digest " in result.stdout


def test_json_is_one_document_a_scenario_with_stable_keys() -> None:
    result = muster("simulate", QUOTA, QUOTA, "-o", "json")
    one, other = documents(result)
    assert one == other
    assert tuple(one) == KEYS
    assert one["expected"] is True
    annotations = {"scheduling.volcano.sh/queue-name": "q1", "volcano.sh/card.name": "NVIDIA-H200"}
    assert one["pods"] == {
        "default/p1": {
            "phase": "Running",
            "node": "n1",
            "devices": [],
            "reason": "",
            "annotations": annotations,
        },
        "default/p2": {
            "phase": "Pending",
            "node": None,
            "devices": [],
            "reason": "NotReadyForScheduling",
            "annotations": annotations,
        },
    }


def test_an_expectation_that_is_not_met_is_shown_and_ends_with_1(tmp_path: Path) -> None:
    text = QUOTA.read_text().partition("\n")[2].replace("node: n1", "node: n2")
    result = muster("simulate", path := scenario(tmp_path, text))
    assert result.exit_code == 1
    assert "not as expected" in result.stdout
    assert f'{path}: pods.default/p1.node: expected "n2", found "n1"' in result.stdout
    result = muster("simulate", path, "-o", "json")
    assert (result.exit_code, documents(result)[0]["expected"]) == (1, False)
    assert 'expected "n2", found "n1"' in result.stderr


def test_a_folder_stands_for_the_scenarios_in_it(tmp_path: Path) -> None:
    scenario(tmp_path, "cluster: []", "b.yaml")
    (tmp_path / "deeper").mkdir()
    scenario(tmp_path / "deeper", "cluster: []", "c.yml")
    (tmp_path / "policy.yaml").write_text("actions: allocate\n")
    told = [one["scenario"] for one in documents(muster("simulate", tmp_path, "-o", "json"))]
    assert told == ["b.yaml", "c.yml"]
    (tmp_path / "empty").mkdir()
    assert "no scenario there" in error_of(muster("simulate", tmp_path / "empty"))


def test_a_simulation_begins_a_new_log(tmp_path: Path) -> None:
    log = logged(tmp_path)
    result = muster("simulate", QUOTA, "--log", log)
    assert result.exit_code == 2
    assert f"{log} is not empty" in error_of(result)
    result = muster("simulate", QUOTA, QUOTA, "--log", tmp_path / "other.db")
    assert (result.exit_code, (tmp_path / "other.db").exists()) == (2, False)


def test_files_of_a_trace_are_found_through_the_environment(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(NODES)
    (tmp_path / "p.csv").write_text(PODS)
    trace = "{format: openb, nodes: '${MUSTER_TRACES}/n.csv', pods: '${MUSTER_TRACES}/p.csv'}"
    path = scenario(tmp_path, f"trace: {trace}\nuntil: 5s\n")
    result = muster("simulate", path, env={"MUSTER_TRACES": str(tmp_path)})
    assert result.exit_code == 0, result.output
    assert "1 pod asks for a fraction of a card: each counts as a whole card" in result.stdout
    assert "  P100      2          2     0" in result.stdout
    result = muster("simulate", path, env={"MUSTER_TRACES": None})  # type: ignore[dict-item]
    assert (result.exit_code, "MUSTER_TRACES is not set" in error_of(result)) == (2, True)


def test_simulate_reports_waiting_evictions_and_use_of_a_workload(tmp_path: Path) -> None:
    workload = "workload: {name: spot-gpu, scale: 0.05, window: 2h, load: 1.5, spot: 0.5}"
    log, path = tmp_path / "s.db", scenario(tmp_path, f"{workload}\nuntil: 2h")
    told = muster("simulate", path, "--log", log).stdout
    assert "the load is synthetic: drawn from published counts of the spot-gpu trace" in told
    for headers in (
        r"class +pods +never started +mean wait +p50 .* evicted +lost card-hours",
        r"queue +card +quota +used on average +peak +of quota +of the cluster",
        r"org-13 +A10 +124 ",
        r"quotas +pods that a decision put above a quota of cards: 0",
        r"pace +[0-9,]+ pods/s bound, .* [0-9,]+ MiB of memory",
    ):
        assert re.search(headers, told), headers
    assert re.search(r"decisions +.* [1-9][0-9]* evict,", told)
    assert muster("replay", log).exit_code == 0


def test_simulate_reports_invalid_configuration(tmp_path: Path) -> None:
    text = """\
cluster:
  - {kind: Queue, metadata: {name: q, annotations: {volcano.sh/card.quota: "{K80"}}}
  - kind: HyperNode
    metadata: {name: h}
    spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "("}}}]}
"""
    told = muster("simulate", scenario(tmp_path, text)).stdout
    assert re.search(r"^  faults +code +message$", told, re.MULTILINE)
    assert re.search(
        r"^  HyperNode/h +InvalidHyperNodeMember +spec.members\[0\]: ", told, re.MULTILINE
    )
    assert re.search(r"^  Queue/q +InvalidCardQuota +volcano.sh/card.quota: ", told, re.MULTILINE)
    many = "".join(f"  - {text.splitlines()[1][4:].replace('q,', f'q{at},')}\n" for at in range(12))
    told = muster("simulate", scenario(tmp_path, f"cluster:\n{many}")).stdout
    assert (told.count("InvalidCardQuota"), "... and 2 more" in told) == (10, True)
    assert "faults" not in muster("simulate", QUOTA).stdout


def test_saturation_says_how_full_and_what_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(NODES)
    (tmp_path / "p.csv").write_text(PODS)
    trace = "{format: openb, nodes: n.csv, pods: p.csv, order: saturate}"
    result = muster("simulate", scenario(tmp_path, f"trace: {trace}"), "--log", tmp_path / "s.db")
    assert "filled     2 of 2 cards, " in result.stdout
    assert "pods/s with the decisions durable" in result.stdout
    assert "not to be set beside published figures: those share cards" in result.stdout


def test_one_scenario_has_one_digest_in_memory_and_in_sqlite(tmp_path: Path) -> None:
    path = scenario(tmp_path, SMALL_OPENB)
    (memory,) = documents(muster("simulate", path, "-o", "json"))
    (sqlite,) = documents(muster("simulate", path, "-o", "json", "--log", tmp_path / "a.db"))
    assert memory == sqlite


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_order_of_hashes_changes_nothing(tmp_path: Path, seed: str) -> None:
    path = scenario(tmp_path, SMALL_OPENB)
    (here,) = documents(muster("simulate", path, "-o", "json"))
    apart = muster_apart("simulate", path, "-o", "json", env={"PYTHONHASHSEED": seed})
    assert json.loads(apart.stdout) == here


def test_the_examples_of_the_manual_run() -> None:
    assert muster("verify", ROOT / "docs").exit_code == 0


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three scenarios, of which the second meets a bug while it runs."""
    run = simulation.simulate

    async def simulate(scenario: Scenario, log: Log, **how: Any) -> simulation.SimulationRun:
        if scenario.name == "b.yaml":
            raise LookupError("an index is gone")
        return await run(scenario, log, **how)

    monkeypatch.setattr(simulation, "simulate", simulate)
    return [scenario(tmp_path, "expect: {}\n", name) for name in ("a.yaml", "b.yaml", "c.yaml")]


def test_a_scenario_that_ends_in_a_bug_does_not_end_the_others(three: list[Path]) -> None:
    result = muster("simulate", *three)
    assert result.exit_code == 70
    assert [name for name in ("a.yaml", "c.yaml") if f"{name}  as expected" in result.stdout] == [
        *("a.yaml", "c.yaml")
    ]
    assert error_of(result).startswith(
        f"{three[1]}: a bug in muster: LookupError: an index is gone at simulate, line "
    )
    result = muster("simulate", *three, "-o", "json")
    assert result.exit_code == 70
    assert [one["expected"] for one in documents(result)] == [True, False, True]
    assert "LookupError" in str(documents(result)[1]["error"])
    assert "Traceback" in muster("--debug", "simulate", *three).stderr


def test_a_bug_counts_for_more_than_a_difference(three: list[Path]) -> None:
    three[2].write_text("scenario: c\nexpect: {pods: {default/a: {}}}\n")
    assert muster("simulate", *three).exit_code == 70
    assert muster("simulate", three[0], three[2]).exit_code == 1


def test_what_a_bug_ends_while_it_is_read_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> LoadedScenario:
        if path.name == "a.yaml":
            raise LookupError("no such thing")
        return load_scenario(path)

    monkeypatch.setattr(simulate, "load_scenario", read)
    files = [scenario(tmp_path, "expect: {}\n", name) for name in ("a.yaml", "b.yaml")]
    result = muster("simulate", *files)
    assert (result.exit_code, "b.yaml  as expected" in result.stdout) == (70, True)


def test_verify_goes_on_after_a_bug(three: list[Path]) -> None:
    result = muster("verify", three[0].parent)
    assert result.exit_code == 70
    assert [line.split()[0] for line in result.stdout.splitlines() if line.endswith(".yaml")] == [
        *("passed", "FAILED", "passed")
    ]
    assert "a bug in muster: LookupError: an index is gone" in result.stdout


def test_a_scenario_in_which_the_scheduler_fails_for_ever_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(_session: object) -> Iterator[Decision]:
        raise LookupError("an index is gone")
        yield

    monkeypatch.setitem(ACTIONS, "allocate", bug)
    lines = (
        "cluster:",
        "- {apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 1, pods: 9}}}",
        "- {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}",
    )
    result = muster("simulate", scenario(tmp_path, "\n".join(lines)))
    assert result.exit_code == 2
    assert "the scenario does not come to rest" in error_of(result)
