"""The parts of a base: each writes what stands of some tables of State, and takes it back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from events.standing.standing import Standing
from projections.config_errors import Pairs
from projections.deferred_work import DeferredWork
from projections.feature import FeatureTable
from projections.internal_error import OnError
from projections.pods import Charge
from projections.state import State
from projections.wakeup_events import WakeupEvents


class Stand(Struct, frozen=True, gc=False):
    """One record of a base, before it is part of a log."""

    subject: str
    event: Standing
    object: str | None = None
    """Digest of the object that stands, if any."""


Contents: TypeAlias = Mapping[str, bytes]
"""Digest to the object."""


class Piece(Struct, frozen=True):
    """Some records of a base, which are made once the objects are at hand that they refer to."""

    digests: Sequence[str]
    stands: Callable[[Contents], Iterator[Stand]]


class BaseFold:
    """State that is being folded from a base. What does not follow from the rows is set at the end."""

    def __init__(self, position: int, features: FeatureTable, on_error: OnError) -> None:
        self.state = State(features)
        self.state.begin_at(position)
        self.state.cluster.position = position
        self.position = position
        self.on_error = on_error
        self.errors: dict[str, Pairs] = {}
        self.reported_errors: dict[str, Pairs] = {}
        self.wakeups = WakeupEvents()
        self.deferred = DeferredWork()
        self.outdated: dict[str, None] = {}
        self._charges: dict[Charge | None, Charge | None] = {}

    def shared(self, charge: Charge | None) -> Charge | None:
        """Return a charge, one for all equal ones."""
        return self._charges.setdefault(charge, charge)

    def finish(self) -> State:
        """Return the State, with all that follows from its rows. Nothing is woken but what stands so."""
        state, cluster = self.state, self.state.cluster
        cluster.config_errors.current = self.errors
        cluster.config_errors.reported = self.reported_errors
        cluster.rebuild_indexes()
        cluster.inter_pod_affinity.classes.free()
        cluster.inter_pod_affinity.outdated = self.outdated
        cluster.clear_changed_rows()
        cluster.wakeup_events, state.deferred_work = self.wakeups, self.deferred
        cluster.pending_status.queues = dict.fromkeys(cluster.queues, self.position)
        return state


class Contributor(Struct, frozen=True, kw_only=True):
    """What writes and reads some kinds of records of a base."""

    kinds: tuple[type[Standing], ...]
    pieces: Callable[[State], Iterator[Piece]]
    """Yields what stands, in the order in which it is read."""
    apply: Callable[[BaseFold, Stand, bytes | None], None]
    """Takes a record, with its object if it has one."""
    table: type[Struct] | None = None
    """The table that the records fill, if the policy has to name what brings it. What a base says of a table that does not exist
    is dropped, as the table is when a later policy no longer names it: an earlier release may have kept it under more policies."""


def plain(stands: Callable[[State], Iterator[Stand]]) -> Callable[[State], Iterator[Piece]]:
    """Return the pieces of records that are made without reading objects."""

    def pieces(state: State) -> Iterator[Piece]:
        yield Piece((), lambda _: stands(state))

    return pieces
