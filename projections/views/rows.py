"""Views as data: which there are, and how a batch changed their rows.

A view with `history` has a second table, `<name>_history`, with the columns `from_position` and
`to_position` (null: now) behind its own. `from_position` is the last position of the batch that made
the row, `to_position` the last position of the batch that ended it.
"""

from msgspec import Struct, field

Cell = str | int | None
Row = tuple[Cell, ...]


class View(Struct, frozen=True):
    """One view: its columns with their SQL types, of which the first `keys` are the key."""

    name: str
    version: int
    keys: int
    columns: tuple[tuple[str, str], ...]
    """Column name and type: `text`, `integer`, each with ` null` behind it where null may stand."""
    history: bool = False

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(name for name, _ in self.columns)


class RowChanges(Struct):
    """How the rows of one view change with one batch. Written in this order."""

    removed: list[Row] = field(default_factory=list)
    """Keys of rows that go."""
    upserted: list[Row] = field(default_factory=list)
    """Whole rows that come or take the place of the row with the same key."""
    closed: list[Row] = field(default_factory=list)
    """For the history: `(to_position, *key, from_position)` of the rows that end."""
    opened: list[Row] = field(default_factory=list)
    """For the history: `(*row, from_position)` of the rows that begin; `to_position` is null."""
    checksum: int = 0
    """Checksum of the whole view after the batch: the sum of the hashes of its rows modulo 2**128."""


ViewChanges = dict[str, RowChanges]
"""View name to how it changes; views that do not change are not named."""
