"""`muster replay --all`: every decision that differs, and what comes of it."""

from pathlib import Path

import msgspec
import pytest
import yaml

from tests.checkout import ROOT
from tests.daemon.cli.builders import Json, documents, error_of, muster

EXAMPLES = ROOT / "docs" / "examples"
SPREAD = EXAMPLES / "spread.yaml"
OLD = ROOT / "tests" / "histories" / "attacked" / "names.muster"
"""A log that an earlier version decided otherwise."""


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two jobs on two nodes, of which one is lost."""
    log = tmp_path_factory.mktemp("lost") / "lost.db"
    assert muster("simulate", EXAMPLES / "lost_node.yaml", "--log", log).exit_code == 0
    return log


def rest(log: Path, *words: str | Path, code: int = 1) -> tuple[Json, dict[str, object]]:
    """Return the document, and the part of it about the rest of the log."""
    result = muster("replay", log, "--all", "-o", "json", *words)
    assert result.exit_code == code, result.output
    (document,) = documents(result)
    found = document["rest"]
    assert isinstance(found, dict)
    return document, found


def decisions(found: dict[str, object]) -> list[tuple[object, ...]]:
    """Return the decisions that differ: how, when recorded, kind, pod, and both nodes."""
    listed = found["decisions"]
    assert isinstance(listed, list)
    return [
        (
            one["what"],
            one["recorded"]["at_seconds"],
            one["recorded"]["kind"],
            one["recorded"]["pod"],
            one["recorded"]["node"],
            one["now"]["node"],
        )
        for one in listed
    ]


def test_not_only_the_first_decision_that_differs_is_shown(lost: Path) -> None:
    document, found = rest(lost, "--policy", SPREAD)
    divergence = document["divergence"]
    assert isinstance(divergence, dict)
    assert divergence["what"] == "another decision"
    assert int(str(found["position"])) < divergence["position"]
    assert decisions(found) == [
        ("elsewhere", 5.0, "bind", "default/a-2", "n1", "n2"),
        ("elsewhere", 35.0, "bind", "default/a-4", "n1", "n2"),
    ]
    # a-2 is on the node that stays, and is not interrupted any more.
    interrupted = {
        name: run["total"]["interruptions"]
        for name in ("recorded", "model", "now")
        if isinstance(run := found[name], dict)
    }
    assert interrupted == {"recorded": 2, "model": 2, "now": 1}


def test_the_other_policy_may_begin_at_a_moment(lost: Path) -> None:
    _, found = rest(lost, "--policy", SPREAD, "--from", "20s")
    assert decisions(found) == [("elsewhere", 35.0, "bind", "default/a-4", "n1", "n2")]


def test_the_rest_is_that_of_what_if_with_the_same_policy(lost: Path, tmp_path: Path) -> None:
    _, found = rest(lost, "--policy", SPREAD)
    change = tmp_path / "change.yaml"
    change.write_text(yaml.safe_dump({"policy": yaml.safe_load(SPREAD.read_text())}))
    at = str(found["position"])
    (branch,) = documents(muster("what-if", lost, "--at", at, "--change", change, "-o", "json"))
    assert (found["recorded"], found["now"]) == (branch["record"], branch["change"])


def test_the_decisions_that_differ_are_those_of_the_scenario_under_the_other_policy(
    lost: Path, tmp_path: Path
) -> None:
    scenario = tmp_path / "spread.yaml"
    text = (EXAMPLES / "lost_node.yaml").read_text()
    scenario.write_text(f"{text}policy_file: {SPREAD}\n")
    spread = tmp_path / "spread.db"
    assert muster("simulate", scenario, "--log", spread).exit_code == 0
    (document,) = documents(muster("diff", lost, spread, "-o", "json"))
    listed = document["decisions"]
    assert isinstance(listed, list)
    of_diff = [(one["what"], one["one"]["pod"], one["other"]["node"]) for one in listed]
    _, found = rest(lost, "--policy", SPREAD)
    assert of_diff == [(one[0], one[3], one[5]) for one in decisions(found)]


def test_a_policy_that_decides_the_same_is_equal(lost: Path, tmp_path: Path) -> None:
    result = muster("replay", lost, "--all")
    assert result.exit_code == 0
    assert result.stdout == muster("replay", lost).stdout
    same = tmp_path / "same.yaml"
    text = SPREAD.read_text() + "      - name: binpack\n"
    same.write_text(text, encoding="utf-8")
    found = muster("replay", lost, "--all", "--policy", same, "-o", "json")
    (document,) = documents(found)
    assert (found.exit_code, document["equal"], document["rest"]) == (0, True, None)


def test_what_the_present_version_decides_otherwise_is_shown_in_whole() -> None:
    document, found = rest(OLD)
    assert isinstance(document["divergence"], dict)
    assert document["divergence"]["is_of_another_version"] is True
    listed = found["decisions"]
    assert isinstance(listed, list)
    assert {one["what"] for one in listed} == {"only in recorded", "only in now"}
    assert len(listed) == 12


def test_the_text_names_the_policy_and_fits_80_columns(lost: Path) -> None:
    result = muster("replay", lost, "--policy", SPREAD, "--all")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("different: ")
    assert lines[1] == f"decided again under {SPREAD}"
    assert "2 decisions differ: 2 elsewhere" in lines
    assert [line for line in lines[2:] if len(line) > 80] == []


def test_what_cannot_be_decided_again_is_an_error(lost: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.muster"
    export = ("log", "export", lost, "--from", "20", "--leave-out", "queues", "--file", part)
    assert muster(*export).exit_code == 0
    policy = tmp_path / "policy.json"
    policy.write_bytes(msgspec.json.encode({"actions": 1}))
    for words, said in (
        ((lost, "--to", "30"), "--all goes on to the end of the log: leave out --to"),
        ((lost, "--from", "1"), "--from: nothing of "),
        ((lost, "--from", "3"), "--from: at position 2 the first lists of the cluster"),
        ((lost, "--from", "9999"), "--from 9999: "),
        ((lost, "--policy", policy), "policy.json: actions"),
        ((part,), "what led there is missing, and a log is decided again"),
    ):
        result = muster("replay", "--all", *words)
        assert result.exit_code == 2
        assert said in error_of(result)
