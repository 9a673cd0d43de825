"""The incident of a fault is found from the newest snapshot before it, with the same answer as from the first record."""

import pytest

from daemon.fold import fold
from daemon.log.code_key import code_key
from daemon.log.snapshots import payload_of
from daemon.queries.incident import FoundIncidents, incidents
from daemon.simulation import simulate
from replay.incident_selection import parse_fault
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.daemon.counting_log import CountingLog

NODE_FAULT = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")
FAULT = parse_fault("n2@49")


async def log_with_snapshot(position: int) -> CountingLog:
    """Return a log of two faults with a snapshot at a position."""
    log = CountingLog()
    await simulate(parse_scenario(NODE_FAULT, "node_fault.yaml"), log, with_views=False)
    if position:
        digest = ""
        async for entries in log.read(position - 1, position):
            digest = entries[0].record.digest
        payload = payload_of(await fold(log, position))
        await log.save_snapshot(position, digest, code_key(), payload)
    return log


async def asked(log: CountingLog) -> FoundIncidents:
    """Ask for the fault, and count from 0 what is read for it."""
    log.count = 0
    return await incidents(log, FAULT)


@pytest.mark.parametrize(
    ("position", "is_used"),
    [(48, True), (20, True), (46, True), (0, False)],
    ids=["just before", "long before", "while another fault stands", "none"],
)
async def test_the_answer_from_a_snapshot_is_that_from_the_first_record(
    position: int, is_used: bool
) -> None:
    whole = await asked(await log_with_snapshot(0))
    log = await log_with_snapshot(position)
    assert await asked(log) == whole
    assert len(whole.incidents) == 1
    assert (log.count < whole.position) == is_used


async def test_a_snapshot_in_the_middle_of_the_cause_is_not_used() -> None:
    log = CountingLog()
    text = NODE_FAULT.replace("at: 15s", "at: 11s").replace("at: 100s", "at: 12s")
    await simulate(parse_scenario(text, "node_fault.yaml"), log, with_views=False)
    found = await incidents(log, parse_fault("n2"))
    (one,) = found.incidents
    position = one.faults[-1].position
    assert len(one.faults) == 2
    digest = ""
    async for entries in log.read(position - 2, position - 1):
        digest = entries[0].record.digest
    payload = payload_of(await fold(log, position - 1))
    fault = parse_fault(f"n2@{position}")
    whole = await incidents(log, fault)
    await log.save_snapshot(position - 1, digest, code_key(), payload)
    log.count = 0
    assert await incidents(log, fault) == whole
    assert log.count > whole.position
