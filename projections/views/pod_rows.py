"""The rows of the view `pod`.

There is a row for every pod of the cluster, and it rarely changes. So of each current row only its checksum and the position since which
it is valid are kept in memory.
"""

from collections.abc import Iterable
from typing import Final

from events.decisions.eviction import EvictionDecided
from projections.cluster import Cluster
from projections.internal_error import OnError, report
from projections.views import now
from projections.views.catalogue import POD
from projections.views.checksum import MODULUS, row_checksum
from projections.views.rows import Row, RowChanges

_EVICTED_FOR: Final = POD.column_names.index("evicted_for")
_CRC_BITS: Final = 32


class PodRows:
    """The current rows of the view `pod`."""

    def __init__(self) -> None:
        self.checksum = 0
        self._current: dict[str, int] = {}
        """UID to the position since which the row is valid, and in the lowest 32 bits its checksum."""
        self._evicted_for: dict[str, str] = {}
        """UID of a pod that was evicted or asked to release its cards, to the pod group for which."""

    def resume(self, rows: Iterable[Row], checksum: int) -> None:
        """Load the stored rows, which end with their position."""
        width = len(POD.columns)
        for row in rows:
            uid, evicted_for, since = row[0], row[_EVICTED_FOR], row[width]
            assert isinstance(uid, str)
            assert isinstance(evicted_for, str)
            assert isinstance(since, int)
            self._current[uid] = since << _CRC_BITS | row_checksum(row[:width])
            if evicted_for:
                self._evicted_for[uid] = evicted_for
        self.checksum = checksum

    def evicted(self, event: EvictionDecided) -> None:
        """Record for which pod group pods are evicted, before `update` with them."""
        for one in event.evictions:
            self._evicted_for[one.uid] = event.in_favour_of

    def update(
        self,
        cluster: Cluster,
        uids: Iterable[str],
        changes: RowChanges,
        position: int,
        on_error: OnError,
    ) -> None:
        """Add the changes of the rows of these pods by the batch that ends at `position`."""
        for uid in uids:
            old, row = self._current.get(uid), self._row_of(cluster, uid, on_error)
            checksum = -1 if row is None else row_checksum(row)
            if old is not None:
                since, before = old >> _CRC_BITS, old & (1 << _CRC_BITS) - 1
                if before == checksum:
                    continue
                self.checksum -= before
                changes.closed.append((position, uid, since))
            if row is not None:
                self._current[uid] = position << _CRC_BITS | checksum
                self.checksum += checksum
                changes.opened.append((*row, position))
            elif old is not None:
                del self._current[uid]
            if uid not in cluster.pods:
                self._evicted_for.pop(uid, None)
        self.checksum %= MODULUS

    def _row_of(self, cluster: Cluster, uid: str, on_error: OnError) -> Row | None:
        """Return the row of a pod; None if it is gone, or if computing it raises, as it will in a rebuild, too."""
        pod = cluster.pods.get(uid)
        if pod is None:
            return None
        try:
            return now.pod_row(cluster, pod, self._evicted_for.get(uid, ""))
        except Exception as error:  # any bug: the other rows must still be written
            report(error, f"{POD.name}//{uid}", "views", on_error)
            return None
