"""Which pool of nodes each node and each pod group belongs to, where the policy has several.

Which nodes and pod groups these are is computed by the feature `pools`; without it, all are in the one pool of the policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from projections.policy.policy import Policy
from projections.policy.pools import Pool

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_groups import PodGroup


class PoolMembers(ABC):
    """A hook that divides the nodes and pod groups of a cluster among the pools of the policy."""

    @abstractmethod
    def nodes(self, cluster: Cluster) -> Mapping[str, str]:
        """Return node to pool; "" for a node in none."""

    @abstractmethod
    def groups(self, cluster: Cluster) -> Mapping[str, str]:
        """Return pod group to pool; "" for one that names a pool that does not exist."""

    @abstractmethod
    def pool_of(self, cluster: Cluster, group: PodGroup) -> str:
        """Return the pool of a pod group as its object, pods and namespace say now; "" if it names one that does not exist."""

    @abstractmethod
    def is_put_by_operator(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return whether an operator has put a pod group into its pool."""

    @abstractmethod
    def policy_problem(self, cluster: Cluster, policy: Policy) -> str:
        """Return why another policy cannot take the place of the one in force; "" if it can."""


def pool_of(cluster: Cluster, group: PodGroup) -> Pool | None:
    """Return the pool of a pod group; None if it names one that does not exist."""
    pools, members = cluster.policy.pools, cluster.features.pool_members
    return pools.all[0] if members is None else pools.named(members.pool_of(cluster, group))


def is_decided_by_actions(cluster: Cluster, key: str) -> bool:
    """Return whether a pod group is in a pool that is decided by actions and plugins."""
    members = cluster.features.pool_members
    return members is None or members.groups(cluster).get(key) not in cluster.policy.pools.deciders
