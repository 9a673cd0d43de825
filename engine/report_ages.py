"""How long ago device reports were last seen. Updates that only have a newer time are not recorded
(`ObservedKind.records_heartbeats`), so State does not know it; nothing is decided by it.

A stale report keeps its last devices: a device plugin that is stopped does not make devices free.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from events.normalize_config_map import CLUSTER_INFO, DEVICE_INFO

STALE_NS: Final[Mapping[str, int]] = {
    DEVICE_INFO.kind: 600_000_000_000,
    CLUSTER_INFO.kind: 60_000_000_000,
}
"""Kind to the time without an update after which its reports are stale. NodeD writes only while a node has faults."""

COMMON: Final = (CLUSTER_INFO.kind,)
"""Kinds whose objects have one writer: an update of any of them shows that it works."""


class StaleReports(Struct, frozen=True):
    """Reports of one kind that are not updated any more."""

    kind: str
    names: tuple[str, ...]
    """`namespace/name`, sorted."""
    count: int
    """All reports of the kind."""
    seconds: int
    """Time since the oldest of them was seen."""


class ReportAges:
    """When each report was last seen, by the time of the records."""

    def __init__(self) -> None:
        self._since_ns: int | None = None
        """When this began: reports that State held before count as seen then."""
        self._seen_ns: dict[str, dict[str, int]] = {kind: {} for kind in STALE_NS}

    def begin(self, now_ns: int) -> None:
        """Count from now on."""
        if self._since_ns is None:
            self._since_ns = now_ns

    def saw(self, kind: str, name: str, now_ns: int) -> None:
        """Note that a report was seen, whether it is recorded or not."""
        if kind in STALE_NS:
            self._seen_ns[kind][name] = now_ns

    def stale(self, known: Mapping[str, Iterable[str]], now_ns: int) -> tuple[StaleReports, ...]:
        """Return the stale reports of each kind. `known` are the names of the reports that State holds, by kind."""
        found: list[StaleReports] = []
        for kind, limit_ns in STALE_NS.items():
            seen = self._seen_ns[kind]
            begun = now_ns if self._since_ns is None else self._since_ns
            at = {name: seen.get(name, begun) for name in sorted(known.get(kind, ()))}
            if at and kind in COMMON:
                at = dict.fromkeys(at, max(at.values()))
            old = [name for name, at_ns in at.items() if now_ns - at_ns > limit_ns]
            if old:
                seconds = (now_ns - min(at[name] for name in old)) // 1_000_000_000
                found.append(StaleReports(kind, tuple(old), len(at), seconds))
            for name in [one for one in seen if one not in at]:
                del seen[name]
        return tuple(found)
