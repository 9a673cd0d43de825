"""What a scenario only names, put into it: a policy file, the files of a trace, a workload."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from events.normalize import Json
from replay.world.document import read_document
from replay.world.openb import Notes, with_pieces
from replay.world.openb_table import shipped_table
from replay.world.openb_trace import TraceText, openb_pieces
from replay.world.scenario import Scenario
from replay.world.workload import workload_pieces

Read = Callable[[str], str]
"""The text of a file by its name as the scenario has it; raises a UsageError where there is none."""


class Completed(Struct, frozen=True):
    """A scenario with everything in it, and what a report on its trace has to say."""

    scenario: Scenario
    notes: Notes | None = None


def completed(scenario: Scenario, read: Read) -> Completed:
    """The scenario that can be run. Its own policy goes before that of its trace."""
    if scenario.policy_file is not None:
        policy = read_policy(read(scenario.policy_file), scenario.policy_file)
        scenario = msgspec.structs.replace(scenario, policy=policy)
    if scenario.workload is not None:
        pieces = workload_pieces(scenario.workload, shipped_table())
    elif (trace := scenario.trace) is not None:
        pieces = openb_pieces(
            TraceText(trace.nodes, read(trace.nodes)),
            TraceText(trace.pods, read(trace.pods)),
            order=trace.order,
            arrivals=None
            if trace.arrivals is None
            else TraceText(trace.arrivals, read(trace.arrivals)),
            period_ns=scenario.period_ns,
        )
    else:
        return Completed(scenario)
    return Completed(with_pieces(scenario, pieces), pieces.notes)


def read_policy(text: str, source: str) -> dict[str, Json]:
    """A policy file as data: YAML, of which JSON is a part. Errors name the file and the line."""
    entries = read_document(text, source).mapping("a policy")
    return {name: entry.plain() for name, entry in entries.items()}
