"""Convert State to rows: after each batch, the rows of all keys that the batch changed.

A row that did not change is not written.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, get_args

from events.daemon import PolicyChanged
from events.decision import Decision
from events.decisions.eviction import EvictionDecided
from events.decisions.faults_marked import FaultsMarked
from events.decisions.reschedule import RescheduleDecided
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    ShadowDecisionEnded,
    StatusUpdated,
    StatusUpdateFailed,
)
from events.record import Record
from events.union import DECISIONS, Event, Outcome
from projections.cluster import Cluster
from projections.fault_hits import is_hit
from projections.faulty_pods import FaultyPods
from projections.internal_error import OnError, ignore, report
from projections.node_faults import NodeFault
from projections.state import State
from projections.views import now
from projections.views.catalogue import PLACEMENT, POD, VIEWS
from projections.views.checksum import MODULUS, checksum_of, row_checksum
from projections.views.feature_rows import ViewRows
from projections.views.placement_rows import PlacementRows
from projections.views.pod_rows import PodRows
from projections.views.rows import Cell, Row, RowChanges, View, ViewChanges

_NOTED: Final = frozenset((*DECISIONS, *get_args(Outcome), PolicyChanged))
RECORDED_ONLY: Final = "recorded only"
"""What was done about a fault if nothing was."""
DONE_CHARS_MAX: Final = 4000
"""Length of the text on what was done about a fault beyond which no more is added."""


def is_whole(view: str, rows: Iterable[Row], checksum: int) -> bool:
    """Return whether the stored rows of a view (with `from_position` at the end, if it has a history) match its
    checksum."""
    width = next(len(one.columns) for one in VIEWS if one.name == view)
    return checksum_of(row[:width] for row in rows) == checksum


Standing: TypeAlias = tuple[Row, int, int | None]


class _Current:
    """The current rows of one view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.rows: dict[Row, Standing] = {}
        """Key to the row, the position since which it is valid, and its checksum; None if that is not known yet."""
        self._by_first: dict[Cell, tuple[Row, ...]] = {}
        """First column of the key to keys, if a key has more columns."""
        self.checksum = 0

    def put(self, changes: RowChanges, row: Row, position: int) -> None:
        key = row[: self.view.keys]
        old = self.rows.get(key)
        if old is None or old[0] != row:
            self._replace(changes, key, old, row, position)

    def _replace(
        self, changes: RowChanges, key: Row, old: Standing | None, row: Row, position: int
    ) -> None:
        if old is not None:
            self._retire(changes, key, old, position)
        elif self.view.keys > 1:
            self._add_key(key)
        checksum = row_checksum(row)
        self.rows[key] = (row, position, checksum)
        self.checksum = (self.checksum + checksum) % MODULUS
        if self.view.history:
            changes.opened.append((*row, position))
        else:
            changes.upserted.append(row)

    def remove(self, changes: RowChanges, key: Row, position: int) -> None:
        if key not in self.rows:
            return
        old = self.forget(key)
        self._retire(changes, key, old, position)
        if not self.view.history:
            changes.removed.append(key)

    def load(self, row: Row, since: int) -> None:
        """Add a row that is stored."""
        key = row[: self.view.keys]
        self.rows[key] = (row, since, None)
        self._add_key(key)

    def forget(self, key: Row) -> Standing:
        """Drop a row, and return it; the checksum still counts it."""
        if self.view.keys > 1:
            left = tuple([one for one in self._by_first[key[0]] if one != key])
            if left:
                self._by_first[key[0]] = left
            else:
                del self._by_first[key[0]]
        return self.rows.pop(key)

    def keys_of(self, first: Cell) -> tuple[Row, ...]:
        """Return the keys with this first column."""
        if self.view.keys > 1:
            return self._by_first.get(first, ())
        key: Row = (first,)
        return (key,) if key in self.rows else ()

    def _add_key(self, key: Row) -> None:
        if self.view.keys > 1:
            self._by_first[key[0]] = (*self._by_first.get(key[0], ()), key)

    def keep(self, changes: RowChanges, first: str, rows: Sequence[Row], position: int) -> None:
        """Replace all rows with this first column by `rows`."""
        known, keys = self.rows, self.view.keys
        if keys == 1:
            old = known.get((first,))
            if not rows:
                if old is not None:
                    self.remove(changes, (first,), position)
            elif old is None or old[0] != rows[0]:
                self._replace(changes, (first,), old, rows[0], position)
            return
        for row in rows:
            key = row[:keys]
            old = known.get(key)
            if old is None or old[0] != row:
                self._replace(changes, key, old, row, position)
        there = self.keys_of(first)
        if len(there) > len(rows):
            kept = {row[: self.view.keys]: None for row in rows}
            for key in [key for key in there if key not in kept]:
                self.remove(changes, key, position)

    def _retire(self, changes: RowChanges, key: Row, old: Standing, position: int) -> None:
        row, since, checksum = old
        self.checksum -= row_checksum(row) if checksum is None else checksum
        self.checksum %= MODULUS
        if self.view.history:
            changes.closed.append((position, *key, since))


