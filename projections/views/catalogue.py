"""The views there are. Names and columns are a public contract: a change is a migration and a line
in the changelog."""

from projections.views.rows import View

QUEUE_QUOTA = View(
    name="queue_quota",
    version=1,
    keys=2,
    history=True,
    columns=(
        ("queue", "text"),
        ("resource", "text"),
        ("capability", "integer null"),
        ("guarantee", "integer"),
        ("deserved", "integer"),
        ("allocated", "integer"),
        ("inqueue", "integer"),
        ("request", "integer"),
        ("elastic", "integer"),
    ),
)
"""Queue and resource (`cpu` in milli, `memory` in bytes, or a card name in whole cards). A capability
that is null is unlimited."""

NODE_CARD = View(
    name="node_card",
    version=2,
    keys=2,
    history=True,
    columns=(
        ("node", "text"),
        ("card", "text"),
        ("resource", "text"),
        ("total", "integer"),
        ("healthy", "integer"),
        ("allocated", "integer"),
        ("free", "integer"),
    ),
)
"""Node and card, in whole cards. `total` is the node's capacity, `healthy` what it says it can
allocate; `free` = healthy - allocated may be negative when cards were lost under running pods."""

POD_GROUP = View(
    name="pod_group",
    version=1,
    keys=1,
    history=True,
    columns=(
        ("pod_group", "text"),
        ("queue", "text"),
        ("phase", "text"),
        ("min_available", "integer"),
        ("pods_bound", "integer"),
        ("pods_wanted", "integer"),
        ("priority", "integer"),
        ("since_ns", "integer"),
        ("code", "text"),
    ),
)
"""Pod group (`namespace/name`). `since_ns` is its creation time; `code` says why it waits, or is empty."""

TOPOLOGY_NODE = View(
    name="topology_node",
    version=2,
    keys=1,
    columns=(
        ("node", "text"),
        ("switch", "text"),
        ("switch_position", "text"),
        ("superpod", "text"),
        ("hypernodes", "text"),
        ("rack", "text"),
    ),
)
"""Node and where it stands in the network, as its labels say; empty where they do not. `hypernodes` are the
HyperNodes that it is in, the closest first."""

PLACEMENT = View(
    name="placement",
    version=1,
    keys=2,
    columns=(
        ("uid", "text"),
        ("bound_position", "integer"),
        ("pod", "text"),
        ("pod_group", "text"),
        ("queue", "text"),
        ("node", "text"),
        ("devices", "text"),
        ("cards", "text"),
        ("bound_at_ns", "integer"),
        ("released_position", "integer null"),
        ("released_at_ns", "integer null"),
        ("reason", "text"),
    ),
)
"""A pod's time on a node: from the decision that bound it (or the record that showed it there) to its
release. `devices` and `cards` are JSON; `reason` says why it was released."""

DECISION = View(
    name="decision",
    version=1,
    keys=2,
    columns=(
        ("position", "integer"),
        ("item", "integer"),
        ("cycle", "integer"),
        ("kind", "text"),
        ("subject", "text"),
        ("pod_group", "text"),
        ("queue", "text"),
        ("node", "text"),
        ("code", "text"),
        ("message", "text"),
    ),
)
"""A decision, one row a pod where it is about pods; `item` counts these from 0."""

OUTCOME = View(
    name="outcome",
    version=1,
    keys=1,
    columns=(
        ("position", "integer"),
        ("decision", "integer"),
        ("subject", "text"),
        ("node", "text"),
        ("result", "text"),
        ("message", "text"),
        ("attempts", "integer"),
        ("latency_ns", "integer"),
    ),
)
"""What came of a decision for one pod or pod group: `bound`, `failed`, `unknown`, `updated`."""

VIEWS = (QUEUE_QUOTA, NODE_CARD, POD_GROUP, TOPOLOGY_NODE, PLACEMENT, DECISION, OUTCOME)
"""Every view, in the order in which they are written."""
