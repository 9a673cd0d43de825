"""Explain where a pod, pod group, node or queue is: fold a log up to a moment, and decide again there."""

from collections.abc import Callable

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import check_complete
from events.chain import check_link
from projections.left_out import folded
from replay.log_time import HEAD, LogTime
from replay.why import Inquiry
from replay.why_answer import Answer


async def why(
    log: ReadableLog,
    subject: str,
    moment: LogTime = HEAD,
    *,
    with_every_node: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Answer:
    """Return the chain of causes for a subject at a moment. Raises UsageError where the log cannot answer.

    `progress` is called with positions as they are read.
    """
    check_complete(log)
    return await folded(
        lambda left_out: _ask(
            log,
            Inquiry(subject, moment, left_out=left_out, with_every_node=with_every_node),
            progress,
        )
    )


async def _ask(
    log: ReadableLog, inquiry: Inquiry, progress: Callable[[int], None] | None
) -> Answer:
    head = log.base
    async for entries in log.read():
        for entry in entries:
            head = check_link(head, entry.record)
            if not inquiry.take(entry.record, entry.content):
                return inquiry.answer()
        if progress is not None:
            progress(entries[-1].record.position)
    return inquiry.answer()
