"""What a trace or a workload adds to a scenario."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from events.normalize import Json
from simulator.manifest import LocatedManifest
from simulator.scenario import Scenario, Step


class WorkloadSummary(Struct, frozen=True):
    """Figures about a workload that the report of a run shows."""

    nodes: int
    pods: int
    card_pods: int
    shares: int
    """Pods that asked for a share of a card and count as a whole one."""
    cards: dict[str, int]
    """Cards per model in the cluster."""
    cards_asked: int
    origin: str = ""
    """Where the pods come from, if not from the trace."""


class GeneratedWorkload(Struct, frozen=True):
    """Objects, steps, and the policy for a scenario that names none."""

    cluster: tuple[LocatedManifest, ...]
    steps: tuple[Step, ...]
    policy: dict[str, Json]
    notes: WorkloadSummary


def with_workload(scenario: Scenario, workload: GeneratedWorkload) -> Scenario:
    """Return the scenario with its workload; the scenario's own steps come first at equal times."""
    steps: Iterable[Step] = sorted((*scenario.steps, *workload.steps), key=lambda step: step.at_ns)
    has_policy = scenario.policy is not None or scenario.policy_file is not None
    return msgspec.structs.replace(
        scenario,
        policy=scenario.policy if has_policy else workload.policy,
        cluster=(*scenario.cluster, *workload.cluster),
        steps=tuple(steps),
    )
