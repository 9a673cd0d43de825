"""`predicates`: the filters of Kubernetes: cordons, taints, selectors, ports, affinity, spread, volumes (rules K6.3 to
K6.6)."""

from typing import Final

import msgspec
from msgspec import Struct

from projections.nodes import NodeFacts
from projections.objects import Taint
from projections.pod_class import PodClass
from projections.policy.plugin_config import PluginConfig
from projections.selector import untolerated
from scheduling.node_predicates import ADMITTED, NOT_SELECTED, TAINTED, UNSCHEDULABLE, NodePredicate

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD: Final = ("NoSchedule", "NoExecute")


class PredicatesArguments(Struct, frozen=True):
    """Arguments of `predicates`: which filters are enabled."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    volume_attachment: bool = msgspec.field(
        default=True, name="predicate.ReadWriteOnceAttachmentEnable"
    )
    dynamic_resources: bool = msgspec.field(
        default=False, name="predicate.DynamicResourceAllocationEnable"
    )
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")


class Predicates(NodePredicate):
    """Filters nodes as the Kubernetes scheduler does."""

    name = "predicates"
    Arguments = PredicatesArguments

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        rules = config.arguments
        assert isinstance(rules, PredicatesArguments)
        self._rules = rules
        self.checks_ports = rules.node_ports
        self.checks_pod_affinity = rules.pod_affinity
        self.checks_spread = rules.spread
        self.checks_claims = rules.volume_binding or rules.volume_limits
        self.checks_volume_zones = rules.volume_zone
        self.pins_read_write_once = rules.volume_attachment

    def verdict(self, pod_class: PodClass, node: NodeFacts) -> int:
        """Return whether the node admits pods of this class, or the first filter that does not."""
        rules, tolerations = self._rules, pod_class.tolerations
        if node.unschedulable and untolerated((_CORDON,), tolerations, _HARD):
            return UNSCHEDULABLE
        if rules.taint_toleration and node.taints and untolerated(node.taints, tolerations, _HARD):
            return TAINTED
        if rules.node_affinity and not pod_class.selector.matches(node.name, node.labels):
            return NOT_SELECTED
        return ADMITTED
