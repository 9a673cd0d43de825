"""`muster incident`: the same answer from every kind of log, stable keys, and one line for each error."""

import re
import shlex
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import QUOTA, Json, documents, error_of, muster

NODE_FAULT = ROOT / "docs" / "examples" / "node_fault.yaml"
PAGE = ROOT / "docs" / "incidents.md"

KEYS = {
    "": ["log", "position", "incidents", "left_out"],
    "incidents": [
        *("summary", "faults", "pods", "restarts", "not_moved", "timeline", "steps_left_out"),
    ],
    "summary": [
        *("name", "position", "at", "at_ns", "last_position", "last_at", "last_at_ns"),
        *("is_over", "text", "nodes"),
        *("pod_groups", "pods_hit", "restarted", "done", "evicted", "seconds_to_decision"),
        *("seconds_to_running", "lost_card_seconds"),
    ],
    "faults": [
        *("name", "node", "device", "source", "level", "code", "effect", "pod", "position", "at"),
        *("at_ns", "cleared_position", "cleared_at", "cleared_at_ns", "pods"),
    ],
    "pods": ["pod", "uid", "pod_group", "node", "rank", "cards", "devices", "fault"],
    "restarts": [
        *("pod_group", "queue", "position", "at", "at_ns", "cards", "decisions", "waits"),
        *("waits_left_out", "moves", "outcome", "message", "evicted", "evicted_healthy", "forced"),
        *("seconds_to_decision", "seconds_to_bound", "seconds_to_running", "lost_card_seconds"),
        *("healthy_card_seconds", "is_over"),
    ],
    "decisions": [
        *("position", "at", "at_ns", "code", "message", "mode", "scope", "is_escalation", "faulty"),
        "healthy",
    ],
    "waits": ["position", "at", "at_ns", "action", "code", "message", "terminating", "seconds"],
    "moves": [
        *("rank", "pod", "old_pod", "from_node", "to_node", "was_faulty", "was_deleted"),
        "position",
    ],
    "not_moved": ["pod_group", "position", "at", "at_ns", "code", "message"],
    "timeline": [
        *(
            "position",
            "last_position",
            "at",
            "at_ns",
            "kind",
            "subject",
            "text",
            "details",
            "count",
            "why",
        ),
    ],
}
"""Keys of the document, by the key that holds the objects."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with two incidents."""
    path = tmp_path_factory.mktemp("incident") / "fault.db"
    assert muster("simulate", NODE_FAULT, "--log", path).exit_code == 0
    return path


def keys_of(value: object, name: str, found: dict[str, list[list[str]]]) -> None:
    """Collect the keys of every object in a document."""
    if isinstance(value, list):
        for one in value:
            keys_of(one, name, found)
    elif isinstance(value, dict) and name != "cards":
        found.setdefault(name, []).append(list(value))
        for key, one in value.items():
            keys_of(one, key, found)


def test_the_document_has_these_keys(log: Path) -> None:
    (document,) = documents(muster("incident", log, "--node", "n2", "--output", "json"))
    found: dict[str, list[list[str]]] = {}
    keys_of(document, "", found)
    assert {name: keys for name, many in found.items() for keys in many} == KEYS
    assert all(keys == KEYS[name] for name, many in found.items() for keys in many)


def test_the_document_of_all_incidents_has_their_summaries(log: Path) -> None:
    (document,) = documents(muster("incident", log, "--output", "json"))
    summaries = document["incidents"]
    assert isinstance(summaries, list)
    assert [list(one) for one in summaries] == [KEYS["summary"]] * 2


def test_a_bundle_gives_the_same_answer(log: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "fault.muster"
    assert muster("log", "export", log, "--file", bundle).exit_code == 0

    def asked(place: Path) -> Json:
        (document,) = documents(muster("incident", place, "--node", "n2", "--output", "json"))
        return {key: value for key, value in document.items() if key != "log"}

    assert asked(bundle) == asked(log)


def test_every_command_of_a_timeline_explains_its_step(log: Path) -> None:
    shown = muster("incident", log, "--node", "n2").stdout
    typed = dict.fromkeys(re.findall(r"^ +(muster why .*)$", shown, re.MULTILINE))
    assert len(typed) > 10
    for line in typed:
        assert muster(*shlex.split(line)[1:], "--log", log).exit_code == 0, line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--node", "n9"], "node 'n9' is not in the log"),
        (["--pod-group", "none"], "pod group 'default/none' is not in the log"),
        (["--pod-group", "a/b/c"], "--pod-group 'a/b/c' names no pod group: give NAMESPACE/NAME"),
        (["--fault", "n2@x"], "--fault 'n2@x' names no fault"),
        (["--fault", "n2@9999"], "--fault ...@9999 is after the end of the log"),
        (["--at", "9999"], "--at 9999: "),
        (["--at", "soon"], "'soon' is not a moment"),
        (["--at", "3", "--node", "n2"], "--at and --node exclude each other: give one of them"),
    ],
)
def test_what_cannot_be_asked_ends_with_one_line(
    options: list[str], message: str, log: Path
) -> None:
    result = muster("incident", log, *options)
    assert result.exit_code == 2
    assert message in error_of(result)


@pytest.mark.parametrize(
    "options", [["--node", "n1"], ["--at", "20s"], ["--fault", "n2/x@49"], ["--fault", "n2@1"]]
)
def test_no_such_incident_is_exit_code_1(options: list[str], log: Path) -> None:
    result = muster("incident", log, *options)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert "no incident" in line
    (document,) = documents(muster("incident", log, *options, "--output", "json"))
    assert document["incidents"] == []


def test_a_log_without_faults_has_no_incident(tmp_path: Path) -> None:
    path = tmp_path / "quota.db"
    assert muster("simulate", QUOTA, "--log", path).exit_code == 0
    result = muster("incident", path)
    assert result.exit_code == 1
    assert re.fullmatch(r".*: no incident up to position \d+\n", result.stdout)


def test_the_page_shows_what_the_commands_of_its_example_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(ROOT)
    typed = [
        shlex.split(line.replace("fault.db", str(tmp_path / "fault.db")))[1:]
        for line in script.splitlines()
    ]
    printed = [muster(*words).stdout.replace(f"{tmp_path}/", "") for words in typed]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown = [text for language, text in fenced if not language]
    assert shown == printed[1:]


def test_each_time_is_there_as_a_number_of_nanoseconds(log: Path) -> None:
    [document] = documents(muster("incident", log, "-o", "json"))
    incidents = document["incidents"]
    assert isinstance(incidents, list)
    assert [(one["at"], one["at_ns"], one["last_at_ns"]) for one in incidents] == [
        ("10.000s", 10_000_000_000, 15_000_000_000),
        ("100.000s", 100_000_000_000, 200_000_000_000),
    ]
