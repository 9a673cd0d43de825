"""Plays a scenario with the daemon's own loop and a log in memory, and tells what came of it."""

from pathlib import Path

from msgspec import Struct

from daemon.log.memory import MemoryLog
from daemon.simulation import SimulationRun, simulate
from events.codec import event_of
from replay.log_replay import Divergence, Replay
from replay.run_report import RunReport
from simulator.result_document import DecisionEntries, ScenarioResult, scenario_result
from simulator.scenario import Scenario, parse_scenario
from tests.scenarios.decided import Decisions

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.yaml"))


class Played(Struct):
    """A scenario that was played: its document, its end, and what a replay of its log found."""

    result: ScenarioResult
    end: SimulationRun
    replay: Replay
    divergence: Divergence | None
    decided: Decisions


def name_of(path: Path) -> str:
    """`folder/the_rule`"""
    return path.relative_to(HERE).with_suffix("").as_posix()


def scenario_of(path: Path) -> Scenario:
    """The scenario in a file."""
    return parse_scenario(path.read_text(encoding="utf-8"), path.name)


async def play(scenario: Scenario) -> Played:
    """Play a scenario once, and its log again."""
    log = MemoryLog()
    end = await simulate(scenario, log, with_views=False)
    decisions, account, replay = DecisionEntries(), RunReport(), Replay()
    decided = Decisions()
    divergence: Divergence | None = None
    async for entries in log.read():
        for entry in entries:
            event = event_of(entry.record)
            decisions.add(entry.record, event)
            decided.add(entry.record, event)
            account.add(entry.record, event, entry.content)
            divergence = divergence or replay.take(entry.record, entry.content)
    found = scenario_result(
        scenario=end.scenario,
        simulated=end.cluster,
        head=end.head,
        decisions=decisions,
        state=end.state,
        account=account.document(end.cluster.now_ns),
    )
    return Played(found, end, replay, divergence or replay.finish(), decided)
