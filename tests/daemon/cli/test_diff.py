"""`muster diff`: two logs that part, and two that do not."""

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import Json, documents, error_of, muster

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`lost.db`, in which two pods wait 30 s for quota; `more.db`, its branch in which the quota was raised at 3 s; the stretches
    `begin.muster`, `end.muster` and `other.muster`."""
    folder = tmp_path_factory.mktemp("diff")
    lost, more = folder / "lost.db", folder / "more.db"
    change = ("--at", "3s", "--change", EXAMPLES / "more_quota.yaml", "--out", more)
    for words in (
        ("simulate", EXAMPLES / "lost_node.yaml", "--log", lost),
        ("what-if", lost, *change),
        ("log", "export", lost, "--to", "40", "--file", folder / "begin.muster"),
        ("log", "export", lost, "--from", "20", "--file", folder / "end.muster"),
        ("log", "export", more, "--from", "20", "--file", folder / "other.muster"),
    ):
        result = muster(*words)
        assert result.exit_code == 0, result.output
    return folder


def diff(folder: Path, one: str, other: str) -> Json:
    """Return the document of a comparison that finds a difference."""
    result = muster("diff", folder / one, folder / other, "-o", "json")
    assert result.exit_code == 1, result.output
    (document,) = documents(result)
    assert document["equal"] is False
    return document


def listed(document: Json, name: str) -> list[dict[str, object]]:
    found = document[name]
    assert isinstance(found, list)
    return found


def total(document: Json, side: str) -> dict[str, object]:
    run = document[side]
    assert isinstance(run, dict)
    found = run["queues"]["red"]
    assert isinstance(found, dict)
    return found


def test_a_log_is_equal_to_itself_and_to_its_bundle(logs: Path) -> None:
    for other in ("lost.db", "end.muster"):
        result = muster("diff", logs / "lost.db", logs / other)
        assert result.exit_code == 0
        assert result.stdout.startswith("equal: ")
    (document,) = documents(muster("diff", logs / "lost.db", logs / "lost.db", "-o", "json"))
    assert document["equal"] is True
    assert document["records"] == document["position"]


def test_a_branch_parts_where_it_began_and_its_pods_start_earlier(logs: Path) -> None:
    document = diff(logs, "lost.db", "more.db")
    parted = document["parted"]
    assert isinstance(parted, dict)
    assert (parted["position"], parted["other"]["kind"]) == (17, "daemon_started.v1")
    assert [one["subject"] for one in listed(document, "objects")] == [
        *("Pod/default/train-0", "Pod/default/train-1", "Queue//red"),
    ]
    by_what: dict[object, list[object]] = {}
    for one in listed(document, "decisions"):
        side = one["one"] or one["other"]
        assert isinstance(side, dict)
        by_what.setdefault(one["what"], []).append((side["kind"], one["later_seconds"]))
    assert by_what == {
        "only in one": [("refuse", 0.0), ("refuse", 0.0)],
        "earlier": [("enqueue", -30.0), ("enqueue", -30.0), ("bind", -30.0), ("bind", -30.0)],
    }


def test_the_account_is_that_of_what_if(logs: Path) -> None:
    document = diff(logs, "lost.db", "more.db")
    waits = [total(document, side)["waiting_seconds"] for side in ("one", "other")]
    assert [one["max"] for one in waits if isinstance(one, dict)] == [30.0, 0.0]
    assert total(document, "one")["card_hours"] == {"NVIDIA-H200": 0.0306}
    assert total(document, "other")["card_hours"] == {"NVIDIA-H200": 0.0444}


def test_the_other_way_round_everything_is_mirrored(logs: Path) -> None:
    mirror = {"only in one": "only in other", "earlier": "later", "only in other": "only in one"}
    there, back = diff(logs, "lost.db", "more.db"), diff(logs, "more.db", "lost.db")
    assert sorted(str(one["what"]) for one in listed(back, "decisions")) == sorted(
        mirror[str(one["what"])] for one in listed(there, "decisions")
    )
    assert total(there, "one") == total(back, "other")


def test_a_log_that_ends_before_the_other_is_its_beginning(logs: Path) -> None:
    document = diff(logs, "lost.db", "begin.muster")
    parted = document["parted"]
    assert isinstance(parted, dict)
    assert parted["position"] > 40 - 5  # Whole batches are exported.
    assert parted["other"] is None
    assert {one["what"] for one in listed(document, "decisions")} == {"only in one"}
    text = muster("diff", logs / "begin.muster", logs / "lost.db").stdout
    assert "(the log ends)" in text


def test_logs_without_a_common_beginning_are_compared_by_what_they_decide(logs: Path) -> None:
    document = diff(logs, "end.muster", "other.muster")
    assert document["parted"] is None
    text = muster("diff", logs / "end.muster", logs / "other.muster").stdout
    assert text.startswith("different: the logs have no beginning in common\n")


def test_the_text_fits_80_columns(logs: Path) -> None:
    lines = muster("diff", logs / "lost.db", logs / "more.db").stdout.splitlines()
    assert [line for line in lines if len(line) > 80 and str(logs) not in line] == []
    assert "6 decisions differ: 2 only in one, 4 earlier" in lines
    assert any(line.split() == ["wait,", "longest", "30.0", "s", "0.0", "s"] for line in lines)


def test_a_record_that_was_changed_is_damage_and_no_difference(logs: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.db"
    with closing(connect(logs / "lost.db")) as source, closing(connect(changed)) as copy:
        source.backup(copy)
        triggers = copy.execute("select name from sqlite_master where type = 'trigger'")
        for (name,) in triggers.fetchall():
            copy.execute(f"drop trigger {name}")
        copy.execute("update log set body = replace(body, 'n1', 'n2') where position = 29")
        copy.commit()
    # Its last digest is still that of the other log.
    for one, other in ((changed, logs / "lost.db"), (logs / "more.db", changed)):
        result = muster("diff", one, other)
        assert result.exit_code == 4
        assert error_of(result) == "position 29: the digest does not fit the record"


def test_what_is_no_log_is_an_error(logs: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database")
    for words in (
        (logs / "lost.db", tmp_path / "none.db"),
        (tmp_path / "none.muster", logs / "lost.db"),
        (logs / "lost.db", text),
        (logs / "lost.db", "mysql://x/y"),
    ):
        result = muster("diff", *words)
        assert result.exit_code in (2, 3, 4)
        assert error_of(result)
    assert muster("diff", logs / "lost.db").exit_code == 2
