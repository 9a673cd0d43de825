"""The view `fault`: a row for each fault that stands, with what was done about it, and its history."""

import sqlite3
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, muster, scenario

NODE_FAULT = ROOT / "docs" / "examples" / "node_fault.yaml"

TAINTED = """\
policy:
  actions: "enqueue, reschedule, allocate, backfill"
  configurations: [{name: reschedule, arguments: {mode: "off", taints: [example.com/broken]}}]
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - kind: Node
    metadata: {name: n1}
    status: {allocatable: {cpu: 8}, conditions: [{type: Ready, status: "True"}]}
  - kind: Pod
    metadata: {name: "p-{i}"}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
    count: 2
steps:
  - at: 5s
    patch:
      - kind: Node
        name: n1
        merge: {spec: {taints: [{key: example.com/broken, effect: NoSchedule}]}}
  - {at: 8s, delete: [{kind: Pod, namespace: default, name: p-1}]}
until: 20s
"""


def asked(log: Path, query: str) -> list[tuple[object, ...]]:
    """Ask a log in SQL."""
    connection = sqlite3.connect(f"file:{log}?mode=ro", uri=True)
    rows: list[tuple[object, ...]] = connection.execute(query).fetchall()
    connection.close()
    return rows


def kept(folder: Path, path: Path) -> Path:
    """Return the log of a scenario."""
    log = folder / "faults.db"
    assert muster("simulate", path, "--log", log).exit_code == 0
    return log


def test_the_history_says_how_long_a_fault_stood_and_what_was_done_about_it(tmp_path: Path) -> None:
    log = kept(tmp_path, NODE_FAULT)
    rows = asked(
        log,
        "select node, source, level, effect, pods, done, since_ns / 1000000000, from_position,"
        " to_position from fault_history order by from_position",
    )
    fault = ("n2", "node", "NotReady", "NodeUnhealthy", 1)
    first, second = rows[0][7], rows[1][7]
    decided = [
        row[0]
        for row in asked(log, "select distinct position from decision where code = 'NodeUnhealthy'")
    ]
    forced = [
        row[0]
        for row in asked(log, "select distinct position from decision where code = 'GraceOver'")
    ]
    restarted = f"default/train restarted at {decided[0]}"
    assert [row[:7] for row in rows] == [
        (*fault, "recorded only", 10),
        (*fault, "recorded only", 100),
        (*fault, restarted, 100),
        (*fault, f"{restarted}, {forced[0]}", 100),
    ]
    assert rows[0][8] is not None
    assert isinstance(first, int)
    assert isinstance(second, int)
    assert first < second
    assert rows[1][8] == rows[2][7]
    assert rows[3][8] is not None
    assert asked(log, "select * from fault") == []


def test_a_fault_that_nothing_was_done_about_is_recorded_only_with_the_most_pods_that_it_hit(
    tmp_path: Path,
) -> None:
    log = kept(tmp_path, scenario(tmp_path, TAINTED))
    assert asked(log, "select source, level, code, effect, pods, done from fault") == [
        ("taint", "NoSchedule", "example.com/broken", "NodeUnhealthy", 2, "recorded only")
    ]


@pytest.mark.parametrize("text", [NODE_FAULT.read_text(encoding="utf-8"), TAINTED])
def test_a_rebuild_finds_no_difference(text: str, tmp_path: Path) -> None:
    body = text.partition("scenario: ")[2].partition("\n")[2] or text
    log = kept(tmp_path, scenario(tmp_path, body))
    (found,) = documents(muster("rebuild", "--log", log, "--output", "json"))
    assert found["equal"] is True
