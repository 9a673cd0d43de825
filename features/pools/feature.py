"""Pools of nodes, where the policy has others than one that is decided by `session`."""

from typing import Final

from features.pools.decider import PoolDeciders
from features.pools.explain import OverrideHurdles
from features.pools.facts import PoolFacts
from features.pools.group_overrides import GroupOverrides
from features.pools.index import Members, PoolIndex, PoolsDue
from features.pools.job_options import OptionReader
from features.pools.override_kind import GROUP_OVERRIDE
from features.pools.standing import STANDING
from projections.feature import Feature
from projections.policy.policy import Policy


def has_pools(policy: Policy) -> bool:
    """Return whether a policy has several pools, another decider than `session`, or a rule about who may use its pool."""
    return not policy.pools.is_plain or policy.restricts_pools


POOLS: Final = Feature(
    name="pools",
    is_named=has_pools,
    hooks=(
        STANDING,
        GROUP_OVERRIDE,
        OptionReader(),
        Members(),
        PoolsDue(),
        PoolDeciders(),
        OverrideHurdles(),
    ),
    tables=(PoolFacts,),
    indexes=(GroupOverrides, PoolIndex),
)
