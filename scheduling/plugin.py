"""Hooks of plugins that a cycle calls while it decides (those of the fold are in `projections/plugin.py`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from projections.index import IndexT
from projections.plugin import Plugin, Quota
from projections.policy.policy import RECLAIMING
from scheduling.node_columns import Column, NodeColumns
from scheduling.shortage import Shortage

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.nodes import NodeFacts, NodeTable
    from projections.pod_class import Amounts, PodClass
    from projections.pod_groups import PodGroup
    from projections.pods import Charge, Pod
    from projections.queues import Queue
    from scheduling.device_points import DeviceStates
    from scheduling.quota.fair_tree import FairTree
    from scheduling.quota.reclaimable import ReclaimableResources
    from scheduling.quota.reclaiming import RemainingCharges
    from scheduling.victims.preemptor import Preemptor

Vote: TypeAlias = Shortage | Literal["permit", "abstain"]

ADMITTED: Final = 0
"""Verdict on a node that admits a pod; every other number is a reason (`scheduling/node_predicates.py`)."""


# Pod groups


class FaultGrace(Plugin):
    """Hook: how long pods that are deleted after a fault may take to end."""

    @property
    @abstractmethod
    def grace_ns(self) -> int:
        """Return the time until such pods are deleted by force, where the policy states none."""


class JobEnqueueable(Plugin):
    """Hook: admission of a pod group to its queue. The first shortage refuses it; after a permit in a tier later tiers
    are not asked."""

    FLAG = "enableJobEnqueued"

    @abstractmethod
    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Return the vote on a group. `reclaimable` is what evictions could release for it."""


class ClusterQuota(JobEnqueueable):
    """Hook: admission by what the whole cluster can reserve. A group that is refused for a resource awaits
    `cluster-quota/NAME` (`events/requeue.py`), and is not asked again before its minimum can be reserved."""

    @abstractmethod
    def awaited(self, group: PodGroup, name: str) -> int:
        """Return how much of a resource is reserved for a group."""

    @abstractmethod
    def available(self, cluster: Cluster, name: str) -> int:
        """Return how much of a resource can still be reserved; negative if more than allowed is."""


