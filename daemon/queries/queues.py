"""Queues at a position of a log: quota, use, and waiting pod groups in the order in which they are served."""

from difflib import get_close_matches
from typing import Final

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import state_at
from daemon.queries.moments import At
from events.errors import UsageError
from projections.state import State
from replay.queue_answer import QueueAnswer, queue_answer, queue_answers

NEAR_MAX: Final = 5
"""Queues that the error for an unknown name lists."""


async def all_queues(log: ReadableLog, at: At = None) -> list[QueueAnswer]:
    """Return all queues, by name, at a moment of the log (None: its end)."""
    return queue_answers((await state_at(log, at)).cluster)


async def one_queue(log: ReadableLog, name: str, at: At = None) -> tuple[QueueAnswer, int]:
    """Return one queue and the position. Raises UsageError where there is no queue of that name."""
    state = await state_at(log, at)
    found = state.cluster.queues.get(name)
    if found is None:
        raise UsageError(
            f"there is no queue {name!r} at position {state.position}: {_known_names(state, name)}"
        )
    return queue_answer(state.cluster, found), state.position


def _known_names(state: State, name: str) -> str:
    """Return the number of queues, and all names of a few, else those nearest to a name."""
    names = sorted(state.cluster.queues)
    counted_names = f"{len(names):,} queue" + ("" if len(names) == 1 else "s")
    if len(names) <= NEAR_MAX:
        return f"of {counted_names}: {', '.join(names)}" if names else "there are none"
    near = get_close_matches(name, names, NEAR_MAX)
    if not near:
        return f"none of {counted_names} has a name like it"
    return f"of {counted_names}, near it: {', '.join(near)}"
