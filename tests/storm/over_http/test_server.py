"""The simulated server under clients that do not wait."""

import asyncio

import aiohttp
import pytest

from daemon.cluster.server.simulated_api_server import running_server
from simulator.api_server.faults import Fault, FaultKind, ScriptedFaults
from simulator.scenario import parse_scenario


async def test_a_client_that_leaves_before_it_is_answered_is_no_error_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = ScriptedFaults()
    faults.add(Fault(FaultKind.DELAY, 5), "watch")
    faults.add(Fault(FaultKind.DELAY, 5), "list")
    scenario = parse_scenario("scenario: a test\n", "test.yaml")
    async with running_server(scenario, faults=faults) as server:
        for query in ({"watch": "1"}, {}):
            timeout = aiohttp.ClientTimeout(total=0.02)
            async with aiohttp.ClientSession(timeout=timeout) as client:
                with pytest.raises(TimeoutError):
                    await client.get(f"{server.url}/api/v1/pods", params=query)
        while len(server.shell.journal.entries) < 2:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
    assert [one.message for one in caplog.records] == []
