"""Every command that reads a log, on a stretch, on what is left of an archived log, and on a stretch that was imported."""

import shutil
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, error_of, muster

EXAMPLES = ROOT / "docs" / "examples"
CUT = 47
"""Behind the first fault of the example, and before the second one, at 49."""

COMMANDS = (
    "why Node/n1 --log LOG",
    "why Pod/default/train-1 --log LOG --at 60",
    "why PodGroup/default/train --log LOG",
    "history Node/n2 --log LOG",
    "object Node/n1 --log LOG",
    "object Node/n2 --log LOG --diff",
    "queue show default --log LOG",
    "state LOG --at 60",
    "tell LOG",
    "topology LOG",
    "log tail LOG",
    "log verify LOG",
    "replay LOG",
    "replay LOG --from 60",
    "replay LOG --all",
    "incident LOG",
    "incident LOG --fault n2@49",
    "incident LOG --at 60",
    "what-if LOG --at 60 --change CHANGE",
    "reduce LOG --from 60 --keep decision_kind=bind",
    "diff LOG WHOLE",
    "log export LOG --file OUT",
    "log export LOG --file OUT --from 60",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 98 records: a gang whose node stops twice."""
    path = tmp_path_factory.mktemp("whole") / "whole.db"
    result = muster("simulate", EXAMPLES / "node_fault.yaml", "--log", path)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture(scope="module", params=["a stretch", "an archived log", "an imported stretch"])
def cut(
    request: pytest.FixtureRequest, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    bundle, database = folder / "cut.muster", folder / "cut.db"
    if request.param == "an archived log":
        shutil.copy(whole, database)
        words: tuple[str | Path, ...] = ("--before", str(CUT), "--file", bundle)
        assert muster("log", "archive", database, *words).exit_code == 0
        return database
    export = muster("log", "export", whole, "--file", bundle, "--from", str(CUT))
    assert export.exit_code == 0, export.output
    if request.param == "a stretch":
        return bundle
    assert muster("log", "import", bundle, "--log", database).exit_code == 0
    assert "view" in muster("rebuild", "--log", database).stdout
    return database


def words_of(command: str, log: Path, whole: Path, folder: Path) -> list[str]:
    change = folder / "change.yaml"
    change.write_text("drop: [{kind: Node, name: n2}]\n", encoding="utf-8")
    meant = {"LOG": log, "WHOLE": whole, "CHANGE": change, "OUT": folder / "out.muster"}
    words = [str(meant.get(word, word)) for word in command.split()]
    return [word.replace("decision_", "decision ") for word in words]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_answers(cut: Path, whole: Path, tmp_path: Path, command: str) -> None:
    result = muster(*words_of(command, cut, whole, tmp_path))
    assert result.exit_code == 0, result.output
    assert "begins behind" not in result.output


@pytest.mark.parametrize(
    "command",
    [
        "incident LOG --fault n2@49",
        "incident LOG --at 60",
        "object Node/n1 --log LOG --at 60",
        "object Node/n2 --log LOG --diff --from 49",
        "queue show default --log LOG --at 60",
    ],
)
def test_the_answer_is_that_of_the_whole_log(
    cut: Path, whole: Path, tmp_path: Path, command: str
) -> None:
    one, other = [
        muster(*words_of(command, log, whole, tmp_path), "--output", "json") for log in (cut, whole)
    ]
    assert one.exit_code == other.exit_code == 0, one.output
    assert one.stdout.replace(str(cut), str(whole)) == other.stdout


def test_a_branch_and_another_policy_have_the_figures_of_the_whole_log(
    cut: Path, whole: Path, tmp_path: Path
) -> None:
    """Seconds since the log began are others: a stretch begins later."""
    words = "what-if LOG --at 60 --change CHANGE --output json"
    (one,), (other,) = [
        documents(muster(*words_of(words, log, whole, tmp_path))) for log in (cut, whole)
    ]
    for run in ("record", "model", "change"):
        assert one[run] == other[run]
    words = f"replay LOG --policy {EXAMPLES / 'spread.yaml'} --from 49 --output json"
    (one,), (other,) = [
        documents(muster(*words_of(words, log, whole, tmp_path))) for log in (cut, whole)
    ]
    assert (one["records"], one["divergence"]) == (other["records"], other["divergence"])


def test_usage_of_the_same_stretch_is_the_same(cut: Path, whole: Path) -> None:
    asked = ("--from", "49", "--by", "label:apps.kubernetes.io/pod-index", "-o", "json")
    result = muster("usage", "--log", cut, *asked)
    if cut.suffix == ".muster":
        assert "a bundle, which has no views" in error_of(result)
        return
    assert documents(result) == documents(muster("usage", "--log", whole, *asked))


def test_a_log_that_begins_later_gets_pseudonyms_too(cut: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.muster"
    result = muster("log", "export", cut, "--file", out, "--redact", "all")
    assert (result.exit_code, out.exists()) == (0, True), result.output
    assert muster("replay", out).exit_code == 0
