"""Views as data: their columns, and how a batch changes their rows.

Of a view with `history` all rows are stored, with its columns followed by `from_position` and `to_position` (null: current):
`<name>_history` shows them, and `<name>` the current rows. `from_position` is the last position of the
batch that created the row, `to_position` the last position of the batch that ended it.

Times in UTC come behind these columns; they are computed from those of the records: `from_time` and `to_time` in every history, `time` in
`decision` and `outcome`, `bound_time` and `released_time` in `placement`, `since_time` in `pod_group` and `fault`.

`object_change` is an SQL view of the records of observed objects: `position`, `time`, `subject`, `manager` (the field manager of the newest change),
`operation`, `changed_at`, `subresource` and `object` (the digest of the content). `manager` and the columns behind it are null where the object states none.

`eviction` is an SQL view of the pods that were evicted, one row per pod and decision: `position`, `time`, `uid`, `pod`, `namespace`, `node`, `pod_group`, `queue`,
`cards` (JSON, as in `placement`; null if the pod was not placed), `evicted_for` (the pod group for which it was evicted, or empty), `action`, `code` and `message`.
"""

from msgspec import Struct, field

Cell = str | int | None
Row = tuple[Cell, ...]


class View(Struct, frozen=True):
    """A view: its columns with SQL types; the first `keys` columns are the key."""

    name: str
    version: int
    keys: int
    columns: tuple[tuple[str, str], ...]
    """Column name and type: `text` or `integer`, followed by ` null` if null is allowed."""
    history: bool = False

    @property
    def column_names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(name for name, _ in self.columns)


class RowChanges(Struct):
    """Changes of the rows of one view by one batch."""

    removed: list[Row] = field(default_factory=list)
    """Without a history: keys of removed rows."""
    upserted: list[Row] = field(default_factory=list)
    """Without a history: rows that are new or replace the row with the same key."""
    closed: list[Row] = field(default_factory=list)
    """For the history: `(to_position, *key, from_position)` of rows that end."""
    opened: list[Row] = field(default_factory=list)
    """For the history: `(*row, from_position)` of rows that begin; `to_position` is null."""
    passed: list[Row] = field(default_factory=list)
    """For the history: `(*row, from_position, to_position)` of rows that began and ended, where the changes of several
    batches are written together."""
    checksum: int = 0
    """Checksum of the whole view after the batch: the sum of the checksums of its current rows modulo 2**64."""

    @property
    def is_empty(self) -> bool:
        """Return whether no row changes."""
        return not (self.removed or self.upserted or self.closed or self.opened or self.passed)


ViewChanges = dict[str, RowChanges]
"""View name to its changes; unchanged views are missing."""
