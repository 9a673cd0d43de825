"""Which notices become Events, and which only count: series, summaries and a budget an object (K11).

- The same notice within `SERIES_NS` of the last one becomes a series of one Event (K11.2). The same is:
  type, reason, action and object, which settle the reporter too. The note of the first one stays.
- From the `SIMILAR_MAX`th different action on, notices of one type and reason about one object within
  `SIMILAR_NS` of each other are summarized as one series (K11.3).
- An object may have `BURST` Events and patches at once, and then one each `REFILL_NS` (K11.3).

Pure: time is given, and may jump. What is remembered is bounded; what was used longest ago is forgotten.
"""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct, structs

from daemon.cluster.acting.k8s_events import EventNotice, Regarding
from daemon.cluster.acting.k8s_time import microseconds_of

MINUTE_NS: Final = 60_000_000_000

SERIES_NS: Final = 6 * MINUTE_NS
SIMILAR_NS: Final = 10 * MINUTE_NS
SIMILAR_MAX: Final = 10
BURST: Final = 25
REFILL_NS: Final = 5 * MINUTE_NS

REMEMBERED_MAX: Final = 4096
"""Series, summaries and budgets each that are remembered."""

TEXT_BYTES_MAX: Final = 128
"""Of reason, action and reporter; the server counts bytes."""
NOTE_BYTES_MAX: Final = 1024
NAME_MAX: Final = 230
"""Of an object's name, so that the Event's own has room for a time behind it."""

COMBINED: Final = "Combined"
COMBINED_PREFIX: Final = "(combined from similar events): "
ELLIPSIS: Final = "…"

K = TypeVar("K")
V = TypeVar("V")

SeriesKey = tuple[str, str, str, Regarding]


class Write(Struct, frozen=True):
    """One request about an Event: a new one, or one more of a series."""

    notice: EventNotice
    namespace: str
    name: str
    body: bytes
    is_new: bool


class _Series(Struct):
    name: str
    count: int
    last_ns: int


class _Similar(Struct):
    actions: dict[str, None]
    last_ns: int


class _Budget(Struct):
    saved_ns: int
    """Time saved up; an Event costs `REFILL_NS` of it."""
    last_ns: int


class _Recent(Generic[K, V]):
    """A dict that forgets the least recently used entries."""

    def __init__(self) -> None:
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        if (value := self._items.get(key)) is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > REMEMBERED_MAX:
            self._items.popitem(last=False)


class Correlator:
    """Converts notices to requests. `instance` names the reporting process."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._series: _Recent[SeriesKey, _Series] = _Recent()
        self._similar: _Recent[tuple[str, str, Regarding], _Similar] = _Recent()
        self._budgets: _Recent[Regarding, _Budget] = _Recent()
        self._last_stamp = 0

    def write(self, notice: EventNotice, at_ns: int) -> Write | None:
        """Return the request for a notice; None if the object's budget is used up."""
        notice = self._summarized(notice, at_ns)
        key = _key(notice)
        series = self._series.get(key)
        if series is None or at_ns - series.last_ns > SERIES_NS:
            return self.new_event(notice, at_ns) if self._spend(notice.regarding, at_ns) else None
        series.count += 1
        series.last_ns = at_ns
        if not self._spend(notice.regarding, at_ns):
            return None
        observed = {"count": series.count, "lastObservedTime": microseconds_of(at_ns)}
        body = msgspec.json.encode({"series": observed})
        return Write(notice, _namespace(notice.regarding), series.name, body, is_new=False)

    def new_event(self, notice: EventNotice, at_ns: int) -> Write:
        """The request that makes an Event of its own, with a name that no other has."""
        # Two Events about one object in one nanosecond would have the same name.
        self._last_stamp = max(at_ns, self._last_stamp + 1)
        stem = cut(notice.regarding.name, NAME_MAX, "").rstrip("-.")
        name = f"{stem}.{self._last_stamp:016x}"
        self._series.put(_key(notice), _Series(name, 1, at_ns))
        body = self._event(notice, name, at_ns)
        return Write(notice, _namespace(notice.regarding), name, body, is_new=True)

    def _event(self, notice: EventNotice, name: str, at_ns: int) -> bytes:
        regarding = {
            "apiVersion": notice.regarding.api_version,
            "kind": notice.regarding.kind,
            "name": notice.regarding.name,
            "uid": notice.regarding.uid,
        }
        if notice.regarding.namespace:
            regarding["namespace"] = notice.regarding.namespace
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(notice.regarding)},
            "eventTime": microseconds_of(at_ns),
            "reportingController": notice.reporter,
            "reportingInstance": cut(self._instance, TEXT_BYTES_MAX),
            "action": cut(notice.action, TEXT_BYTES_MAX),
            "reason": cut(notice.reason, TEXT_BYTES_MAX),
            "type": notice.type,
            "regarding": regarding,
            "note": cut(notice.note, NOTE_BYTES_MAX),
        }
        return msgspec.json.encode(event)

    def _summarized(self, notice: EventNotice, at_ns: int) -> EventNotice:
        key = (notice.type, notice.reason, notice.regarding)
        similar = self._similar.get(key)
        if similar is None or at_ns - similar.last_ns > SIMILAR_NS:
            similar = _Similar({}, at_ns)
            self._similar.put(key, similar)
        similar.last_ns = at_ns
        if notice.action in similar.actions or len(similar.actions) < SIMILAR_MAX - 1:
            similar.actions[notice.action] = None
            return notice
        return structs.replace(notice, action=COMBINED, note=COMBINED_PREFIX + notice.note)

    def _spend(self, regarding: Regarding, at_ns: int) -> bool:
        budget = self._budgets.get(regarding)
        if budget is None:
            budget = _Budget(BURST * REFILL_NS, at_ns)
            self._budgets.put(regarding, budget)
        gained = max(0, at_ns - budget.last_ns)
        budget.saved_ns = min(BURST * REFILL_NS, budget.saved_ns + gained)
        budget.last_ns = at_ns
        if budget.saved_ns < REFILL_NS:
            return False
        budget.saved_ns -= REFILL_NS
        return True


def cut(text: str, most: int, mark: str = ELLIPSIS) -> str:
    """A text of at most so many bytes in UTF-8, cut on the border of a character, and marked as cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= most:
        return encoded.decode()
    return encoded[: most - len(mark.encode())].decode(errors="ignore") + mark


def _key(notice: EventNotice) -> SeriesKey:
    return notice.type, notice.reason, notice.action, notice.regarding


def _namespace(regarding: Regarding) -> str:
    """Events about what has no namespace stand in `default` (K11.1)."""
    return regarding.namespace or "default"
