"""Pools of nodes, where the policy has others than one that is decided by `session`."""

from typing import Final

from features.pools.standing import STANDING
from projections.feature import Feature
from projections.policy.policy import Policy
from projections.pool_facts import PoolFacts
from projections.pool_index import PoolIndex, PoolsDue


def has_pools(policy: Policy) -> bool:
    """Return whether a policy has pools of its own."""
    return not policy.pools.is_plain


POOLS: Final = Feature(
    name="pools",
    is_named=has_pools,
    hooks=(STANDING, PoolsDue()),
    tables=(PoolFacts,),
    indexes=(PoolIndex,),
)
