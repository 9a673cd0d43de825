"""An SQL view of the pods that were evicted, and for whom. No row is stored. Runs before the new code."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the SQL view."""
    columns = [
        *("log.position", f"{_time()} AS time", f"{_item('uid')} AS uid", f"{_item('pod')} AS pod"),
        f"{_namespace()} AS namespace",
        f"{_item('node')} AS node",
        *(f"{_body(name)} AS {name}" for name in ("pod_group", "queue")),
        "placement_rows.cards",
        f"{_body('in_favour_of')} AS evicted_for",
        *(f"{_body(name)} AS {name}" for name in ("action", "code", "message")),
    ]
    placed = (
        f"LEFT JOIN placement_rows ON placement_rows.uid = {_item('uid')} "
        "AND placement_rows.bound_position < log.position "
        "AND (placement_rows.released_position IS NULL OR placement_rows.released_position >= log.position)"
    )
    evicted = f"FROM log CROSS JOIN {_items()} {placed} WHERE log.kind = 'eviction_decided.v1'"
    op.execute(sa.text(f"CREATE VIEW eviction AS SELECT {', '.join(columns)} {evicted}"))


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _items() -> str:
    if _is_postgresql():
        return "LATERAL jsonb_array_elements(CAST(log.body AS jsonb) -> 'evictions') AS item(value)"
    return "json_each(log.body, '$.evictions') AS item"


def _item(name: str) -> str:
    if _is_postgresql():
        return f"(item.value ->> '{name}')"
    return f"json_extract(item.value, '$.{name}')"


def _body(name: str) -> str:
    if _is_postgresql():
        return f"coalesce(CAST(log.body AS jsonb) ->> '{name}', '')"
    return f"coalesce(json_extract(log.body, '$.{name}'), '')"


def _namespace() -> str:
    pod = _item("pod")
    if _is_postgresql():
        return f"split_part({pod}, '/', 1)"
    return f"substr({pod}, 1, instr({pod}, '/') - 1)"


def _time() -> str:
    ns = "log.recorded_at_ns"
    if _is_postgresql():
        seconds = f"to_timestamp({ns} / 1000000000) AT TIME ZONE 'UTC'"
        rest = f"lpad(({ns} / 1000000 % 1000)::text, 3, '0')"
        return f"to_char({seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || '.' || {rest} || 'Z'"
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {ns} / 1000000000, 'unixepoch')"
    return f"{seconds} || printf('.%03dZ', {ns} / 1000000 % 1000)"
