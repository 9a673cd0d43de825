"""Leaf switches (ToR affinity of the Ascend stack), where the policy names `volcano-npu`."""

from typing import Final

from features.ascend.volcano_npu import names_npu
from features.leaf_switches.annotations import LeafSwitchAnnotations
from features.leaf_switches.config_map import SWITCH_MAP_KIND
from features.leaf_switches.documents import SwitchGauge, SwitchResults, SwitchTopology
from features.leaf_switches.index import LeafSwitches
from features.leaf_switches.placement import LeafSwitchPlacement
from features.leaf_switches.rows import LeafSwitchPlace, SwitchStateRows
from features.leaf_switches.switch_states import SwitchStates
from projections.feature import Feature

LEAF_SWITCHES: Final = Feature(
    name="leaf switches",
    is_named=names_npu,
    hooks=(
        SWITCH_MAP_KIND,
        LeafSwitchPlacement(),
        LeafSwitchAnnotations(),
        SwitchStates(),
        SwitchStateRows(),
        LeafSwitchPlace(),
        SwitchResults(),
        SwitchTopology(),
        SwitchGauge(),
    ),
    indexes=(LeafSwitches,),
)
