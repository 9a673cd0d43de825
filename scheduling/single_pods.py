"""The nodes of pods of which their groups need only one: chosen without a trial, as nothing else is placed beside the pod.

All groups under one key of allocation need an equal pod, so that what follows from its class, its queue and the policy is
determined once. What is answered here is only a node that has room now. All else, and why there is none, is left to
`gang_attempt.py`, and both give a pod the same node.
"""

from msgspec import Struct

from events.decision import Placement
from projections import quota_charging
from projections.device_family import JobShape
from projections.job_order import needs_one_pod
from projections.pod_class import PodClass
from projections.pod_groups import WAITING, PodGroup
from projections.pods import Charge
from projections.policy.placement_rules import NODE_BY_NODE
from projections.scheduling_queue import EquivalenceGroup
from scheduling.device_request import invalid_device_request
from scheduling.gang_placement import strategy_of
from scheduling.placement_strategy import PlacementStrategy
from scheduling.quota.queue_room import QueueRoom, QueueRooms
from scheduling.quota.quota_rules import quota_of
from scheduling.session import Session
from scheduling.shortage import Shortage
from scheduling.topology.default_spread import is_spread
from scheduling.topology.node_scope import ANY_NODE
from scheduling.work_budget import POD


class _Wanted(Struct, frozen=True):
    """What the pod of each group of one equivalence group needs."""

    pod_class: PodClass
    job: JobShape
    min_available: int
    """Minimum of the groups of this job."""
    charge: Charge
    """What the pod would be charged, of what has no choice of cards."""
    cards: Charge | None
    """The cards that would do, each with how many of it the pod would be charged; None if it uses none."""
    room: QueueRoom


class SinglePods:
    """Chooses the nodes of single pods, for the time of one action."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rooms = QueueRooms(session.cluster)
        self._wanted: dict[int, tuple[EquivalenceGroup, _Wanted | None]] = {}
        """Equivalence group, by identity, to what its groups need; None if they are placed in another way."""
        network, features = session.network, session.cluster.features
        self._has_plain_scores = network.unconstrained is ANY_NODE
        """Whether all nodes are scored alike for pods without a topology constraint."""
        self._spreads_owners = bool(network.spread_weight)
        self._asks_strategies = bool(features.of(PlacementStrategy))
        """Whether a feature may place groups under one key in different ways."""
        self._strategies: dict[tuple[str, bool], bool] = {}
        """Queue, and whether a group has a topology constraint, to whether it is placed node by node, where no feature places
        groups."""

    def placement(self, equivalence_group: EquivalenceGroup, group: PodGroup) -> Placement | None:
        """Return the node that the pod of the head gets now; None if it has to be placed on trial."""
        known = self._wanted.get(id(equivalence_group))
        if known is None:
            known = self._wanted[id(equivalence_group)] = equivalence_group, self._wanted_by(group)
        wanted = known[1]
        if wanted is None or not self._is_alike(group, wanted):
            return None
        cards: tuple[str, ...] | None = None
        if not wanted.room.may_use(wanted.charge):
            return None
        if wanted.cards is not None and not (cards := wanted.room.cards_with_room(wanted.cards)):
            return None
        session, pod = self._session, group.pending[0]
        ranking = session.rankings.of(wanted.pod_class, cards, wanted.job)
        node = ranking.best()
        if node is None:
            return None
        session.groups_examined += 1
        session.work.add(POD)
        session.work.add_pod(wanted.pod_class)
        resource = session.cluster.cards.resource
        charge = quota_charging.charge_on(session.cluster, wanted.pod_class, node.name)
        return Placement(
            pod=pod.key,
            uid=pod.facts.uid,
            node=node.name,
            cards={name: amount for name, amount in charge if name in resource},
            devices=ranking.devices.pick(node),
        )

    def _is_alike(self, group: PodGroup, wanted: _Wanted) -> bool:
        """Return whether what the key of the groups says is all that matters for this one."""
        if group.observed.min_available != wanted.min_available or len(group.classes) > 1:
            return False
        if group.pending[0].facts.nominated_node or (self._spreads_owners and is_spread(group)):
            return False
        return not self._asks_strategies or self._is_node_by_node(group)

    def _wanted_by(self, group: PodGroup) -> _Wanted | None:
        session, cluster = self._session, self._session.cluster
        if not self._has_plain_scores or group.decided.phase == WAITING:
            return None
        room = self._rooms.of(group.queue)
        if not needs_one_pod(cluster, group) or room.why_closed(allocates=True) is not None:
            return None
        pod = group.pending[0]
        pod_class = pod.pod_class
        if pod_class.unsupported or pod_class.claims or not self._is_node_by_node(group):
            return None
        if invalid_device_request(session, group) is not None:
            return None
        rules = quota_of(cluster)
        cards = rules.acceptable_cards(cluster, cluster.queues[group.queue], pod_class)
        if isinstance(cards, Shortage):
            return None
        return _Wanted(
            pod_class=pod_class,
            job=session.rankings.job_of(group),
            min_available=group.observed.min_available,
            charge=rules.without_cards(cluster.ledgers.requested.get(pod.facts.uid, ())),
            cards=cards,
            room=room,
        )

    def _is_node_by_node(self, group: PodGroup) -> bool:
        key = group.queue, group.has_topology_constraint
        found = None if self._asks_strategies else self._strategies.get(key)
        if found is None:
            strategy = strategy_of(self._session, group)
            found = strategy is not None and strategy.name == NODE_BY_NODE
            self._strategies[key] = found
        return found
