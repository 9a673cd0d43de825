"""Rewrite the past of a log in SQLite, as its owner can: from one record on, with a chain that is sound in itself."""

import sqlite3
from contextlib import closing
from pathlib import Path

from events.chain import Draft, seal
from events.record import Record

COLUMNS = "position, batch, epoch, recorded_at_ns, cycle, cause, kind, subject, body, object"
TRIGGERS = ("log_no_update", "log_signature_no_delete")


def rewrite(path: Path, begin: int, *, forgets_signatures: bool = False) -> str:
    """Move the times of all records from a position on by a second; return the digest of the new head.

    What is not protected by the chain is made to fit. Signatures from there on are deleted if `forgets_signatures`.
    """
    with closing(sqlite3.connect(path)) as database, database:
        triggers = [
            database.execute("SELECT sql FROM sqlite_master WHERE name = ?", [one]).fetchone()[0]
            for one in TRIGGERS
        ]
        for one in TRIGGERS:
            database.execute(f"DROP TRIGGER {one}")
        rows = database.execute(
            f"SELECT {COLUMNS} FROM log WHERE position >= ? ORDER BY position",  # noqa: S608  # names of ours
            [begin],
        ).fetchall()
        before = database.execute("SELECT digest FROM log WHERE position = ?", [begin - 1])
        digest = (before.fetchone() or ("0" * 64,))[0]
        for row in rows:
            record = _moved(digest, row)
            digest = record.digest
            database.execute(
                "UPDATE log SET recorded_at_ns = ?, digest = ? WHERE position = ?",
                [record.recorded_at_ns, digest, record.position],
            )
        database.execute("UPDATE log_head SET digest = ?", [digest])
        database.execute("DELETE FROM snapshot")
        if forgets_signatures:
            database.execute("DELETE FROM log_signature WHERE position >= ?", [begin])
        for sql in triggers:
            database.execute(sql)
        return str(digest)


def _moved(digest: str, row: tuple[object, ...]) -> Record:
    values = list(row)
    assert isinstance(values[3], int)
    assert isinstance(values[8], str)
    values[3] += 1_000_000_000
    values[8] = values[8].encode()
    return seal(digest, Draft(*values))  # type: ignore[arg-type]
