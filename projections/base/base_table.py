"""State at the end of a batch as records that say what stands, and State folded from such records.

The records say what was observed and decided; rows and indexes are computed from them by the release that reads them. So a log
that begins with such records can be read by each later release, as any record.
"""

from collections.abc import Iterator
from typing import Final

from events.errors import NewerRecordError
from events.standing.kinds import decode_standing
from events.upcast import upcast
from projections.base.contributor import BaseFold, Contributor, Piece, Stand
from projections.base.log import LOG
from projections.base.objects import OBJECTS, OTHERS
from projections.base.pod_groups import POD_GROUPS, WAITS
from projections.base.pods import COMMITMENTS, PODS
from projections.base.queues import QUEUES
from projections.base.work import REFUSED, TIMES, WORK
from projections.feature import Features, FeatureTable
from projections.internal_error import OnError, ignore
from projections.state import State

CONTRIBUTORS: Final = (
    LOG,
    OBJECTS,
    QUEUES,
    POD_GROUPS,
    PODS,
    OTHERS,
    COMMITMENTS,
    TIMES,
    WAITS,
    REFUSED,
    WORK,
)
"""In the order in which their records stand in a base: policy and objects before pod groups, these before their pods."""


def contributors_with(features: Features) -> tuple[Contributor, ...]:
    """Return what writes and reads a base, with what features bring: their tables come last."""
    return (*CONTRIBUTORS, *features.of(Contributor))


def pieces_of(state: State) -> Iterator[Piece]:
    """Yield the records of what stands, piece by piece. State must be settled, and not change before the last is made."""
    assert state.is_settled
    for one in contributors_with(state.cluster.features.table):
        yield from one.pieces(state)


class BaseReader:
    """Folds a base, record by record, in their order."""

    def __init__(self, position: int, features: FeatureTable, on_error: OnError = ignore) -> None:
        self._fold = BaseFold(position, features, on_error)
        self._by_kind = {
            kind.kind: (kind, one) for one in contributors_with(features) for kind in one.kinds
        }

    def take(
        self, kind: str, subject: str, body: bytes, digest: str | None, content: bytes | None
    ) -> None:
        """Take a record, with its object. Raises UsageError if the object was redacted."""
        kind, body = upcast(kind, body)
        found = self._by_kind.get(kind)
        if found is None:
            raise NewerRecordError(
                f"kind {kind} is not known to this release; the base was written by a newer one"
            )
        event, contributor = decode_standing(found[0], body), found[1]
        table = contributor.table
        if table is not None and self._fold.state.cluster.tables.find(table) is None:
            return
        contributor.apply(self._fold, Stand(subject, event, digest), content)

    def finish(self) -> State:
        """Return the State."""
        return self._fold.finish()
