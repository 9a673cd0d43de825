"""An SQL view of observations with the field manager that made each change. No row is stored. Runs before the new code."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the SQL view."""
    fields = ("manager", "operation", "changed_at", "subresource")
    columns = [
        *("position", _time(), "subject"),
        *(f"{_part(index)} AS {name}" for index, name in enumerate(fields)),
        "object",
    ]
    observed = "FROM log WHERE kind = 'object_observed.v1'"
    op.execute(sa.text(f"CREATE VIEW object_change AS SELECT {', '.join(columns)} {observed}"))


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _part(index: int) -> str:
    if _is_postgresql():
        return f"(CAST(body AS jsonb) -> 'changed_by' ->> {index})"
    return f"json_extract(body, '$.changed_by[{index}]')"


def _time() -> str:
    ns = "recorded_at_ns"
    if _is_postgresql():
        seconds = f"to_timestamp({ns} / 1000000000) AT TIME ZONE 'UTC'"
        rest = f"lpad(({ns} / 1000000 % 1000)::text, 3, '0')"
        return f"to_char({seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || '.' || {rest} || 'Z' AS time"
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {ns} / 1000000000, 'unixepoch')"
    return f"{seconds} || printf('.%03dZ', {ns} / 1000000 % 1000) AS time"
