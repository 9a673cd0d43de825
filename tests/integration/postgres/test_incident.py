"""Incidents and the view of faults on PostgreSQL are those on SQLite."""

from pathlib import Path

from tests.checkout import ROOT
from tests.daemon.cli.builders import Json, documents, muster, scenario

NODE_FAULT = ROOT / "docs" / "examples" / "node_fault.yaml"

LONG = """\
policy:
  actions: "enqueue, reschedule, allocate, backfill"
  configurations: [{name: reschedule, arguments: {taints: ["KEY"]}}]
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
cluster:
  - kind: Node
    metadata: {name: n1}
    spec: {taints: [{key: "KEY", effect: NoSchedule}]}
    status: {allocatable: {cpu: 8}}
until: 5s
"""


def incidents_of(place: str | Path) -> list[Json]:
    """Return the incidents of a node."""
    (document,) = documents(muster("incident", place, "--node", "n2", "--output", "json"))
    found = document["incidents"]
    assert isinstance(found, list)
    return found


def test_a_server_gives_the_same_incidents_and_keeps_the_same_view(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "fault.db"
    for place in (url, file):
        assert muster("simulate", NODE_FAULT, "--log", place).exit_code == 0
        result = muster("rebuild", "--log", place, "--output", "json")
        assert result.exit_code == 0, result.output
    assert len(incidents_of(url)) == 2
    assert incidents_of(url) == incidents_of(file)


def test_a_fault_with_a_long_text_has_a_row(url: str, tmp_path: Path) -> None:
    text = LONG.replace("KEY", "\\0" + "\N{GOTHIC LETTER HWAIR}" * 2000)
    path = scenario(tmp_path, text)
    assert muster("simulate", path, "--log", url).exit_code == 0
    (document,) = documents(muster("rebuild", "--log", url, "--output", "json"))
    views = document["views"]
    assert isinstance(views, list)
    assert [one["rows"] for one in views if one["view"] == "fault"] == [1]
    assert document["equal"] is True
