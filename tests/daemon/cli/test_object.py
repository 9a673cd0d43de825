"""`muster object`: an object as it was, and who changed it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from events.json_value import Json
from tests.daemon.cli.builders import documents, error_of, muster
from tests.daemon.object_log import write_object_log

TIME = "2026-01-31T09:30:00Z"
START_NS = 1_769_850_000_000_000_000


def queue(cpu: int, manager: str) -> Json:
    """A queue as the API server shows it."""
    managed: Json = [{"manager": manager, "operation": "Update", "time": TIME}]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "ls", "uid": "u1", "managedFields": managed},
        "spec": {"capability": {"cpu": cpu, "nvidia.com/gpu": 8}},
    }


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """A queue is created, shown twice alike, lowered by bob, and deleted."""
    shown = (queue(8, "alice"), queue(8, "alice"), queue(4, "bob\x1b[31m"), None)
    return await write_object_log(tmp_path / "log.db", "Queue//ls", shown, START_NS)


def test_an_object_is_shown_as_it_was(log: Path) -> None:
    for at, cpu, position in (("1", 8, 1), ("2", 8, 1), ("3", 4, 3)):
        text = muster("object", "queue/ls", "--log", log, "--at", at).stdout
        assert yaml.safe_load(text)["spec"]["capability"]["cpu"] == cpu
        assert text.startswith(f"# Queue//ls, so since position {position} (2026-01-31T")
    assert (
        f"# changed by alice (Update) at {TIME}"
        in muster("object", "q/ls", "--log", log, "--at", "2").stdout.splitlines()
    )


def test_the_changes_say_who_lowered_the_quota(log: Path) -> None:
    (document,) = documents(muster("object", "Queue/ls", "--log", log, "--diff", "-o", "json"))
    changes = document["changes"]
    assert isinstance(changes, list)
    assert [(one["position"], one["what"]) for one in changes] == [
        (1, "seen"),
        (3, "changed"),
        (4, "deleted"),
    ]
    assert changes[1]["fields"] == [{"field": "spec.capability.cpu", "before": "8", "after": "4"}]
    assert changes[1]["changed_by"][0].startswith("bob")
    text = muster("object", "Queue/ls", "--log", log, "--diff", "--from", "2").stdout
    first, *more = text.splitlines()
    assert first == "Queue/ls: 2 changes"
    assert more[0].startswith("position 3 (")
    assert ", changed by bob" in more[0]
    assert more[1] == "  spec.capability.cpu: 8 -> 4"
    assert more[2].endswith(": deleted")
    assert "\x1b" not in text


def test_the_view_says_who_changed_what(log: Path) -> None:
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute(
            "SELECT position, time, manager, operation, changed_at, subresource FROM object_change"
            " WHERE subject = 'Queue//ls' ORDER BY position"
        ).fetchall()
    assert rows[0] == (1, "2026-01-31T09:00:00.000Z", "alice", "Update", TIME, "")
    assert [row[0] for row in rows] == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Queue/ls"], "Queue//ls was deleted at position 4; --at 3 shows it"),
        (["Queue/other"], "shows no Queue/other up to position 4"),
        (["jobs/x"], "shows no Job/default/x or Job.batch.volcano.sh/default/x"),
        (["Queue/ns/ls"], "a Queue has no namespace: give Queue/ls"),
        (["secrets/x"], "no log holds objects of such a kind"),
        (["Queue"], "names no object: give KIND/NAME"),
        (["Queue/"], "names no object"),
        (["Queue/a/b/c"], "names no object"),
        (["Queue/ls", "--diff", "--at", "3"], "--diff takes --from and --to"),
        (["Queue/ls", "--from", "3"], "belong to --diff"),
        (["Queue/ls", "--at", "99"], "holds positions 1 to 4"),
    ],
)
def test_what_cannot_be_shown_ends_in_one_line(log: Path, words: list[str], message: str) -> None:
    result = muster("object", *words, "--log", log)
    assert (result.exit_code, message in error_of(result)) == (2, True)
