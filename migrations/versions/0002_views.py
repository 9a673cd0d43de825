"""The views: queue quotas, cards, pod groups, topology, placements, decisions, outcomes.

Runs before the new code.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of the views and of their histories."""
    for name in ("queue_quota", "node_card", "pod_group"):
        columns = HISTORIED[name]
        _create(name, columns, KEYS[name])
        history = (*columns, ("from_position", BIG, False), ("to_position", BIG, True))
        _create(f"{name}_history", history, (*KEYS[name], "from_position"))
    for name, columns in PLAIN.items():
        _create(name, columns, KEYS[name])
    op.create_index("placement_pod", "placement", ["pod"])
    op.create_index("decision_subject", "decision", ["subject"])
    op.create_index("outcome_decision", "outcome", ["decision"])


def _create(name: str, columns: "tuple[Shape, ...]", keys: tuple[str, ...]) -> None:
    op.create_table(
        name,
        *(sa.Column(column, type_, nullable=null) for column, type_, null in columns),
        sa.PrimaryKeyConstraint(*keys),
    )


BIG = sa.BigInteger()
TEXT = sa.Text()
Shape = tuple[str, sa.BigInteger | sa.Text, bool]
"""Column name, type, and whether null may stand there."""

KEYS: dict[str, tuple[str, ...]] = {
    "queue_quota": ("queue", "resource"),
    "node_card": ("node", "card"),
    "pod_group": ("pod_group",),
    "topology_node": ("node",),
    "placement": ("uid", "bound_position"),
    "decision": ("position", "item"),
    "outcome": ("position",),
}

HISTORIED: dict[str, tuple[Shape, ...]] = {
    "queue_quota": (
        ("queue", TEXT, False),
        ("resource", TEXT, False),
        ("capability", BIG, True),
        ("guarantee", BIG, False),
        ("deserved", BIG, False),
        ("allocated", BIG, False),
        ("inqueue", BIG, False),
        ("request", BIG, False),
        ("elastic", BIG, False),
    ),
    "node_card": (
        ("node", TEXT, False),
        ("card", TEXT, False),
        ("resource", TEXT, False),
        ("total", BIG, False),
        ("healthy", BIG, False),
        ("allocated", BIG, False),
        ("free", BIG, False),
    ),
    "pod_group": (
        ("pod_group", TEXT, False),
        ("queue", TEXT, False),
        ("phase", TEXT, False),
        ("min_available", BIG, False),
        ("pods_bound", BIG, False),
        ("pods_wanted", BIG, False),
        ("priority", BIG, False),
        ("since_ns", BIG, False),
        ("code", TEXT, False),
    ),
}

PLAIN: dict[str, tuple[Shape, ...]] = {
    "topology_node": (
        ("node", TEXT, False),
        ("switch", TEXT, False),
        ("switch_position", TEXT, False),
        ("superpod", TEXT, False),
        ("hypernodes", TEXT, False),
        ("rack", TEXT, False),
    ),
    "placement": (
        ("uid", TEXT, False),
        ("bound_position", BIG, False),
        ("pod", TEXT, False),
        ("pod_group", TEXT, False),
        ("queue", TEXT, False),
        ("node", TEXT, False),
        ("devices", TEXT, False),
        ("cards", TEXT, False),
        ("bound_at_ns", BIG, False),
        ("released_position", BIG, True),
        ("released_at_ns", BIG, True),
        ("reason", TEXT, False),
    ),
    "decision": (
        ("position", BIG, False),
        ("item", BIG, False),
        ("cycle", BIG, False),
        ("kind", TEXT, False),
        ("subject", TEXT, False),
        ("pod_group", TEXT, False),
        ("queue", TEXT, False),
        ("node", TEXT, False),
        ("code", TEXT, False),
        ("message", TEXT, False),
    ),
    "outcome": (
        ("position", BIG, False),
        ("decision", BIG, False),
        ("subject", TEXT, False),
        ("node", TEXT, False),
        ("result", TEXT, False),
        ("message", TEXT, False),
        ("attempts", BIG, False),
        ("latency_ns", BIG, False),
    ),
}
