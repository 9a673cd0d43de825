"""Every scenario ends as it expects, replays to the same decisions, and leaves sums that add up."""

from pathlib import Path

import pytest

from tests.scenarios.play import FILES, name_of, play, scenario_of


@pytest.mark.parametrize("path", FILES, ids=name_of)
async def test_a_scenario_ends_as_expected_and_replays(path: Path) -> None:
    played = await play(scenario_of(path))
    assert [str(one) for one in played.result.differences] == []
    assert played.end.scenario.expect is not None
    assert played.divergence is None
    assert played.replay.head == played.end.head
    played.end.state.validate()
    played.replay.state.validate()
