"""Rows of views: the leaf switches, and the place of each node under them."""

from collections.abc import Iterable

from features.leaf_switches.index import STATES, VIEW, LeafSwitches, switch_map
from projections.cluster import Cluster
from projections.views.feature_rows import NodePlace, ViewRows
from projections.views.rows import Row


class SwitchStateRows(ViewRows):
    """The view `switch_state`, by name of a switch."""

    view = VIEW

    def keys(self, cluster: Cluster) -> Iterable[str]:
        """Return the names of all switches."""
        return cluster.indexes.of(LeafSwitches).numbers

    def rows(self, cluster: Cluster, key: str) -> list[Row]:
        """Return the row of a leaf switch."""
        index, network = cluster.indexes.of(LeafSwitches), switch_map(cluster)
        number = index.numbers.get(key)
        if number is None:
            return []
        switch = network.switches[number]
        state = index.state_of(number, switch)
        return [
            (
                key,
                STATES[state.is_shared],
                int(not state.is_unhealthy),
                len(switch.servers),
                index.nodes_under.get(number, 0),
                ", ".join(state.crossing),
                ", ".join(sorted(index.pods.get(number, ()))),
            )
        ]


class LeafSwitchPlace(NodePlace):
    """The switch of a node, and its position there."""

    def columns(self, cluster: Cluster, node: str) -> dict[str, str]:
        """Return switch and position of a node; nothing if it is under none."""
        place = cluster.indexes.of(LeafSwitches).places.get(node)
        if place is None:
            return {}
        name = switch_map(cluster).switches[place.switch].name
        return {"switch": name, "switch_position": str(place.position)}
