"""What was true at a position of a log, as rows with the columns of the views."""

import msgspec

from projections.state import State
from projections.views import now
from projections.views.catalogue import (
    DEVICE,
    NODE_CARD,
    POD_GROUP,
    QUEUE_QUOTA,
    SWITCH_STATE,
    TOPOLOGY_NODE,
)
from projections.views.feature_rows import ViewRows
from projections.views.rows import Cell, Row, View


def state_document(state: State) -> dict[str, object]:
    """Return queues, nodes with their cards, named devices, topology, leaf switches, pod groups and pods: a list of rows each."""
    cluster = state.cluster
    nodes = sorted(cluster.nodes.nodes)
    topology = {name: _rows(TOPOLOGY_NODE, now.topology_rows(cluster, name)) for name in nodes}
    return {
        "position": state.position,
        "cycle": state.cycle,
        "policy": state.policy_position,
        "commitments": len(state.commitments),
        "queues": [
            row
            for name in sorted(cluster.queues)
            for row in _rows(QUEUE_QUOTA, now.queue_rows(cluster, name))
        ],
        "nodes": [row for name in nodes for row in _node(state, name)],
        "devices": [row for name in nodes for row in _rows(DEVICE, now.device_rows(cluster, name))],
        "topology": [row for name in nodes for row in topology[name]],
        "switches": [
            row
            for one in cluster.features.of(ViewRows)
            if one.view == SWITCH_STATE.name
            for name in sorted(one.keys(cluster))
            for row in _rows(SWITCH_STATE, one.rows(cluster, name))
        ],
        "pod_groups": [
            row
            for key in sorted(cluster.groups)
            for row in _rows(POD_GROUP, now.group_rows(cluster, key))
        ],
        "pods": [
            {
                "pod": pod.key,
                "uid": uid,
                "pod_group": pod.group_key,
                "status": pod.status,
                "node": pod.node,
                "cards": msgspec.json.decode(now.cards_of(cluster, pod)),
                "devices": pod.devices,
            }
            for uid, pod in sorted(cluster.pods.items(), key=lambda item: (item[1].key, item[0]))
        ],
    }


def _node(state: State, name: str) -> list[dict[str, Cell]]:
    """A row for each card of the node: whole cards, MPS shares, MIG slices; one row without any."""
    node = state.cluster.nodes.nodes[name]
    cards = _rows(NODE_CARD, now.card_rows(state.cluster, name))
    return [
        {
            "node": name,
            "pods": len(node.pods),
            "cpu_free_milli": node.allocatable("cpu") - node.occupied.get("cpu", 0),
            "memory_free_bytes": node.allocatable("memory") - node.occupied.get("memory", 0),
            **{column: card[column] for column in NODE_CARD.column_names if column != "node"},
        }
        for card in cards or [dict.fromkeys(NODE_CARD.column_names)]
    ]


def _rows(view: View, rows: list[Row]) -> list[dict[str, Cell]]:
    return [dict(zip(view.column_names, row, strict=True)) for row in rows]
