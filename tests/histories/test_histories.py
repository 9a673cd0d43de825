"""Logs that earlier releases wrote verify to the byte, fold whole, and are decided again as they were.

Where a later version of the deciding code decides otherwise on purpose, the file `.diverges.yaml` beside the log states where
and why, as `muster verify` reads it.
"""

from pathlib import Path

import pytest

from daemon.cli.known_divergence import known_divergence
from daemon.first_state import first_state
from daemon.log.bundle_log import BundleLog
from daemon.log.verify import verify
from replay.log_replay import Divergence, Replay

HERE = Path(__file__).parent
LOGS = sorted(HERE.rglob("*.muster"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
async def test_an_old_log_verifies_and_folds(path: Path) -> None:
    log = BundleLog(path)
    verified = await verify(log)
    assert verified.head == log.head
    replay = Replay(log.base, state=await first_state(log, {}))
    async for entries in log.read():
        for entry in entries:
            replay.fold(entry.record, entry.content)
    assert replay.head == log.head
    replay.state.settle()
    replay.state.validate()
    await log.close()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
async def test_an_old_log_is_decided_again_as_it_was(path: Path) -> None:
    log = BundleLog(path)
    replay = Replay(log.base, state=await first_state(log, {}))
    divergence: Divergence | None = None
    async for entries in log.read():
        for entry in entries:
            divergence = divergence or replay.take(entry.record, entry.content)
    divergence = divergence or replay.finish()
    known = known_divergence(path)
    assert (divergence is None) is (known is None)
    assert known is None or known.problem(divergence) == ""
    assert replay.counts.decisions > 0
    await log.close()
