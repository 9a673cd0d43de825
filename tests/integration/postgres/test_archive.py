"""An archive of a log in PostgreSQL: taken while a daemon may write, and joined."""

from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from daemon.log.bundle_log import BundleLog
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.queries.archive import archive, join
from daemon.queries.replay import replay_log
from daemon.simulation import simulate
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.daemon.log.builders import batch, pod
from tests.daemon.log.raw_database import RawDatabase

SCENARIO = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")


async def test_an_archive_is_taken_beside_a_writer_and_joined(url: str, tmp_path: Path) -> None:
    log = await open_log(url, "write")
    await simulate(parse_scenario(SCENARIO, "test"), log, with_views=True)
    other = await open_log(url, "write")
    assert isinstance(other, SqlLog)
    path = tmp_path / "1.muster"
    await archive(other, path, 50)
    await log.append(batch(log.head, [pod(1)]))  # The writer is not fenced out.
    assert await other.refresh() == log.head
    assert (other.base.position, (await replay_log(other)).divergence) == (49, None)
    raw = RawDatabase(url.replace("postgresql://", "postgresql+asyncpg://"))
    for statement in ("DELETE FROM log WHERE position = 60", "DELETE FROM objects"):
        with pytest.raises(DBAPIError, match="append only"):
            await raw.run(statement)
    await join(other, BundleLog(path))
    assert (await verify(log)).records == log.head.position
    await other.close()
    await log.close()
