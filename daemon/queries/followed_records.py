"""Records as they are folded, each with what it concerns."""

from collections.abc import AsyncIterator

from msgspec import Struct

from daemon.log.entry import Entry
from daemon.queries.history import History
from events.codec import event_of
from events.record import Record
from events.union import Event
from projections.left_out import ApplyError
from projections.state import State
from replay.record_scope import Scope, ScopeFollower, nodes_named


class FollowedRecord(Struct, frozen=True):
    """A record that was applied to State."""

    entry: Entry
    event: Event
    scope: Scope
    state: State
    """State behind the record; the next record changes it."""

    @property
    def record(self) -> Record:
        """Return the record without its object."""
        return self.entry.record


async def followed(
    chunks: AsyncIterator[list[Entry]], history: History, before: State
) -> AsyncIterator[FollowedRecord]:
    """Fold records into the State before them. A record that State cannot apply concerns only what it names, and the fold goes
    on behind it."""
    follower = ScopeFollower(before)
    async for entries in chunks:
        for entry in entries:
            record, event = entry.record, event_of(entry.record)
            try:
                scope = follower.apply(record, event, entry.content)
            except ApplyError:
                follower = ScopeFollower(await history.facts_at_position(record.position))
                scope = Scope(nodes=tuple(nodes_named(event)))
            yield FollowedRecord(entry, event, scope, follower.state)
