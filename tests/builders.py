"""What tests begin with: logs recorded from short scenarios by the real loop, in virtual time."""

from textwrap import dedent

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from simulator.scenario import parse_scenario


async def recorded(text: str) -> list[Entry]:
    """The log of a scenario, given without its first line."""
    log = MemoryLog()
    scenario = parse_scenario("scenario: a test\n" + dedent(text), "test.yaml")
    await simulate(scenario, log, with_views=False)
    return [entry async for entries in log.read() for entry in entries]
