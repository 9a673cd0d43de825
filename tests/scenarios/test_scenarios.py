"""Every scenario ends as it expects, replays to the same decisions, and leaves sums that add up."""

from pathlib import Path
from typing import Final

import pytest

from projections.queues import LEDGERS
from projections.refusals import REFUSAL_CODES
from projections.resource_names import is_quota_name
from tests.recorded_decisions import recorded
from tests.scenarios.play import FILES, name_of, play, scenario_of

RECORDED_DECISIONS: Final = recorded()
HOW_TO_RECORD: Final = (
    "other decisions than recorded: tests/recorded_decisions.py says how to compare and record them"
)


@pytest.mark.parametrize("path", FILES, ids=name_of)
async def test_a_scenario_ends_as_expected_and_replays(path: Path) -> None:
    played = await play(scenario_of(path))
    assert [str(one) for one in played.result.differences] == []
    assert played.end.scenario.expect is not None
    assert played.divergence is None
    assert played.replay.head == played.end.head
    assert played.decided.line == RECORDED_DECISIONS.get(name_of(path)), HOW_TO_RECORD
    cluster = played.end.state.cluster
    ledgers = [getattr(queue, ledger) for queue in cluster.queues.values() for ledger in LEDGERS]
    assert [name for ledger in ledgers for name in ledger if is_quota_name(name)] == []
    for group in cluster.groups.values():
        assert {one.code for one in group.decided.refusals.values()} <= REFUSAL_CODES.keys()
    played.end.state.validate()
    played.replay.state.validate()
