"""Read what a scenario refers to: a policy file, the files of a trace, a workload."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from events.policy_document import read_policy_document
from events.yaml_document import NODES_MAX
from simulator import openb_table, spot_gpu_table
from simulator.fault_timeline import fault_steps
from simulator.generated_workload import GeneratedWorkload, WorkloadSummary, with_workload
from simulator.openb_trace import TraceText, openb_trace_workload
from simulator.openb_workload import openb_workload
from simulator.scenario import Scenario, WorkloadSource
from simulator.spot_gpu import spot_gpu_workload

Read = Callable[[str], str]
"""Returns the text of a file that the scenario names; raises UsageError if there is none."""


class LoadedScenario(Struct, frozen=True):
    """A complete scenario, and figures of its workload for the report."""

    scenario: Scenario
    notes: WorkloadSummary | None = None


def load_sources(scenario: Scenario, read: Read, nodes_max: int = NODES_MAX) -> LoadedScenario:
    """Return the scenario with everything that it refers to. Its own policy precedes that of its trace."""
    if scenario.policy_file is not None:
        policy = read_policy_document(read(scenario.policy_file), scenario.policy_file, nodes_max)
        scenario = msgspec.structs.replace(scenario, policy=policy)
    if scenario.workload is not None:
        workload = generate_workload(scenario.workload)
    elif (trace := scenario.trace) is not None:
        workload = openb_trace_workload(
            TraceText(trace.nodes, read(trace.nodes)),
            TraceText(trace.pods, read(trace.pods)),
            order=trace.order,
            arrivals=None
            if trace.arrivals is None
            else TraceText(trace.arrivals, read(trace.arrivals)),
            period_ns=scenario.period_ns,
            with_shares=trace.shares == "thousandths",
        )
    else:
        return LoadedScenario(_with_faults(scenario))
    return LoadedScenario(_with_faults(with_workload(scenario, workload)), workload.notes)


def _with_faults(scenario: Scenario) -> Scenario:
    """Return the scenario with the faults that are drawn; its own steps come first at equal times."""
    if scenario.faults is None or scenario.until_ns is None:
        return scenario
    faults = fault_steps(scenario.faults, scenario.cluster, scenario.until_ns)
    steps = sorted((*scenario.steps, *faults), key=lambda step: step.at_ns)
    return msgspec.structs.replace(scenario, steps=tuple(steps))


def generate_workload(source: WorkloadSource) -> GeneratedWorkload:
    """Generate a workload from the counts of this release."""
    if source.name == "spot-gpu":
        return spot_gpu_workload(source, spot_gpu_table.shipped_table())
    return openb_workload(source, openb_table.shipped_table())
