"""Decide the rest of a log again, from the first divergence on: every decision that differs, and what comes of it.

A replay ends at the first divergence, since what was observed later answers the recorded decision. Behind it the rest of
the log is simulated as `muster what-if` does.
"""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.queries.replay import Replayed, replay_log
from daemon.queries.what_if import what_if
from events.errors import UsageError
from events.normalize import JsonObject
from events.record import GENESIS
from replay.decision_differences import LATE_NS, DecisionDifference, decision_differences
from replay.log_time import VIRTUAL_UNTIL_NS, LogTime
from replay.what_if_comparison import Branch
from simulator.what_if_change import NO_CHANGE, Change


class ReplayedRest(Struct, frozen=True):
    """The rest of a log, as recorded and as decided now."""

    replayed: Replayed | None
    """The replay up to the first divergence; None where the rest begins at a given moment."""
    branch: Branch
    differences: list[DecisionDifference]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs, not even the text of a decision."""
        return self.replayed is None and not self.differences


async def replay_rest(
    log: ReadableLog,
    first: int | None = None,
    *,
    policy: bytes | None = None,
    source: str = "",
    progress: Callable[[int], None] | None = None,
) -> ReplayedRest | Replayed:
    """Decide the rest of a log again under another policy, or by the present code; return the replay if nothing diverges.

    The rest begins at the first divergence, or at the position `first`. Raises UsageError where the log cannot answer.
    """
    replayed: Replayed | None = None
    option = "--from"
    if first is None:
        replayed = await replay_log(log, policy=policy, progress=progress)
        found = replayed.divergence
        if found is None:
            return replayed
        first = found.cycle or found.position
        option = "--all"
    if first - 1 <= log.base.position and log.base == GENESIS:
        raise UsageError(f"{option}: nothing of {log.place} stands before position {first}")
    branch = await what_if(
        log,
        LogTime(position=first - 1),
        lambda history, length_ns: _change(policy, source),
        progress=progress,
        option=option,
    )
    late_ns = 0 if branch.start_ns < VIRTUAL_UNTIL_NS else LATE_NS
    differences = decision_differences(
        branch.recorded, branch.changed, branch.start_ns, branch.start_ns, late_ns
    )
    return ReplayedRest(replayed, branch, differences)


def _change(policy: bytes | None, source: str) -> Change:
    if policy is None:
        return NO_CHANGE
    decoded: JsonObject = msgspec.json.decode(policy)
    return Change(policy=decoded, policy_file=source)
