"""`muster replay`: equal, or where not."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.cli.inputs import read_policy
from daemon.fold import fold
from daemon.log.code_key import code_key
from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.log.snapshots import payload_of
from daemon.queries.replay import replay_log
from daemon.simulation import simulate
from daemon.view_rebuild import batches
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.daemon.cli.builders import (
    QUOTA,
    documents,
    error_of,
    logged,
    logged_openb,
    muster,
)

SPREAD = ROOT / "docs" / "examples" / "spread.yaml"


@pytest.fixture(scope="module")
def openb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of some hundred pods."""
    return logged_openb(tmp_path_factory.mktemp("openb"))


def head_of(log: Path) -> tuple[int, str]:
    with closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as connection:
        row = connection.execute("select position, digest from log_head").fetchone()
        return int(row[0]), str(row[1])


def test_a_log_that_is_decided_again_is_equal(openb: Path) -> None:
    position, digest = head_of(openb)
    result = muster("replay", openb)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"equal: {position:,} records, ")
    assert result.stdout.endswith(f"position {position}, digest {digest}\n")
    (document,) = documents(muster("replay", openb, "-o", "json"))
    assert document["equal"] is True
    assert (document["to"], document["digest"]) == (position, digest)


def test_a_bundle_is_decided_again_as_its_log(openb: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "openb.muster"
    assert muster("log", "export", openb, "--file", bundle).exit_code == 0
    assert muster("replay", bundle).stdout == muster("replay", openb).stdout


def test_another_policy_diverges_at_the_first_decision_that_is_other(openb: Path) -> None:
    result = muster("replay", openb, "--policy", SPREAD)
    assert result.exit_code == 1
    assert "another decision" in result.stdout.splitlines()[0]
    assert '|       "node": "openb-node-' in result.stdout
    assert "records that fed it:" in result.stdout
    (document,) = documents(muster("replay", openb, "--policy", SPREAD, "-o", "json"))
    divergence = document["divergence"]
    assert isinstance(divergence, dict)
    assert divergence["recorded"]["kind"] == divergence["decided"]["kind"] == "gang_bind_decided.v1"
    assert divergence["recorded"]["body"] != divergence["decided"]["body"]


def test_what_lies_before_is_folded_and_not_compared(openb: Path) -> None:
    (whole,) = documents(muster("replay", openb, "-o", "json"))
    (part,) = documents(muster("replay", openb, "--from", "1000", "-o", "json"))
    assert part["equal"] is True
    assert part["digest"] == whole["digest"]
    assert int(str(part["records"])) < int(str(whole["records"]))


class ReadLog(MemoryLog):
    """A log in memory that keeps where it was read from."""

    def __init__(self) -> None:
        super().__init__()
        self.read_after: list[int] = []

    def read(self, after: int = 0, until: int | None = None) -> AsyncIterator[list[Entry]]:
        self.read_after.append(after)
        return super().read(after, until)


async def test_a_stretch_begins_at_the_newest_snapshot_before_it() -> None:
    log = ReadLog()
    await simulate(parse_scenario(QUOTA.read_text(), "quota.yaml"), log, with_views=False)
    ends = [batch[-1].record for batch in [one async for one in batches(log)]]
    middle = ends[len(ends) // 2]
    payload = payload_of(await fold(log, middle.position))
    await log.save_snapshot(middle.position, middle.digest, code_key(), payload)
    log.read_after.clear()
    for first, begins in ((None, 0), (middle.position, 0), (middle.position + 1, middle.position)):
        replayed = await replay_log(log, first)
        assert replayed.divergence is None
        assert replayed.replay.head == log.head
        assert log.read_after == [begins]
        log.read_after.clear()
    await replay_log(log, middle.position + 1, policy=read_policy(SPREAD))
    assert log.read_after[0] == 0, "a snapshot is of the recorded policy"


def test_a_replay_ends_behind_the_batch_asked_for(openb: Path) -> None:
    (part,) = documents(muster("replay", openb, "--to", "700", "-o", "json"))
    assert part["equal"] is True
    assert 700 <= int(str(part["to"])) < head_of(openb)[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "0"], "--from 0: "),
        (["--to", "99999999"], "--to 99999999: "),
        (["--from", "9", "--to", "3"], "--from 9 comes after --to 3"),
    ],
)
def test_positions_that_are_not_there_are_refused(openb: Path, words: list[str], said: str) -> None:
    result = muster("replay", openb, *words)
    assert (result.exit_code, said in error_of(result)) == (2, True)


def test_a_part_of_a_log_is_decided_again_under_its_own_policy_and_another_one(
    openb: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "part.muster"
    assert muster("log", "export", openb, "--file", bundle, "--from", "900").exit_code == 0
    assert muster("log", "verify", bundle).exit_code == 0
    assert muster("replay", bundle).stdout.startswith("equal: ")
    assert muster("replay", bundle, "--jobs", "2").stdout == muster("replay", bundle).stdout
    (document,) = documents(muster("replay", bundle, "-o", "json"))
    begin = str(document["from"])
    found = [
        muster("replay", log, "--policy", SPREAD, "--from", begin, "-o", "json")
        for log in (openb, bundle)
    ]
    (whole,), (part,) = map(documents, found)
    assert (part["divergence"], part["records"]) == (whole["divergence"], whole["records"])
    assert part["divergence"] is not None


def test_a_part_without_the_facts_at_its_start_cannot_be_decided_again(
    openb: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "part.muster"
    words = ("log", "export", openb, "--file", bundle, "--from", "900", "--leave-out", "queues")
    assert muster(*words).exit_code == 0
    for command in ("replay", "state"):
        result = muster(command, bundle)
        assert (result.exit_code, "begins behind position" in error_of(result)) == (2, True)


def test_another_version_of_the_deciding_code_is_said_to_be_one(
    openb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.log_replay.DECIDER", 1_000)
    monkeypatch.setattr("daemon.cli.replay.DECIDER", 1_000)
    result = muster("replay", openb, "--policy", SPREAD)
    assert result.exit_code == 1
    assert "a change of behaviour, not a bug" in result.stdout


@pytest.mark.parametrize(
    "damage",
    [
        "update log set body = replace(body, 'n1', 'n2') where position = 22",
        "update log set subject = 'x' where position = 20",
        "delete from log where position = 10",
        "delete from log where position = 25",
        "update log set object = (select max(digest) from objects) where position = 3",
        "update objects set bytes = x'00' || substr(bytes, 2)",
        "delete from objects",
        "update log_head set digest = '0'",
    ],
)
def test_a_damaged_log_is_named_with_its_position(tmp_path: Path, damage: str) -> None:
    log = logged(tmp_path)
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute("select name from sqlite_master where type = 'trigger'")
        for (name,) in rows.fetchall():
            connection.execute(f"drop trigger {name}")
        connection.execute(damage)
        connection.commit()
    for words in (["log", "verify"], ["replay"]):
        result = muster(*words, log)
        assert (result.exit_code, "position " in error_of(result)) == (4, True)
