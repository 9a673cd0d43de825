"""Would manifests be placed: they are added to the State of a log or a scenario, and cycles are held on it."""

from collections.abc import Callable, Sequence

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import state_at
from daemon.queries.moments import At
from events.daemon import PolicyChanged
from simulator.fit import Fit, FitSimulation, state_at_start
from simulator.manifest import LocatedManifest
from simulator.scenario import Scenario


async def fit(
    log: ReadableLog,
    manifests: Sequence[LocatedManifest],
    *,
    policy: PolicyChanged | None = None,
    at: At = None,
    progress: Callable[[int], None] | None = None,
) -> Fit:
    """Return what would become of the manifests at a moment of the log (None: its end).

    With `policy`, decide by it instead of the log's. Raises UsageError where nothing asks for a node.
    `progress` is called with positions of the log as they are read.
    """
    return FitSimulation(await state_at(log, at, progress), manifests, policy).answer()


def fit_scenario(
    scenario: Scenario,
    manifests: Sequence[LocatedManifest],
    policy: PolicyChanged,
    scheduler_names: tuple[str, ...],
) -> Fit:
    """Return what would become of the manifests on the cluster of a scenario at time 0, before its first cycle."""
    return FitSimulation(state_at_start(scenario, policy, scheduler_names), manifests).answer()
