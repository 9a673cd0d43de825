"""A log in a database that begins behind a position, with the facts there."""

from pathlib import Path

import pytest

from daemon.log.bundle_log import BundleLog
from daemon.log.copying import copy_whole
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.queries.bundles import export_stretch
from daemon.queries.history import History
from daemon.queries.replay import replay_log
from daemon.simulation import simulate
from daemon.view_rebuild import write_views_anew
from projections import snapshot
from simulator.scenario import parse_scenario
from tests.checkout import ROOT

SCENARIO = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")


@pytest.fixture
async def source() -> MemoryLog:
    """A log of 98 records: a gang whose node stops twice."""
    log = MemoryLog()
    await simulate(parse_scenario(SCENARIO, "test"), log, with_views=False)
    return log


async def test_a_stretch_is_imported_with_its_facts(source: MemoryLog, tmp_path: Path) -> None:
    await export_stretch(source, tmp_path / "a.muster", first=50)
    target = await open_log(str(tmp_path / "a.db"), "write")
    await copy_whole(BundleLog(tmp_path / "a.muster"), target)
    await write_views_anew(target)
    await target.close()
    log = await open_log(str(tmp_path / "a.db"))
    assert isinstance(log, SqlLog)
    assert (log.base.position > 0, log.head) == (True, source.head)
    assert (await verify(log)).records == 98 - log.base.position
    assert (await replay_log(log)).divergence is None
    there = snapshot.take(await History(log).facts_at_position(98))
    assert there == snapshot.take(await History(source).facts_at_position(98))
    assert len(await log.view_rows("pod_group")) == 1
    await log.close()
