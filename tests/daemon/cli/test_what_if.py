"""`muster what-if`: as text, as JSON, as a log of its own, and what it refuses."""

import re
import shutil
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, error_of, muster

EXAMPLES = ROOT / "docs" / "examples"
PAGE = ROOT / "docs" / "what-if.md"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the example."""
    log = tmp_path_factory.mktemp("lost") / "lost.db"
    assert muster("simulate", EXAMPLES / "lost_node.yaml", "--log", log).exit_code == 0
    return log


def change(folder: Path, text: str) -> Path:
    path = folder / "change.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_manual_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    typed = re.findall(r"^    muster (.*)$", text, re.MULTILINE)
    printed = [muster(*line.split()) for line in typed]
    assert [one.exit_code for one in printed] == [0] * len(typed), [one.output for one in printed]
    shown = re.search(r"^```\n(different: .*?)^```", text, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert printed[1].stdout == shown[1]


def test_a_document_has_the_three_runs_and_the_first_difference(lost: Path) -> None:
    result = muster(
        *("what-if", lost, "--at", "3s", "-o", "json"),
        *("--change", EXAMPLES / "more_quota.yaml"),
    )
    assert result.exit_code == 0
    (document,) = documents(result)
    assert {
        name: document[name]
        for name in ("position", "at_seconds", "end_seconds", "baseline", "equal")
    } == {
        "position": 16,
        "at_seconds": 3.0,
        "end_seconds": 110.0,
        "baseline": "record",
        "equal": False,
    }
    assert document["record"] == document["model"]
    assert document["model_difference"] is None
    changed, difference = document["change"], document["first_difference"]
    assert isinstance(changed, dict)
    assert isinstance(difference, dict)
    assert changed["total"]["waiting_seconds"] == {
        "pods": 6,
        "mean": 0.0,
        "p50": 0.0,
        "p95": 0.0,
        "max": 0.0,
    }
    assert changed["queues"]["red"]["card_hours"] == {"NVIDIA-H200": 0.0444}
    assert difference["record"]["code"] == "InsufficientScalarQuota"
    assert difference["change"]["kind"] == "enqueue"


def test_a_dropped_fault_leaves_pods_where_they_were_placed(lost: Path) -> None:
    arguments = ("what-if", lost, "--at", "30s", "--change", EXAMPLES / "no_fault.yaml")
    (by_record,) = documents(muster(*arguments, "-o", "json"))
    (by_model,) = documents(muster(*arguments, "-o", "json", "--baseline", "model"))
    assert by_record["placements"] == [
        {"pod": "default/train-0", "record": "n2", "change": "n1"},
        {"pod": "default/train-1", "record": "n2", "change": "n1"},
    ]
    assert by_model["placements"] == [
        {"pod": "default/train-0", "model": "n2", "change": "n1"},
        {"pod": "default/train-1", "model": "n2", "change": "n1"},
    ]
    text = muster(*arguments).stdout
    assert "default/train-1       n2        n1" in text


def test_a_change_that_changes_nothing_is_equal(lost: Path, tmp_path: Path) -> None:
    nothing = change(tmp_path, "steps: []")
    result = muster("what-if", lost, "--at", "30s", "--change", nothing)
    assert result.exit_code == 0
    assert result.stdout.startswith("equal: the rest of ")
    assert result.stdout.endswith("no decision differs\n")
    (document,) = documents(
        muster("what-if", lost, "--at", "30s", "--change", nothing, "-o", "json")
    )
    assert document["equal"] is True
    assert document["record"] == document["model"] == document["change"]
    assert document["placements"] == []


def test_a_kept_branch_is_a_log_for_every_other_command(lost: Path, tmp_path: Path) -> None:
    branch = tmp_path / "branch.db"
    arguments = ("--at", "3s", "--change", EXAMPLES / "more_quota.yaml", "--out", branch)
    result = muster("what-if", lost, *arguments)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"the run with the change is kept in {branch}\n")
    assert muster("log", "verify", branch).exit_code == 0
    assert muster("replay", branch).stdout.startswith("equal: ")
    assert muster("rebuild", "--log", branch).exit_code == 0
    assert "bind default/a-3" in muster("tell", branch).stdout.replace("podgroup-uid-000006", "a-3")
    again = muster("what-if", lost, *arguments)
    assert again.exit_code == 2
    assert error_of(again) == f"{branch} is not empty: a branch is kept in a new log"


def test_a_policy_file_is_read_beside_the_change(lost: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(
        "actions: enqueue, allocate\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]}]\n",
        encoding="utf-8",
    )
    other = change(tmp_path, "policy_file: plain.yaml")
    (document,) = documents(muster("what-if", lost, "--at", "3s", "--change", other, "-o", "json"))
    changed = document["change"]
    assert isinstance(changed, dict)
    assert changed["total"]["waiting_seconds"]["max"] == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy: {actions: [1]}", "change.yaml:1: policy: actions: "),
        ("policy_file: nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("steps: {}", "change.yaml:1: steps must be a list"),
        (
            "steps: [{at: 1s, fail: [{pod: nowhere}]}]",
            "change.yaml:1: there is no Pod default/nowhere",
        ),
        ("drop: [{kind: Secret, name: a}]", "change.yaml:1: the simulated cluster does not read"),
        ("", "change.yaml:1: the file is empty"),
    ],
)
def test_a_bad_change_ends_in_one_line(lost: Path, tmp_path: Path, text: str, message: str) -> None:
    result = muster("what-if", lost, "--at", "3s", "--change", change(tmp_path, text))
    assert result.exit_code == 2
    assert message in error_of(result)
    assert result.stdout == ""


def test_a_redacted_bundle_ends_in_one_line(lost: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "lost.muster"
    assert muster("log", "export", lost, "--file", bundle, "--leave-out", "Pod").exit_code == 0
    result = muster("what-if", bundle, "--at", "3s", "--change", EXAMPLES / "no_fault.yaml")
    assert result.exit_code == 2
    assert "the object of Pod/default/a-1 was redacted" in error_of(result)
