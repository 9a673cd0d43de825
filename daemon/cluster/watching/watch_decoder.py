"""One watch, from its opening to its end: which of its events are news (rules K3.3 to K3.8, K3.14).

Nothing here waits. Bytes go in; watch messages come out, and what ended the watch.
"""

from collections.abc import Collection

from msgspec import Struct, field

from daemon.cluster.watching.line_splitter import LineSplitter, LineTooLongError
from daemon.cluster.watching.listing import revision_of
from daemon.cluster.watching.watch_event import (
    Bookmark,
    Change,
    Failure,
    UnreadableEventError,
    read_event,
)
from events.long_fields import without_long_fields
from events.messages import (
    DeletionSeen,
    ListCompleted,
    ListStarted,
    ObjectRevision,
    ObjectSeen,
    WatchMessage,
)
from events.revision import is_malformed, is_newer, is_older
from events.watch import WatchOpened


class Reading(Struct):
    """What a chunk said. `end` is why no more of this watch is to be read."""

    messages: list[WatchMessage] = field(default_factory=list)
    end: Failure | UnreadableEventError | LineTooLongError | None = None
    is_alive: bool = False
    """Whether there was an event or a bookmark, and not only bytes (K3.12)."""
    size: int = 0
    """Bytes of the objects shown, without long fields."""
    line_bytes: int = 0
    """Bytes of the objects shown, as they came."""
    dropped: int = 0
    """Duplicates and regressions (K3.14)."""
    is_doubtful: bool = False
    """Whether something was older than what the watch was opened after."""
    malformed: int = 0
    """Revisions that cannot be compared (K1.2)."""


class WatchStream:
    """A watch that was opened after `revision`; or, with none, one that begins with all there is.

    Everything up to the opening revision, or up to the end of that beginning, has been handed over before, so
    what is not newer is a duplicate. Versions by UID are kept from there on only: a watch lives for minutes, a
    cluster longer.
    """

    def __init__(self, resource: str, revision: str = "") -> None:
        self.revision = revision
        """Everything up to here has been shown; empty until a streamed list is whole."""
        self.newest: ObjectRevision | None = None
        """The object of the last event shown."""
        self.count = 0
        """Events shown."""
        self.is_bookmarked = False
        """Whether a bookmark has told of progress that no event tells of."""
        self._resource = resource
        self._floor = revision
        self._versions: dict[str, str] = {}
        self._initial: dict[str, bytes] | None = None if revision else {}
        self._lines = LineSplitter()

    @property
    def is_between_lines(self) -> bool:
        """Whether a watch that ends here was cut in the middle of nothing."""
        return self._lines.is_between

    def read(self, chunk: bytes) -> Reading:
        """What the lines say that this chunk ends."""
        reading = Reading()
        try:
            for line in self._lines.feed(chunk):
                event = read_event(line)
                if isinstance(event, Failure):
                    reading.end = event
                    break
                reading.is_alive = True
                if isinstance(event, Bookmark):
                    self._mark(event, reading)
                else:
                    self._add_change(event, reading)
        except (UnreadableEventError, LineTooLongError) as error:
            reading.end = error
        return reading

    def _add_change(self, change: Change, reading: Reading) -> None:
        """An event, unless it is no newer than what was shown of its object, or of all when opening."""
        metadata = change.metadata
        uid, revision = metadata.uid or metadata.name, metadata.resourceVersion
        reading.malformed += is_malformed(revision)
        if not is_newer(revision, self._versions.get(uid, self._floor)):
            reading.dropped += 1
            reading.is_doubtful |= is_older(revision, self._floor)
            return
        self._versions[uid] = revision
        if self._initial is not None:
            self._add_initial(change, self._initial)
            return
        self.count += 1
        self._advance(revision)
        is_gone = change.type == "DELETED"
        self.newest = revision_of(change.metadata, is_gone=is_gone)
        # Now, so that what waits to be taken in is small.
        raw = without_long_fields(change.raw)
        reading.messages.append(DeletionSeen(raw) if is_gone else ObjectSeen(raw))
        reading.size += len(raw)
        reading.line_bytes += len(change.raw)

    def _add_initial(self, change: Change, initial: dict[str, bytes]) -> None:
        """An object of a streamed list, which may change while it is streamed (K3.13)."""
        uid = change.metadata.uid or change.metadata.name
        if change.type == "DELETED":
            initial.pop(uid, None)
        else:
            initial[uid] = without_long_fields(change.raw)

    def _mark(self, bookmark: Bookmark, reading: Reading) -> None:
        reading.malformed += is_malformed(bookmark.resource_version)
        if self._initial is None:
            reading.is_doubtful |= is_older(bookmark.resource_version, self._floor)
            self.is_bookmarked |= self._advance(bookmark.resource_version)
        elif bookmark.is_initial_end:
            raws = self._initial.values()
            reading.messages += whole_list(self._resource, bookmark.resource_version, raws)
            reading.messages.append(
                WatchOpened(resource=self._resource, resource_version=bookmark.resource_version)
            )
            reading.size += sum(map(len, raws))
            self._initial = None
            self.revision = self._floor = bookmark.resource_version

    def _advance(self, revision: str) -> bool:
        is_further = is_newer(revision, self.revision)
        if is_further:
            self.revision = revision
        return is_further


def whole_list(resource: str, revision: str, raws: Collection[bytes]) -> list[WatchMessage]:
    """All objects of a kind, to be handed over in one piece (K2.5)."""
    return [
        ListStarted(resource),
        *map(ObjectSeen, raws),
        ListCompleted(resource, revision, len(raws)),
    ]
