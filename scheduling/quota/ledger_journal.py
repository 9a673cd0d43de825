"""Which queues changed: for indexes whose value for a queue follows from its ledger and object, what queues deserve, and
the resources of the cluster."""

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.policy.policy import Policy


class LedgerJournal:
    """One reader of the journal of changed ledgers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._policy: Policy | None = None
        self._deserved: object = None
        self._totals: Amounts = {}
        self._tree_version = -1
        self._journal: list[str] = []
        self._read = 0

    def read(self) -> dict[str, None] | None:
        """Return the names of the queues that changed since the last call; None if all may have changed.

        All may have changed at the first call, and after a change of the policy, of the set or the tree of queues, of
        what queues deserve, or of the resources of the cluster.
        """
        cluster = self._cluster
        journal = cluster.changed_ledgers
        if (
            self._policy is not cluster.policy
            or self._tree_version != cluster.queue_tree.version
            or self._deserved is not cluster.plugins.quota.deserved_version(cluster)
            or self._totals != cluster.resources.allocatable
            or self._journal is not journal
        ):
            self._policy, self._tree_version = cluster.policy, cluster.queue_tree.version
            self._deserved, self._totals = (
                cluster.plugins.quota.deserved_version(cluster),
                dict(cluster.resources.allocatable),
            )
            self._journal, self._read = journal, len(journal)
            return None
        changed = dict.fromkeys(journal[self._read :]) if self._read < len(journal) else {}
        self._read = len(journal)
        return changed
