"""Which snapshots are kept: a ladder, dense near the end of the log and ever sparser further back.

The snapshots are limited in number and bytes. While there are too many, the one is deleted that leaves the smallest gap in relation to
the distance from the end. So gaps grow in proportion to that distance: a few snapshots for each doubling of it.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

NEWEST_KEPT: Final = 3
"""The newest so many are always kept: one that is damaged is passed over at a start."""

COUNT_MAX: Final = 1_000
"""The most snapshots of a log."""

SHARE: Final = 12
"""Snapshots take at most one part in so many of the bytes of the log, or `BYTES_FREE`."""

BYTES_FREE: Final = 64 << 20
"""Bytes that snapshots may take in any log."""

_SCALE: Final = 1 << 32


class StoredSnapshot(Struct, frozen=True):
    """Position and size of a snapshot."""

    position: int
    size_bytes: int


def bytes_max(log_bytes: int) -> int:
    """Return the most bytes of snapshots in a log of so many bytes without them."""
    return max(BYTES_FREE, log_bytes // SHARE)


def surplus(
    snapshots: Sequence[StoredSnapshot],
    end: int,
    size_bytes_max: int,
    *,
    count_max: int = COUNT_MAX,
) -> list[int]:
    """Return the positions of the snapshots that are not kept. `snapshots` are in order; `end` is the end of the log."""
    kept = list(snapshots)
    size_bytes = sum(one.size_bytes for one in kept)
    dropped: list[int] = []
    while len(kept) > NEWEST_KEPT and (len(kept) > count_max or size_bytes > size_bytes_max):
        index = min(range(len(kept) - NEWEST_KEPT), key=lambda at: _gap_without(kept, at, end))
        gone = kept.pop(index)
        size_bytes -= gone.size_bytes
        dropped.append(gone.position)
    return dropped


def _gap_without(kept: Sequence[StoredSnapshot], index: int, end: int) -> int:
    """Return the length of the gap without a snapshot, in relation to the distance of its beginning from the end."""
    begin = kept[index - 1].position if index else 0
    gap = kept[index + 1].position - begin
    return gap * _SCALE // max(end - begin, 1)
