"""The vendor's figure of SuperPoDs with 18 to 48 free nodes, walked by nine jobs, in both orders."""

from pathlib import Path

import pytest

from tests.scenarios.play import play, scenario_of

HERE = Path(__file__).parent


@pytest.mark.parametrize("order", ["figure", "matrix"])
async def test_jobs_take_blocks_in_the_order_of_the_policy(order: str) -> None:
    played = await play(scenario_of(HERE / f"{order}.yaml"))
    assert [str(one) for one in played.result.differences] == []
    assert played.divergence is None
    assert played.replay.head == played.end.head
