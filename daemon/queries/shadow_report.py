"""The account of a shadow's log."""

from collections.abc import Callable

from daemon.fold import restored
from daemon.log.contract import ReadableLog
from daemon.log.shadow_mode import is_shadow
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, position_at
from daemon.queries.standing_records import facts_at_base, records_at_base
from events.chain import check_link
from events.errors import UsageError
from projections.left_out import LeftOut, folded
from replay.shadow_report import ShadowAccount, ShadowReport


async def shadow_report(
    log: ReadableLog, until: At = None, progress: Callable[[int], None] | None = None
) -> ShadowReport:
    """Return the account up to a moment; by default, of the whole log.

    One that begins with facts is accounted for from these on. Raises UsageError for a log that no shadow wrote, and for an empty one.
    """
    if log.head.position <= log.base.position:
        raise UsageError(f"{log.place} holds no records")
    check_complete(log)
    if not await is_shadow(log):
        raise UsageError(f"{log.place} is not the log of a shadow (`muster run --shadow`)")
    last = await position_at(log, until, "--to")
    facts, before = await facts_at_base(log), await records_at_base(log)

    async def account(left_out: LeftOut) -> ShadowReport:
        found, head = ShadowAccount(left_out), log.base
        if facts is not None:
            state = restored(facts)
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
