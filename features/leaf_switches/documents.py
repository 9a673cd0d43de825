"""What documents and metrics say of leaf switches."""

from collections.abc import Mapping

import msgspec

from events.json_value import JsonObject
from features.leaf_switches.index import STATES, known_switches
from features.leaf_switches.switch_states import SwitchStates
from projections.cluster import Cluster
from projections.feature_documents import Gauge, NodeEntry, ResultSection, TopologySection

UNHEALTHY = "unhealthy"


class SwitchResults(ResultSection):
    """What each switch is for jobs, the pod groups on it, and its entry in `tor-share-cm`."""

    name = "switches"

    def section(self, cluster: Cluster) -> JsonObject:
        """Return the switches by name."""
        found: JsonObject = {}
        index, switches = known_switches(cluster)
        if not switches:
            return found
        written: JsonObject = msgspec.json.decode(SwitchStates().text(cluster))
        for name, number in sorted(index.numbers.items()):
            is_now = index.state_of(number, switches[number])
            found[name] = {
                "state": STATES[is_now.is_shared],
                "healthy": not is_now.is_unhealthy,
                "jobs": [*sorted(index.pods.get(number, ()))],
                "crossing": [*is_now.crossing],
                "tor_share_cm": written[name],
            }
        return found


class SwitchTopology(TopologySection):
    """The switches with their nodes, by position."""

    name = "switches"

    def places(self, cluster: Cluster) -> Mapping[str, object]:
        """Return the nodes under switches."""
        return known_switches(cluster)[0].places

    def parts(self, cluster: Cluster, entry: NodeEntry) -> list[dict[str, object]]:
        """Return the switches in the order of the map."""
        index, switches = known_switches(cluster)
        present = cluster.nodes.nodes
        under: dict[int, list[str]] = {}
        for name in sorted(index.places):
            if name in present and present[name].facts is not None:
                under.setdefault(index.places[name].switch, []).append(name)
        found: list[dict[str, object]] = []
        for number, switch in enumerate(switches):
            is_now = index.state_of(number, switch)
            names = sorted(under.get(number, ()), key=lambda one: (index.places[one].position, one))
            found.append(
                {
                    "switch": switch.name,
                    "state": STATES[is_now.is_shared],
                    "healthy": not is_now.is_unhealthy,
                    "servers": len(switch.servers),
                    "crossing": [*is_now.crossing],
                    "nodes": [
                        {"position": index.places[one].position, **entry(one)} for one in names
                    ],
                }
            )
        return found


class SwitchGauge(Gauge):
    """Switches by what they are for jobs."""

    metric = "muster_leaf_switches"
    help = (
        "Leaf switches of the switch map, by their state for jobs that are placed by leaf switch."
    )
    label = "state"
    values = "`idle`, `shared`, `exclusive`, or `unhealthy` (shared, above the limit of some job)"

    def counts(self, cluster: Cluster) -> Mapping[str, int]:
        """Return the number of switches by state."""
        counts = dict.fromkeys((*STATES, UNHEALTHY), 0)
        index, switches = known_switches(cluster)
        for number, switch in enumerate(switches):
            state = index.state_of(number, switch)
            counts[UNHEALTHY if state.is_unhealthy else STATES[state.is_shared]] += 1
        return counts
