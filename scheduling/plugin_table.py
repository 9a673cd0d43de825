"""The plugins of muster that belong to no feature."""

from typing import Final

from projections.policy.plugin_config import PolicyPlugin
from scheduling.plugins.binpack import BinPack
from scheduling.plugins.capacity import Capacity
from scheduling.plugins.capacity_card import CapacityCard
from scheduling.plugins.conformance import Conformance
from scheduling.plugins.drf import Drf
from scheduling.plugins.gang import Gang
from scheduling.plugins.network_topology_aware import NetworkTopologyAware
from scheduling.plugins.nodeorder import NodeOrderPlugin
from scheduling.plugins.overcommit import Overcommit
from scheduling.plugins.predicates import Predicates
from scheduling.plugins.priority import Priority
from scheduling.plugins.proportion import Proportion
from scheduling.plugins.sla import Sla

PLUGINS: Final[tuple[type[PolicyPlugin], ...]] = (
    BinPack,
    Capacity,
    CapacityCard,
    Conformance,
    Drf,
    Gang,
    NetworkTopologyAware,
    NodeOrderPlugin,
    Overcommit,
    Predicates,
    Priority,
    Proportion,
    Sla,
)
