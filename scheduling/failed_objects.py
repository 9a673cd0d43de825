"""Objects that State could not take in because of a bug of muster, and how long they are recorded as unreadable.

Each attempt costs a fold of the log (`projections/left_out.py`), so an object that raised is not tried again with each
change. What is recorded is an observation: a replay takes it as it is, and nothing here has to be the same in it.
"""

from typing import Final

from msgspec import Struct

from projections.suspensions import RETRY_MAX_NS, RETRY_NS

OBJECTS_MAX: Final = 10_000
"""Objects that are remembered; then the oldest is forgotten, and may be tried again."""

NAMESPACE_MAX: Final = 3
"""So many objects of one kind and namespace raise, and no further one of these is tried: a tenant may have thousands."""


class _Failed(Struct, frozen=True):
    until_ns: int
    count: int
    reason: str


class FailedObjects:
    """The objects that raised, by subject (`Kind/namespace/name`)."""

    def __init__(self) -> None:
        self._failed: dict[str, _Failed] = {}
        self._of_namespace: dict[str, dict[str, None]] = {}

    def add(self, subject: str, reason: str, now_ns: int) -> None:
        """State could not take this object in: do not try again for 5 minutes, then for twice as long each time."""
        before = self._failed.pop(subject, None)
        count = 1 if before is None else before.count + 1
        delay_ns = min(RETRY_MAX_NS, RETRY_NS << min(count - 1, 8))
        self._failed[subject] = _Failed(now_ns + delay_ns, count, reason)
        self._of_namespace.setdefault(_namespace(subject), {})[subject] = None
        if len(self._failed) > OBJECTS_MAX:
            self._forget(next(iter(self._failed)))

    def reason(self, subject: str, now_ns: int) -> str:
        """Why this object is not tried now; empty where it is."""
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
    """`Kind/namespace`; ends with a slash where the object has none."""
    return subject.rpartition("/")[0]
