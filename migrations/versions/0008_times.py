"""Readable times in views, an index that finds the position of a time, and one of the few kinds that questions look for.

The rows of views with times move to tables called `<name>_rows`; `<name>` and `<name>_history` are SQL views of them that add
the times, which are those of the records. No row is copied. Runs before the new code.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Index the log, rename the tables, and create the SQL views."""
    op.create_index("log_recorded_at", "log", ["recorded_at_ns", "position"])
    is_found = sa.or_(*(sa.column("kind") == sa.literal_column(f"'{kind}'") for kind in KINDS))
    key = ["kind", "position"]
    op.create_index("log_kind", "log", key, sqlite_where=is_found, postgresql_where=is_found)
    for name, columns in HISTORIES.items():
        op.execute(f"DROP VIEW {name}")
        _rename(f"{name}_history", f"{name}_rows")
        shown = [*columns, *(_time(column) for column in columns if column == "since_ns")]
        _create_view(name, f"{name}_rows WHERE to_position IS NULL", shown)
        times = [
            _recorded(f"{name}_rows.from_position", "from_time"),
            _recorded(f"{name}_rows.to_position", "to_time"),
        ]
        stretch = ["from_position", "to_position", *times]
        _create_view(f"{name}_history", f"{name}_rows", [*shown, *stretch])
    for name, columns in PLAIN.items():
        _rename(name, f"{name}_rows")
        times = [_time(column) for column in columns if column.endswith("_at_ns")]
        if "position" in columns:
            times = [_recorded(f"{name}_rows.position", "time")]
        _create_view(name, f"{name}_rows", [*columns, *times])


def _rename(old: str, new: str) -> None:
    op.rename_table(old, new)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER INDEX {old}_pkey RENAME TO {new}_pkey")


def _create_view(name: str, source: str, columns: list[str]) -> None:
    op.execute(sa.text(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {source}"))  # noqa: S608  # names of ours


def _time(column: str) -> str:
    """A column with a time in UTC to the millisecond: `since_time` of `since_ns`, `bound_time` of `bound_at_ns`."""
    name = column.removesuffix("_ns").removesuffix("_at")
    return f"{_readable(column)} AS {name}_time"


def _recorded(position: str, name: str) -> str:
    """A column with the time of the record at a position."""
    time = _readable("log.recorded_at_ns")
    return f"(SELECT {time} FROM log WHERE log.position = {position}) AS {name}"  # noqa: S608  # names of ours


def _readable(ns: str) -> str:
    if op.get_bind().dialect.name == "postgresql":
        seconds = f"to_timestamp({ns} / 1000000000) AT TIME ZONE 'UTC'"
        rest = f"lpad(({ns} / 1000000 % 1000)::text, 3, '0')"
        return f"to_char({seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || '.' || {rest} || 'Z'"
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {ns} / 1000000000, 'unixepoch')"
    return f"{seconds} || printf('.%03dZ', {ns} / 1000000 % 1000)"


KINDS = (
    *("cycle_opened.v1", "cycle_opened.v2"),
    *("eviction_decided.v1", "release_decided.v1", "reschedule_decided.v1"),
)
"""Kinds that are found by an index."""

HISTORIES: dict[str, tuple[str, ...]] = {
    "queue_quota": (
        *("queue", "resource", "capability", "guarantee", "deserved"),
        *("allocated", "inqueue", "request", "elastic"),
    ),
    "node_card": ("node", "card", "resource", "total", "healthy", "allocated", "free"),
    "pod_group": (
        *("pod_group", "queue", "phase", "min_available", "pods_bound"),
        *("pods_wanted", "priority", "since_ns", "code"),
    ),
    "switch_state": ("switch", "state", "healthy", "servers", "nodes", "crossing", "jobs"),
    "fault": (
        *("node", "source", "device", "level", "code"),
        *("effect", "pods", "done", "since_position", "since_ns"),
    ),
}

PLAIN: dict[str, tuple[str, ...]] = {
    "placement": (
        *("uid", "bound_position", "pod", "pod_group", "queue", "node", "devices", "cards"),
        *("bound_at_ns", "released_position", "released_at_ns", "reason"),
    ),
    "decision": (
        *("position", "item", "cycle", "kind", "subject"),
        *("pod_group", "queue", "node", "code", "message"),
    ),
    "outcome": (
        *("position", "decision", "subject", "node"),
        *("result", "message", "attempts", "latency_ns"),
    ),
}
