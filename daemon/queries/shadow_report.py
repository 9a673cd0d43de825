"""The account of a shadow's log."""

from collections.abc import Callable

from daemon.log.contract import ReadableLog
from daemon.log.shadow_mode import is_shadow
from daemon.queries.log_state import check_whole
from daemon.queries.moments import At, position_at
from events.chain import check_link
from events.errors import UsageError
from projections.left_out import LeftOut, folded
from replay.shadow_report import ShadowAccount, ShadowReport


async def shadow_report(
    log: ReadableLog, until: At = None, progress: Callable[[int], None] | None = None
) -> ShadowReport:
    """Return the account up to a moment; by default, of the whole log.

    Raises UsageError for a log that no shadow wrote, for an empty one, and for one without its first record.
    """
    if log.head.position <= log.base.position:
        raise UsageError(f"{log.place} holds no records")
    check_whole(log)
    if not await is_shadow(log):
        raise UsageError(f"{log.place} is not the log of a shadow (`muster run --shadow`)")
    last = await position_at(log, until, "--to")

    async def account(left_out: LeftOut) -> ShadowReport:
        found, head = ShadowAccount(left_out), log.base
        async for entries in log.read(after=head.position, until=last):
            for entry in entries:
                head = check_link(head, entry.record)
                found.take(entry.record, entry.content)
            if progress is not None:
                progress(head.position)
        return found.report()

    return await folded(account)
