"""Objects that State could not apply because of a bug in muster, and how long they stay recorded as unreadable.

Each attempt costs a fold of the log (`projections/left_out.py`), so an object that raised is not tried again with
each change. The outcome is recorded as an observation: a replay reads it from the log and recomputes nothing
here.
"""

from typing import Final

from msgspec import Struct

from projections.suspensions import RETRY_MAX_NS, RETRY_NS

OBJECTS_MAX: Final = 10_000
"""Maximum number of objects; beyond it the oldest is dropped and may be tried again."""

NAMESPACE_MAX: Final = 3
"""After this many objects of one kind and namespace raise, no further one is tried: a tenant may have thousands."""


class _Failed(Struct, frozen=True):
    until_ns: int
    count: int
    reason: str


class FailedObjects:
    """The objects that raised, by subject (`Kind/namespace/name`)."""

    def __init__(self) -> None:
        self._failed: dict[str, _Failed] = {}
        self._of_namespace: dict[str, dict[str, None]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether no object has raised."""
        return not self._failed

    def add(self, subject: str, reason: str, now_ns: int) -> None:
        """Record that State could not apply this object: skip it for 5 minutes, then for twice as long each time."""
        before = self._failed.pop(subject, None)
        count = 1 if before is None else before.count + 1
        delay_ns = min(RETRY_MAX_NS, RETRY_NS << min(count - 1, 8))
        self._failed[subject] = _Failed(now_ns + delay_ns, count, reason)
        self._of_namespace.setdefault(_namespace(subject), {})[subject] = None
        if len(self._failed) > OBJECTS_MAX:
            self._forget(next(iter(self._failed)))

    def reason(self, subject: str, now_ns: int) -> str:
        """Return why this object is skipped now; empty if it is not."""
        if not self._failed:
            return ""
        failed = self._failed.get(subject)
        if failed is not None and now_ns < failed.until_ns:
            return failed.reason
        namespace = _namespace(subject)
        others = self._of_namespace.get(namespace, {})
        if namespace.endswith("/") or len(others) < NAMESPACE_MAX:
            return ""
        running = [one for one in others if now_ns < self._failed[one].until_ns]
        if len(running) < NAMESPACE_MAX:
            return ""
        return f"{len(running)} objects of {namespace} raised, so it is not tried: {self._failed[running[-1]].reason}"

    def _forget(self, subject: str) -> None:
        del self._failed[subject]
        others = self._of_namespace[_namespace(subject)]
        del others[subject]
        if not others:
            del self._of_namespace[_namespace(subject)]


def _namespace(subject: str) -> str:
    """Return `Kind/namespace`, with a trailing slash for a cluster-scoped object."""
    return subject.rpartition("/")[0]
