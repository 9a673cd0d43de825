"""The table of features: one line for each. State is given it, and all that follows from it is handed on with State."""

from typing import Final

from features.ascend.feature import ASCEND, ASCEND_FAULTS
from features.faults.feature import FAULTS
from features.gpu_shares.feature import GPU_SHARES
from features.leaf_switches.feature import LEAF_SWITCHES
from features.pools.feature import POOLS
from features.super_pods.feature import SUPER_PODS
from projections.feature import FeatureTable
from projections.kind_table import kinds_with, selections_with
from scheduling.device_family_table import FAMILIES
from scheduling.plugin_table import PLUGINS
from scheduling.standing_tables import STANDING_TABLES

FEATURES: Final = FeatureTable(
    (FAULTS, POOLS, ASCEND, SUPER_PODS, LEAF_SWITCHES, ASCEND_FAULTS, GPU_SHARES),
    PLUGINS,
    (*FAMILIES, *STANDING_TABLES),
)
"""In the order in which their hooks are called: placement strategies without rules are tried in this order."""

KINDS: Final = kinds_with(FEATURES)
"""All observed kinds, by the name in records."""

SELECTIONS: Final = selections_with(FEATURES)
"""The ConfigMaps that are watched."""
