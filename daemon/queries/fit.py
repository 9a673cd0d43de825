"""Would manifests be placed: they are added to the State that a log leads to, and cycles are held on it."""

from collections.abc import Sequence

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import state_at
from events.daemon import PolicyChanged
from simulator.fit import Fit, FitSimulation
from simulator.manifest import LocatedManifest


async def fit(
    log: ReadableLog,
    manifests: Sequence[LocatedManifest],
    *,
    policy: PolicyChanged | None = None,
    at: int | None = None,
) -> Fit:
    """Return what would become of the manifests at a position of the log (None: its end).

    With `policy`, decide by it instead of the log's. Raises UsageError where nothing asks for a node.
    """
    return FitSimulation(await state_at(log, at), manifests, policy).answer()