class JobPipelined(Plugin):
    """Hook: whether a gang may hold the room found for only some of its pods. The first tier with votes decides."""

    FLAG = "enableJobPipelined"

    @abstractmethod
    def may_hold_part(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return whether the group may hold a part of what it needs."""


# Queues


class QueueKey(Protocol):
    """The value by which a plugin sorts a queue."""

    def compare(self, other: QueueKey) -> int:
        """Return a negative number if this queue comes first, a positive one if the other does."""


class _NoOrder:
    """The key of queues that are not ordered."""

    def compare(self, _other: QueueKey) -> int:
        """Return 0: neither comes first."""
        return 0


class QueueOrder(Plugin):
    """Hook: the order of queues."""

    FLAG = "enableQueueOrder"
    keeps_fair_tree: bool = False
    """Whether queues are compared by their places in the tree of shares (`scheduling/quota/fair_tree.py`)."""

    @abstractmethod
    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return the value by which a queue is sorted. `fair` is the tree of shares, if one is kept."""


# Victims


class VictimFilter(Plugin):
    """Hook: which candidates may be evicted. The plugins of a tier must agree; the first tier that agrees on any
    victim decides."""

    actions: ClassVar[tuple[str, ...]] = ()
    """The evicting actions whose victims it filters."""
    compares_groups: ClassVar[bool] = False
    """Whether it compares pod groups with one another, and not only pods or queues."""
    prevents_reclaim_back: ClassVar[bool] = False
    """Whether what it agrees on cannot be taken back by the group that loses it."""
    takes_surplus_only: ClassVar[bool] = False
    """Whether only groups with more pods than minMember give victims."""
    takes_lower_priority_only: ClassVar[bool] = False
    """Whether only groups of lower priority give victims."""

    def filters(self, action: str) -> bool:
        """Return whether it filters the victims of an action."""
        flag = "enableReclaimable" if action in RECLAIMING else "enablePreemptable"
        return action in self.actions and self.takes_part(flag)

    @abstractmethod
    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that the plugin accepts as victims, in the order given."""


# Nodes


class NodeScorer(Protocol):
    """The score of nodes for pods of one class, from what a node has and what is free on it."""

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        """Return the score of one node, in thousandths of a point."""

    def of_columns(self, columns: NodeColumns) -> Column:
        """Return the scores of the nodes of these columns."""


class ScoreWeights(Struct, frozen=True):
    """Weights of the scores that are normalized over the feasible nodes, or depend on other pods."""

    node_affinity: int = 0
    taint_toleration: int = 0
    image_locality: int = 0
    pod_affinity: int = 0
    topology_spread: int = 0
    card_order: int = 0
    """In thousandths: weight of the order of preference in `A|B`."""

    def plus(self, other: ScoreWeights) -> ScoreWeights:
        """Return the sum."""
        return ScoreWeights(
            self.node_affinity + other.node_affinity,
            self.taint_toleration + other.taint_toleration,
            self.image_locality + other.image_locality,
            self.pod_affinity + other.pod_affinity,
            self.topology_spread + other.topology_spread,
            self.card_order + other.card_order,
        )


class NodeOrder(Plugin):
    """Hook: scores of nodes by what is requested and free."""

    FLAG = "enableNodeOrder"

    def scorer(self, pod_class: PodClass) -> NodeScorer | None:
        """Return what scores nodes for pods of a class; None if nothing does."""
        return None

    def parts(self, pod_class: PodClass) -> dict[str, NodeScorer]:
        """Return the same in parts, for explanations: name to scorer. The score of a node is their sum."""
        scorer = self.scorer(pod_class)
        return {} if scorer is None else {self.name: scorer}

    def weights(self) -> ScoreWeights:
        """Return the weights of the scores that are computed for all plugins together."""
        return ScoreWeights()


class DeviceScorer(Protocol):
    """The score of nodes for pods of one class, from what is free of their devices and of their other resources."""

    def of_slots(self, table: NodeTable, states: DeviceStates, slots: Sequence[int]) -> Column:
        """Return the scores of the nodes in these slots, on which the pod has room now: 0 or more, in thousandths of a
        point."""


class DeviceOrder(Plugin):
    """Hook: scores of nodes by what is free of the devices of one family."""

    FLAG = "enableNodeOrder"
    family: ClassVar[str]
    """Name of the device family."""

    @property
    def replaces_points(self) -> bool:
        """Return whether its scores take the place of the points that the family gives."""
        return False

    @abstractmethod
    def device_scorer(self, pod_class: PodClass) -> DeviceScorer | None:
        """Return what scores nodes for pods of a class; None if nothing does."""


class NodePredicate(Plugin):
    """Hook: whether a node admits pods of a class, whatever is free on it and whichever pods are there."""

    FLAG = "enablePredicate"
    checks_ports: bool = False
    """Whether a node is excluded if one of its pods uses a host port of the pod."""
    checks_pod_affinity: bool = False
    """Whether required affinity and anti-affinity between pods are evaluated."""
    checks_spread: bool = False
    """Whether topology spread constraints are evaluated."""
    checks_claims: bool = True
    """Whether the claims of pods must be bound, and a node must be within reach of their volumes."""
    checks_volume_zones: bool = True
    """Whether a node must be in the zones that the labels of volumes name."""
    pins_read_write_once: bool = True
    """Whether a ReadWriteOnce volume that is attached keeps further pods on the node where it is in use."""

    def verdict(self, pod_class: PodClass, node: NodeFacts) -> int:
        """Return ADMITTED, or the number of the first reason why not (`scheduling/node_predicates.py`)."""
        return ADMITTED


class NodeView(Protocol):
    """A node as plugins beside muster see it."""

    name: str
    labels: Mapping[str, str]
    facts: NodeFacts
    """What muster reads of its object."""
    free: Mapping[str, int]
    """Resource to what is free of it: cpu in milli, memory in bytes, others in whole units."""

    @property
    def pods(self) -> Iterable[Pod]:
        """Yield the pods that are on the node or will be: those tried there by this decision, too, and without
        those that are about to leave if the question is about the time after."""

    @property
    def arriving(self) -> Iterable[Pod]:
        """Yield those of `pods` that State does not have on the node yet."""

    @property
    def leaving(self) -> Iterable[Pod]:
        """Yield the pods that State has on the node and that are left out of `pods`."""

    def index(self, kind: type[IndexT]) -> IndexT:
        """Return the index of this class that a plugin brings (`Plugin.indexes`): what State has, without `arriving`
        and with `leaving`."""


class NodeFilter(Plugin):
    """Hook for plugins beside muster: whether a node admits a pod, from its object and the pods on it.

    The answer is kept for each class of pods, and asked again when the node or the pods on it change. Pods are of one
    class if they request the same under the same constraints; labels of theirs that the plugin reads must be named in
    `pod_labels`, and are then in `pod.plugin_labels`.
    """

    FLAG = "enablePredicate"

    @abstractmethod
    def filter(self, pod: PodClass, node: NodeView) -> str:
        """Return why the node does not admit pods of the class; "" if it does. The text follows "2 node(s)": "had 3
        pods of team a"."""


class NodeScore(Plugin):
    """Hook for plugins beside muster: points of a node for a pod, from its object and the pods on it (as for
    `NodeFilter`)."""

    FLAG = "enableNodeOrder"

    @property
    def weight(self) -> int:
        """Return the factor of the points: the argument `weight`, if the plugin has one."""
        weight = getattr(self.config.arguments, "weight", 1)
        return weight if isinstance(weight, int) else 1

    @abstractmethod
    def score(self, pod: PodClass, node: NodeView) -> float:
        """Return the points of a node, from 0 to 100. Thousandths count."""


class NetworkTopology(Plugin):
    """Hook: the order of HyperNodes, and scores of nodes by their place in the network."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = ()
    """Name and weight of resources that count for the utilization of a domain."""
    is_for_normal_pods: bool = True
    """Whether pods without a network topology constraint are scored, too."""
    tier_decay: Fraction = Fraction(4, 5)
    """Factor of the weight of a domain with each higher tier, for such pods."""

    @property
    def orders_hyper_nodes(self) -> bool:
        """Return whether HyperNodes of equal preference are ordered."""
        return self.takes_part("enabledHyperNodeOrder")

    @property
    def scores_nodes(self) -> bool:
        """Return whether nodes are scored."""
        return self.takes_part("enableNodeOrder")


# Quotas


class QuotaRules(Quota, QueueOrder):
    """Hook: the limits of queues while a cycle decides. This class is the rule without a quota plugin."""

    ancestor_reclaim_level: int = 0
    """Number of levels of ancestor queues that are compared for reclaiming."""
    protects_deserved: bool = False
    """Whether a queue that has no more than it deserves loses nothing to others."""
    keeps_reclaimed: ClassVar[bool] = False
    """Whether what a queue may reclaim can never be reclaimed back, because it deserves all of it."""
    compares_shares: ClassVar[bool] = False
    """Whether a queue that deserves only a part of a request may reclaim it from queues with a larger share."""

    @property
    def limits_pods(self) -> bool:
        """Return whether quotas also limit placement, and not only admission."""
        return not self.charges_resources or self.takes_part("enabledAllocatable")

    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return a key by which all queues are equal."""
        return _NoOrder()

    def closed(self, cluster: Cluster, queue: Queue, *, allocates: bool) -> Shortage | None:
        """Return why an open queue still accepts no pod group, or None."""
        return None

    def limit_beside_nodes(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the limit of a queue that stays whatever nodes are added, for use and reservations; None without one."""
        return self.limit(cluster, queue, name)

    def share(self, cluster: Cluster, queue: Queue) -> tuple[int, int]:
        """Return used / deserved of a queue in the resource where it is largest: numerator, denominator.

        Without a tree it may depend on the queue, on what queues deserve and on the resources of the cluster only:
        `QueueOrderIndex` keeps it until one of these changes.
        """
        return 0, 1

    def comes_before_equals(self, cluster: Cluster, queue: Queue) -> bool:
        """Return whether a queue comes before queues with an equal share."""
        return False

    def reclaim_denied(
        self, cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
    ) -> str:
        """Return why no pod of another queue may be evicted for a pod with this request; "" if it may."""
        return ""

    def exceeds_deserved(self, cluster: Cluster, queue: Queue) -> bool:
        """Return whether a queue has more than it deserves of anything. `DonorQueues` keeps it until the ledger of the
        queue, what queues deserve, or the resources of the cluster change."""
        have, deserved = queue.allocated, self.deserved(cluster, queue)
        return any(amount > deserved.get(name, 0) for name, amount in have.items())

    def relevant_to_deserved(self, request: Charge, deserved: Amounts) -> Charge:
        """Return the part of a request that counts against what its queue deserves."""
        return request

    def is_victim(self, left: RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
        """Return whether the queue of a pod loses it to a pod of `queue` with this request."""
        return True


NO_RULES: Final = QuotaRules(Quota.NONE)


def quota_of(cluster: Cluster) -> QuotaRules:
    """Return the quota rules of the policy in force."""
    rules = cluster.plugins.quota
    return rules if isinstance(rules, QuotaRules) else NO_RULES


def keeps_fair_tree(cluster: Cluster) -> bool:
    """Return whether queues are compared by their places in a tree of shares."""
    return any(isinstance(one, QueueOrder) and one.keeps_fair_tree for one in cluster.plugins.all)


def network_topology(cluster: Cluster) -> NetworkTopology | None:
    """Return the plugin for network topology, if the policy names one."""
    return next(iter(cluster.plugins.of(NetworkTopology)), None)


def score_weights(plugins: Sequence[NodeOrder]) -> ScoreWeights:
    """Return the weights of all plugins."""
    total = ScoreWeights()
    for one in plugins:
        total = total.plus(one.weights())
    return total
