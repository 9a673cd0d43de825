"""The views. Names and columns are a public contract: a change is a migration and a line in the changelog."""

from projections.views.rows import View

QUEUE_QUOTA = View(
    name="queue_quota",
    version=2,
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
"""Key: queue and resource (`cpu` in milli, `memory` in bytes, or a card name in whole cards). A null capability is
unlimited. `allocated`, `inqueue`, `request` and `elastic` of a queue with queues below it are the sum over all of them."""

NODE_CARD = View(
    name="node_card",
    version=3,
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
"""Key: node and card; amounts in whole cards. `total` is the node's capacity, `healthy` its allocatable amount;
`free` = healthy - allocated is negative if cards were lost under running pods."""

DEVICE = View(
    name="device",
    version=2,
    keys=2,
    columns=(
        ("node", "text"),
        ("device", "text"),
        ("resource", "text"),
        ("card", "text"),
        ("product", "text"),
        ("device_groups", "text"),
        ("healthy", "integer"),
        ("network_healthy", "integer"),
        ("fault", "text"),
        ("pod", "text"),
    ),
)
"""Key: node and device; only devices with names. `device_groups` are the rings, dies, cards or meshes that it belongs to. `healthy`
and `network_healthy` are 0 or 1; `fault` is why it cannot be given, or empty. `pod` are the pods that have it, whole or in
part, or empty."""

POD_GROUP = View(
    name="pod_group",
    version=2,
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
"""Key: pod group (`namespace/name`). `since_ns` is its creation time; `code` is the code of the refusal, or empty."""

TOPOLOGY_NODE = View(
    name="topology_node",
    version=3,
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
"""Key: node. Its place in the network: by the map of leaf switches and its device report where the policy names
`volcano-npu`, else by its labels; empty if none states it. `hypernodes` are the HyperNodes that contain it, the closest first."""

SWITCH_STATE = View(
    name="switch_state",
    version=1,
    keys=1,
    history=True,
    columns=(
        ("switch", "text"),
        ("state", "text"),
        ("healthy", "integer"),
        ("servers", "integer"),
        ("nodes", "integer"),
        ("crossing", "text"),
        ("jobs", "text"),
    ),
)
"""Key: leaf switch, by its address; none unless the policy names `volcano-npu`. `state` is `idle`, `shared` or `exclusive`, and `healthy` 0 or 1; `servers` are those
in the map, `nodes` those of them that are nodes. `jobs` are the pod groups on it that are placed by leaf switches,
`crossing` the jobs that cross it: while one is restarted after a fault, also where it has lost its pods."""

FAULT = View(
    name="fault",
    version=1,
    keys=5,
    history=True,
    columns=(
        ("node", "text"),
        ("source", "text"),
        ("device", "text"),
        ("level", "text"),
        ("code", "text"),
        ("effect", "text"),
        ("pods", "integer"),
        ("done", "text"),
        ("since_position", "integer"),
        ("since_ns", "integer"),
    ),
)
"""Key: node, source, device, level and code of a fault that stands; `device` is empty for a fault of the node. `effect` is what follows
for pods, `pods` the most pods that it hit at one time. `done` are the pod groups that were restarted for it, each with the positions of the
decisions, or `recorded only`. It stands since the batch that ends at `since_position` and was written at `since_ns`; a row of the history
ends where one of its columns changes, or the fault is gone."""

PLACEMENT = View(
    name="placement",
    version=2,
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
"""The time of a pod on a node: from the decision that bound it (or the record that showed it there) to its release.
`devices` and `cards` are JSON; `reason` is why it was released."""

POD = View(
    name="pod",
    version=1,
    keys=1,
    history=True,
    columns=(
        ("uid", "text"),
        ("pod", "text"),
        ("namespace", "text"),
        ("owner", "text"),
        ("labels", "text"),
        ("pod_group", "text"),
        ("queue", "text"),
        ("cards", "text"),
        ("evicted_for", "text"),
    ),
)
"""Key: pod, by its UID; every pod of the cluster, placed or not. `owner` is its controller (`Job/namespace/name`), or empty. `labels`
are those that the setting `pod_labels` names, as JSON. `pod_group` and `queue` are empty for pods of other schedulers. `cards` are the accelerators that it requests, as JSON: by
the models that it accepts, else by resource; what it was charged is in `placement`. `evicted_for` is the pod group for which it was evicted or asked to
release its cards, or empty."""

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
"""A decision, one row per pod if it is about pods; `item` counts these from 0."""

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
"""The outcome of a decision for one pod or pod group: `bound`, `failed`, `unknown`, `updated`."""

VIEWS = (
    QUEUE_QUOTA,
    NODE_CARD,
    DEVICE,
    POD_GROUP,
    TOPOLOGY_NODE,
    SWITCH_STATE,
    FAULT,
    PLACEMENT,
    POD,
    DECISION,
    OUTCOME,
)
"""All views, in the order in which they are written."""
