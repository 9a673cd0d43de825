"""`muster rebuild` and `muster migrate`: the same rows from the log alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from projections.views.catalogue import VIEWS
from tests.daemon.cli.builders import documents, logged, muster, scenario

BUSY = """\
workload: {name: openb, scale: 0.02}
until: 400s
steps:
  - {at: 40s, patch: [{kind: Node, name: openb-node-0003, merge: {spec: {unschedulable: true}}}]}
  - {at: 50s, delete: [{kind: Node, name: openb-node-0004}]}
  - {at: 60s, patch: [{kind: Queue, name: ls, merge: {spec: {weight: 3}}}]}
"""


def tables(log: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every view, histories and checksums included."""
    names = [view.name for view in VIEWS]
    names += [f"{view.name}_history" for view in VIEWS if view.history]
    with closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as connection:
        return {
            name: sorted(connection.execute(f"select * from {name}"), key=repr)  # noqa: S608
            for name in (*names, "projection")
        }


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which nodes, queues and many pods came and went."""
    folder = tmp_path_factory.mktemp("busy")
    result = muster("simulate", scenario(folder, BUSY), "--log", folder / "busy.db")
    assert result.exit_code == 0, result.output
    return folder / "busy.db"


def test_a_rebuild_makes_the_same_rows(busy: Path) -> None:
    before = tables(busy)
    result = muster("rebuild", "--log", busy)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "equal")
    assert tables(busy) == before


def test_views_of_an_imported_log_are_those_of_the_first(busy: Path, tmp_path: Path) -> None:
    bundle, copy = tmp_path / "a.muster", tmp_path / "copy.db"
    assert muster("log", "export", busy, "--file", bundle).exit_code == 0
    assert muster("log", "import", bundle, "--log", copy).exit_code == 0
    assert muster("rebuild", "--log", copy).exit_code == 1
    assert muster("rebuild", "--log", copy).exit_code == 0
    assert tables(copy) == tables(busy)


@pytest.mark.parametrize(
    "damage",
    [
        "update queue_quota_rows set allocated = allocated + 1",
        "delete from placement_rows",
        "insert into node_card_rows values ('ghost', 'A100', 'nvidia.com/gpu', 8, 8, 0, 8, 1, null)",
        "update projection set checksum = '0' where name = 'pod_group'",
        "update projection set position = 1 where name = 'decision'",
    ],
)
def test_a_view_that_was_other_is_named_and_mended(tmp_path: Path, damage: str) -> None:
    log = logged(tmp_path)
    sound = tables(log)
    with closing(sqlite3.connect(log)) as connection:
        connection.execute(damage)
        connection.commit()
    result = muster("rebuild", "--log", log, "-o", "json")
    assert result.exit_code == 1
    (document,) = documents(result)
    views = document["views"]
    assert isinstance(views, list)
    assert document["equal"] is False
    named = [view["view"] for view in views if not view["equal"]]
    assert len(named) == 1
    assert named[0] in damage
    assert muster("rebuild", "--log", log).exit_code == 0
    assert tables(log) == sound


def test_a_schema_is_made_where_there_is_none(tmp_path: Path) -> None:
    log = tmp_path / "new.db"
    (document,) = documents(muster("migrate", "--log", log, "-o", "json"))
    assert document == {"log": str(log), "position": 0}
    assert muster("log", "verify", log).exit_code == 0
