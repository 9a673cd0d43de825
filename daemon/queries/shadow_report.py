"""The account of a shadow's log."""

from collections.abc import Callable

from daemon.first_state import state_at_base
from daemon.log.contract import ReadableLog
from daemon.log.shadow_mode import is_shadow
from daemon.queries.bases import past_at_base
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, position_at
from events.chain import check_link
from events.errors import UsageError
from projections.left_out import LeftOut, folded
from replay.shadow_report import ShadowAccount, ShadowReport


async def shadow_report(
    log: ReadableLog, until: At = None, progress: Callable[[int], None] | None = None
) -> ShadowReport:
    """Return the account up to a moment; by default, of the whole log.

    One that begins behind a position is accounted for from what stands there on. Raises UsageError for a log that no shadow wrote, and for an empty one.
    """
    if log.head.position <= log.base.position:
        raise UsageError(f"{log.place} holds no records")
    check_complete(log)
    if not await is_shadow(log):
        raise UsageError(f"{log.place} is not the log of a shadow (`muster run --shadow`)")
    last = await position_at(log, until, "--to")
    before = await past_at_base(log)

    async def account(left_out: LeftOut) -> ShadowReport:
        found, head = ShadowAccount(left_out), log.base
        state = await state_at_base(log)
        if state is not None:
            state.left_out = left_out
            found = ShadowAccount(state=state)
            found.begin([(one.record, one.content) for one in before])
        async for entries in log.read(after=head.position, until=last):
            for entry in entries:
                head = check_link(head, entry.record)
                found.take(entry.record, entry.content)
            if progress is not None:
                progress(head.position)
        return found.report()

    return await folded(account)
