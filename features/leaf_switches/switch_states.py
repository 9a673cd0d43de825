"""What each leaf switch is, as the vendor's scheduler writes it into `tor-share-cm` for operators."""

from collections.abc import Iterator
from typing import Final

import msgspec

from events.messages import ConfigMapRequest
from features.ascend.volcano_npu import npu_arguments
from features.leaf_switches.index import LeafSwitches, switch_map
from projections.cluster import Cluster
from projections.nodes import NodeFacts
from projections.written_config_map import WrittenConfigMap

KEY: Final = "global-tor-info"
"""Key of its data."""

BYTES_MAX: Final = 900_000
"""Maximum bytes of the text: a ConfigMap holds 1 MiB. Beyond it the nodes are left out."""


class SwitchStates(WrittenConfigMap):
    """What each leaf switch is, for the rules 2.0."""

    what = "leaf switches"
    namespace, name = "volcano-system", "tor-share-cm"

    def is_due(self, cluster: Cluster) -> bool:
        """Return whether what leaf switches are has changed since it was written."""
        index = cluster.indexes.of(LeafSwitches)
        if not index.numbers or index.reported_at >= index.changed_at:
            return False
        arguments = npu_arguments(cluster.plugins)
        return arguments is not None and arguments.nslb_version == "2.0"

    def requests(self, cluster: Cluster) -> Iterator[ConfigMapRequest]:
        """Yield the request to write it, if it is due."""
        if self.is_due(cluster):
            index = cluster.indexes.of(LeafSwitches)
            data = {KEY: self.text(cluster)}
            yield ConfigMapRequest(index.changed_at, self.namespace, self.name, data, self.what)

    def written(self, cluster: Cluster, position: int) -> None:
        """Record up to which position what leaf switches are was written."""
        cluster.indexes.of(LeafSwitches).reported_at = position

    def text(self, cluster: Cluster) -> str:
        """Return the text: switch to its attributes, and its nodes with the jobs on them."""
        text = self._text_of(cluster, has_nodes=True)
        return text if len(text) <= BYTES_MAX else self._text_of(cluster, has_nodes=False)

    def _text_of(self, cluster: Cluster, *, has_nodes: bool) -> str:
        index = cluster.indexes.of(LeafSwitches)
        found: dict[str, object] = {}
        for number, switch in enumerate(switch_map(cluster).switches):
            state = index.state_of(number, switch)
            jobs: dict[str, dict[str, None]] = {}
            for key, pods in index.pods.get(number, {}).items() if has_nodes else ():
                for uid in pods:
                    jobs.setdefault(cluster.pods[uid].node, {})[key.rpartition("/")[2]] = None
            nodes = [
                {
                    "NodeIp": _address(cluster.nodes.nodes[name].facts),
                    "NodeName": name,
                    "JobName": sorted(names),
                }
                for name, names in sorted(jobs.items())
            ]
            found[switch.name] = {
                "IsHealthy": int(state.is_unhealthy),
                "IsSharedTor": state.is_shared,
                **({"nodes": nodes} if has_nodes else {}),
            }
        return msgspec.json.encode(found).decode()


def _address(facts: NodeFacts | None) -> str:
    return "" if facts is None else facts.address