class Views:
    """All views of one State."""

    def __init__(self, state: State, on_error: OnError = ignore) -> None:
        self.state = state
        self.on_error = on_error
        self._placements, self._pods = PlacementRows(), PodRows()
        apart = (PLACEMENT, POD)
        self._current = {view.name: _Current(view) for view in VIEWS if view not in apart}
        self._changes: ViewChanges = {}
        self._restarts: dict[str, list[tuple[int, RescheduleDecided | FaultsMarked]]] = {}
        """Node to the decisions of this batch that restart jobs after faults of it, or mark pods of them, with their
        positions."""

    def resume(self, view: str, rows: Iterable[Row], checksum: int) -> None:
        """Load the stored rows of a view; those with a history end with their position."""
        if view == POD.name:
            self._pods.resume(rows, checksum)
            return
        if view == PLACEMENT.name:
            self._placements.resume(rows, checksum)
            return
        current = self._current[view]
        width = len(current.view.columns)
        for row in rows:
            since = row[width] if current.view.history else 0
            assert isinstance(since, int)
            current.load(row[:width], since)
        current.checksum = checksum

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each view."""
        found = {name: current.checksum for name, current in self._current.items()}
        return {
            **found,
            PLACEMENT.name: self._placements.checksum,
            POD.name: self._pods.checksum,
        }

    def note(self, record: Record, event: Event) -> None:
        """Add the rows of a record that State has just applied."""
        if type(event) not in _NOTED:
            return
        if isinstance(event, RescheduleDecided | FaultsMarked):
            for node in dict.fromkeys(one.node for one in event.members if one.fault):
                self._restarts.setdefault(node, []).append((record.position, event))
        if isinstance(event, Decision):
            self._append("decision", decision_rows(record, event))
            if isinstance(event, EvictionDecided) and event.in_favour_of:
                self._pods.evicted(event)
                uids = dict.fromkeys(one.uid for one in event.evictions)
                self.state.cluster.changed_rows.pod_attributes.update(uids)
        elif isinstance(event, PolicyChanged):
            # It says which conditions and taints are faults.
            faults, current = self.state.cluster.indexes.of(FaultyPods), self._current["fault"]
            nodes = (*faults.nodes, *(key[0] for key in current.rows))
            self.state.cluster.changed_rows.faults.update(
                (one, None) for one in nodes if isinstance(one, str)
            )
        elif isinstance(event, Outcome):
            self._append("outcome", [outcome_row(record, event)])

    def rows(self, position: int, recorded_at_ns: int) -> ViewChanges:
        """Return how the views change with the batch that ends at `position`."""
        touched, groups = self.state.cluster.changed_rows, self._current["pod_group"].rows
        for view, keys, rows_of in (
            ("queue_quota", touched.queues, now.queue_rows),
            ("node_card", touched.nodes, now.card_rows),
            ("device", touched.nodes, now.device_rows),
            ("topology_node", touched.topology, now.topology_rows),
            ("pod_group", touched.groups, now.group_rows),
        ):
            for key in keys:
                rows = self._rows_of(view, key, rows_of)
                if view == "pod_group" and rows:
                    old = groups.get((key,))
                    if old is not None and old[0][1] != rows[0][1]:
                        self._mark_pods(key)
                self._keep(view, key, rows, position)
        for view, names in touched.of_features.items():
            for name in names:
                self._keep(view, name, self._feature_rows(view, name), position)
        for name in self._nodes_with_faults():
            rows = self._rows_of("fault", name, now.fault_rows)
            self._keep("fault", name, self._fault_rows(rows, position, recorded_at_ns), position)
        self._restarts = {}
        cluster = self.state.cluster
        if touched.pods:
            change = self._change(PLACEMENT.name)
            self._placements.update(cluster, touched.pods, change, position, recorded_at_ns)
            change.checksum = self._placements.checksum
        if touched.pod_attributes:
            change = self._change(POD.name)
            self._pods.update(cluster, touched.pod_attributes, change, position, self.on_error)
            change.checksum = self._pods.checksum
        cluster.clear_changed_rows()
        changes, self._changes = self._changes, {}
        for name, change in changes.items():
            if name in self._current:
                change.checksum = self._current[name].checksum
        return {name: one for name, one in changes.items() if not one.is_empty}

    def _feature_rows(self, view: str, key: str) -> list[Row]:
        """Return the rows of a key of a view that a feature brings; none if the policy does not name it."""
        for one in self.state.cluster.features.of(ViewRows):
            if one.view == view:
                return self._rows_of(view, key, one.rows)
        return []

    def _rows_of(
        self, view: str, key: str, rows_of: Callable[[Cluster, str], list[Row]]
    ) -> list[Row]:
        """Return the rows of a key; none if computing them raises, as it will in a rebuild, too."""
        try:
            return rows_of(self.state.cluster, key)
        except Exception as error:  # any bug: the other rows must still be written
            report(error, f"{view}//{key}", "views", self.on_error)
            return []

    def _change(self, view: str) -> RowChanges:
        change = self._changes.get(view)
        if change is None:
            change = self._changes[view] = RowChanges()
        return change

    def _keep(self, view: str, first: str, rows: list[Row], position: int) -> None:
        change = self._changes.get(view)
        if change is None:
            change = self._change(view)
        self._current[view].keep(change, first, rows, position)

    def _mark_pods(self, key: str) -> None:
        """Count the pods of a group as changed, which has another queue than before."""
        cluster = self.state.cluster
        cluster.changed_rows.pod_attributes.update(dict.fromkeys(cluster.groups[key].pods))

    def _nodes_with_faults(self) -> Iterable[str]:
        """Return the nodes of which faults may have changed, what was done about them, or how many pods they hit."""
        cluster, touched = self.state.cluster, self.state.cluster.changed_rows
        names = {**touched.faults, **dict.fromkeys(self._restarts)}
        if faulty := cluster.indexes.of(FaultyPods).nodes:
            for uid in touched.pods:
                pod = cluster.pods.get(uid)
                if pod is not None and pod.node in faulty:
                    names[pod.node] = None
        return names

    def _fault_rows(self, rows: list[Row], position: int, at_ns: int) -> list[Row]:
        """Return the rows of the faults of a node with what was done about them, and since when they stand."""
        found: list[Row] = []
        for row in rows:
            key, effect, pods = row[:5], row[5], row[6]
            old = self._current["fault"].rows.get(key)
            most, done, *since = (0, RECORDED_ONLY, position, at_ns) if old is None else old[0][6:]
            assert isinstance(done, str)
            assert isinstance(pods, int)
            assert isinstance(most, int)
            done = self._done(row, done)
            found.append((*key, effect, max(most, pods), done, *since))
        return found

    def _done(self, row: Row, before: str) -> str:
        """Return what was done about a fault: what was before, and the decisions of this batch."""
        node, source, device, level, code, effect = (str(one) for one in row[:6])
        fault = NodeFault(source, device, level, code, effect)
        parts = [] if before == RECORDED_ONLY else before.split("; ")
        for position, event in self._restarts.get(node, ()):
            if sum(map(len, parts)) > DONE_CHARS_MAX or not any(
                one.node == node and is_hit(fault, one.fault, one.device, one.source)
                for one in event.members
            ):
                continue
            word = "marked" if isinstance(event, FaultsMarked) else "restarted"
            begun = f"{event.pod_group} {word} at "
            index = next((at for at, one in enumerate(parts) if one.startswith(begun)), None)
            if index is None:
                parts.append(f"{begun}{position}")
            else:
                parts[index] += f", {position}"
        return "; ".join(parts) or RECORDED_ONLY

    def _append(self, view: str, rows: list[Row]) -> None:
        """Append rows that never change: only the checksum is kept in memory."""
        current, change = self._current[view], self._change(view)
        change.upserted += rows
        current.checksum = (current.checksum + sum(map(row_checksum, rows))) % MODULUS


def decision_rows(record: Record, event: Decision) -> list[Row]:
    """Return the rows of the view `decision` for one decision."""
    head, cycle, word = record.position, record.cycle or 0, event.word
    rows: list[Row] = []
    for index, item in enumerate(event.items()):
        subject = f"Pod/{item.pod}" if item.pod else record.subject
        columns: tuple[str, ...] = (
            subject,
            item.pod_group,
            item.queue,
            item.node,
            item.code,
            item.message,
        )
        if item.message:
            # Release 0.1 recorded refusals with NUL characters, which no database stores.
            columns = tuple([column.replace("\0", "\ufffd") for column in columns])
        rows.append((head, index, cycle, word, *columns))
    return rows


def outcome_row(record: Record, event: Outcome) -> Row:
    """Return the row of the view `outcome` for one outcome."""
    tail: Row = ()
    match event:
        case PodBound():
            tail = (event.node, "bound", "")
        case PodAnnotated():
            tail = (event.node, "annotated", "")
        case PodEvicted():
            tail = (event.node, "evicted", "")
        case BindFailed() | EvictionFailed() | PodAnnotationFailed():
            tail = (event.node, "failed", f"{event.code}: {event.message}")
        case BindOutcomeUnknown() | EvictionOutcomeUnknown() | PodAnnotationUnknown():
            tail = (event.node, "unknown", event.message)
        case ShadowDecisionEnded():
            return (
                record.position,
                record.cause or 0,
                record.subject,
                event.node,
                event.reason,
                event.what,
                0,
                0,
            )
        case PodGroupUpdated():
            tail = ("", "updated", "")
        case StatusUpdated():
            tail = ("", "updated", event.what)
        case PodGroupUpdateFailed() | StatusUpdateFailed():
            tail = ("", "failed", f"{event.code}: {event.message}")
    effort = (event.attempts, event.latency_ns)
    return (record.position, record.cause or 0, record.subject, *tail, *effort)
