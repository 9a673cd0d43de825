"""Every scenario ends as it expects, replays to the same decisions, and leaves sums that add up."""

from pathlib import Path

import pytest

from projections.queues import LEDGERS
from projections.refusals import REFUSAL_CODES
from projections.resource_names import is_quota_name
from tests.scenarios.play import FILES, name_of, play, scenario_of


@pytest.mark.parametrize("path", FILES, ids=name_of)
async def test_a_scenario_ends_as_expected_and_replays(path: Path) -> None:
    played = await play(scenario_of(path))
    assert [str(one) for one in played.result.differences] == []
    assert played.end.scenario.expect is not None
    assert played.divergence is None
    assert played.replay.head == played.end.head
    cluster = played.end.state.cluster
    ledgers = [getattr(queue, ledger) for queue in cluster.queues.values() for ledger in LEDGERS]
    assert [name for ledger in ledgers for name in ledger if is_quota_name(name)] == []
    for group in cluster.groups.values():
        assert {one.code for one in group.refusals.values()} <= REFUSAL_CODES.keys()
    played.end.state.validate()
    played.replay.state.validate()
