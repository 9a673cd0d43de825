"""Watches: events after a revision, bookmarks, and how a watch ends (rules of K3)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from events.duration import SECOND
from simulator.api_server.core_events import represented
from simulator.api_server.http_message import StatusError
from simulator.api_server.list_selector import Selector
from simulator.api_server.listing import revision_of
from simulator.api_server.served_resources import ServedResource
from simulator.api_server.status_errors import FieldError, bad_request, expired, invalid_options
from simulator.api_server.table import TablePrinter
from simulator.api_server.version_store import Version, VersionStore
from simulator.manifest_fields import changed

TIMEOUT_SECONDS: Final = 1800
"""The timeout of a watch that names none."""
BOOKMARK_NS: Final = 60 * SECOND
LAST_BOOKMARK_NS: Final = 2 * SECOND
"""How long before its end a watch sends a last bookmark."""
EVENTS_MAX: Final = 500
"""The most events that are returned at a time."""

_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}


class WatchOptions:
    """The options of a watch. Raises StatusError for invalid ones."""

    def __init__(self, query: Mapping[str, str], *, has_watch_list: bool) -> None:
        initial = query.get("sendInitialEvents", "")
        match = query.get("resourceVersionMatch", "")
        _check(initial, match, has_watch_list=has_watch_list)
        self.is_watch_list = initial in ("true", "1")
        try:
            self.revision = revision_of(query.get("resourceVersion", "")) or 0
        except StatusError as error:
            text = error.message.removeprefix("invalid resource version: ")
            raise StatusError(500, "", text) from None
        self.has_bookmarks = query.get("allowWatchBookmarks", "") in ("true", "1")
        seconds = query.get("timeoutSeconds", "") or str(TIMEOUT_SECONDS)
        if not seconds.isdecimal():
            raise bad_request(f'strconv.ParseInt: parsing "{seconds}": invalid syntax')
        self.timeout_ns = (int(seconds) or TIMEOUT_SECONDS) * SECOND


class Watch:
    """An open watch, which is polled for bytes. It never waits; `next_ns` says when to poll again."""

    def __init__(
        self,
        versions: VersionStore,
        served: ServedResource,
        selector: Selector,
        options: WatchOptions,
        now_ns: int,
        printer: TablePrinter | None = None,
    ) -> None:
        self._versions = versions
        self.served = served
        self._selector = selector
        self._options = options
        self._printer = printer
        """None: objects are sent as they are, else as Tables."""
        self._has_columns = False
        """Whether an event had the column definitions; later ones leave them out."""
        self._bookmark_ns = now_ns + BOOKMARK_NS
        self._ends_ns = now_ns + options.timeout_ns
        self._last_bookmark_ns: int | None = max(now_ns, self._ends_ns - LAST_BOOKMARK_NS)
        self._queue: list[bytes] = []
        self.revision = options.revision
        """Every change up to this revision was returned."""
        self.events = 0
        """Events returned so far, without bookmarks."""
        self.is_over = False
        self.expired: StatusError | None = None
        """Why the watch could not continue from its revision."""
        if options.revision == 0 or options.is_watch_list:
            self._begin()
        elif options.revision < versions.watch_floor(served.resource):
            self._expire()

    @property
    def next_ns(self) -> int:
        """When something is due even if nothing changes."""
        times = [self._ends_ns]
        if self._options.has_bookmarks:
            times.append(self._bookmark_ns)
            if self._last_bookmark_ns is not None:
                times.append(self._last_bookmark_ns)
        return min(times)

    def end(self) -> None:
        """End the watch: its resource is not served any more, or the server stops."""
        self.is_over = True

    def take(self, now_ns: int) -> bytes:
        """Return the events that are due, at most EVENTS_MAX; empty if there are none."""
        if self._queue:
            lines, self._queue = self._queue[:EVENTS_MAX], self._queue[EVENTS_MAX:]
            return b"".join(lines)
        if self.is_over:
            return b""
        if (
            0 < self.revision < self._versions.watch_floor(self.served.resource)
            and self._has_missed()
        ):
            self._expire()
            return self.take(now_ns)
        lines = self._news()
        if not lines:
            lines = self._bookmarks(now_ns)
            if now_ns >= self._ends_ns:
                self.is_over = True
        return b"".join(lines)

    def _news(self) -> list[bytes]:
        lines = []
        for version in self._versions.since(self.served.resource, self.revision)[:EVENTS_MAX]:
            if line := self._line(version):
                lines.append(line)
                self.events += 1
            self.revision = version.revision
        return lines

    def _has_missed(self) -> bool:
        """Return False for a watch that has returned every change, however many are dropped."""
        return self._versions.missed(self.served.resource, self.revision)

    def _line(self, version: Version) -> bytes:
        version = represented(self.served, version)
        if self._selector.is_whole:
            if version.is_gone:
                return self._event(b"DELETED", version)
            is_new = version.before is None or version.before.is_gone
            return self._event(b"ADDED" if is_new else b"MODIFIED", version)
        before, matches = version.before, self._selector.matches
        was = before is not None and not before.is_gone and matches(before.manifest)
        if not version.is_gone and matches(version.manifest):
            return self._event(b"MODIFIED" if was else b"ADDED", version)
        return self._event(b"DELETED", _last_seen(version)) if was else b""

    def _event(self, what: bytes, version: Version) -> bytes:
        if self._printer is None:
            return _event(what, version.raw)
        table = self._printer.of_object(version.manifest, has_columns=not self._has_columns)
        self._has_columns = True
        return _event(what, table)

    def _begin(self) -> None:
        """Queue all current objects as ADDED events."""
        for version in self._versions.now(self.served.resource):
            shown = represented(self.served, version)
            if self._selector.matches(shown.manifest):
                self._queue.append(self._event(b"ADDED", shown))
        self.events += len(self._queue)
        self.revision = max(self._versions.revision, self._options.revision)
        if self._options.is_watch_list and self._options.has_bookmarks:
            self._queue.append(self._bookmark(_INITIAL_END))

    def _expire(self) -> None:
        floor = self._versions.watch_floor(self.served.resource)
        self.expired = expired(f"too old resource version: {self.revision} ({floor})")
        self._queue.append(_event(b"ERROR", msgspec.json.encode(self.expired.document)))
        self.is_over = True

    def _bookmarks(self, now_ns: int) -> list[bytes]:
        if not self._options.has_bookmarks or self.next_ns > now_ns:
            return []
        is_due = now_ns >= self._bookmark_ns
        if is_due:
            self._bookmark_ns = now_ns + BOOKMARK_NS
        if self._last_bookmark_ns is not None and now_ns >= self._last_bookmark_ns:
            self._last_bookmark_ns = None
            is_due = True
        if not is_due or self.revision > self._versions.revision:
            return []
        self.revision = self._versions.revision
        return [self._bookmark({})]

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        kind = self.served.kind
        metadata: dict[str, object] = {
            "resourceVersion": str(self.revision),
            "creationTimestamp": None,
        }
        if annotations:
            metadata["annotations"] = annotations
        document: dict[str, object] = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
        }
        if self._printer is not None:
            document = {**self._printer.table([], {}, has_columns=False), "metadata": metadata}
        return _event(b"BOOKMARK", msgspec.json.encode(document))


def _last_seen(version: Version) -> Version:
    """An object that no longer matches is sent as it was when it matched, with the revision of the change."""
    if version.is_gone or version.before is None:
        return version
    last = changed(version.before.manifest, "metadata", resourceVersion=str(version.revision))
    return Version(version.key, last, is_gone=True, before=None)


def _event(what: bytes, raw: bytes) -> bytes:
    return b"".join((b'{"type":"', what, b'","object":', raw, b"}\n"))


def _check(initial: str, match: str, *, has_watch_list: bool) -> None:
    field, faults = "resourceVersionMatch", []
    if initial and not has_watch_list:
        why = (
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        )
        faults.append(FieldError("sendInitialEvents", "Forbidden", f"Forbidden: {why}"))
    elif initial and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(FieldError(field, "Forbidden", f"Forbidden: {why}"))
    elif match and not initial:
        why = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        faults.append(FieldError(field, "Forbidden", f"Forbidden: {why}"))
    if faults:
        raise invalid_options("ListOptions", faults)
