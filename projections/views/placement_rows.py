"""The rows of the view `placement`: from the decision that binds a pod, or the record that shows it on a node, to its release.

A pod has at most one open placement, and a closed one never changes again: only the open ones are kept in memory, by pod.
"""

from collections.abc import Iterable
from typing import Final

from projections.cluster import Cluster
from projections.pods import Pod
from projections.views import now
from projections.views.catalogue import PLACEMENT
from projections.views.checksum import MODULUS, row_checksum
from projections.views.rows import Row, RowChanges

_BOUND: Final = PLACEMENT.column_names.index("bound_position")
_NODE: Final = PLACEMENT.column_names.index("node")
_BOUND_AT: Final = PLACEMENT.column_names.index("bound_at_ns")
_RELEASED: Final = PLACEMENT.column_names.index("released_position")


class PlacementRows:
    """The open rows of the view `placement`."""

    def __init__(self) -> None:
        self.checksum = 0
        """That of all rows, closed ones too."""
        self._open: dict[str, Row] = {}
        """By UID of the pod."""

    def resume(self, rows: Iterable[Row], checksum: int) -> None:
        """Load the stored rows."""
        for row in rows:
            if row[_RELEASED] is None:
                uid = row[0]
                assert isinstance(uid, str)
                self._open[uid] = row
        self.checksum = checksum

    def update(
        self,
        cluster: Cluster,
        uids: Iterable[str],
        changes: RowChanges,
        position: int,
        at_ns: int,
    ) -> None:
        """Open, update or close the placements of these pods by the batch that ends at `position`."""
        for uid in uids:
            pod, old = cluster.pods.get(uid), self._open.get(uid)
            if pod is None or not pod.occupies:
                if old is not None:
                    self._close(old, changes, position, at_ns, _why_released(cluster, pod))
                continue
            if old is not None and (old[_BOUND] != pod.decided.bound_at or old[_NODE] != pod.node):
                self._close(old, changes, position, at_ns, _why_released(cluster, pod))
                old = None
            row = _open_row(cluster, pod, at_ns if old is None else old[_BOUND_AT])
            if row != old:
                self._replace(old, row, changes)
                self._open[uid] = row
        self.checksum %= MODULUS

    def _close(self, old: Row, changes: RowChanges, position: int, at_ns: int, reason: str) -> None:
        self._replace(old, (*old[:_RELEASED], position, at_ns, reason), changes)
        uid = old[0]
        assert isinstance(uid, str)
        del self._open[uid]

    def _replace(self, old: Row | None, row: Row, changes: RowChanges) -> None:
        changes.upserted.append(row)
        self.checksum += row_checksum(row) - (0 if old is None else row_checksum(old))


def _open_row(cluster: Cluster, pod: Pod, bound_at_ns: str | int | None) -> Row:
    group = cluster.groups.get(pod.group_key)
    return (
        *(
            pod.facts.uid,
            pod.decided.bound_at,
            pod.key,
            pod.group_key,
            group.queue if group else "",
        ),
        *(pod.node, now.devices_of(pod), now.cards_of(cluster, pod), bound_at_ns),
        *(None, None, ""),
    )


def _why_released(cluster: Cluster, pod: Pod | None) -> str:
    if pod is None:
        return "deleted"
    if pod.facts.phase in ("Succeeded", "Failed"):
        return pod.status
    return "not carried out" if cluster.is_shadow else "bind failed"
