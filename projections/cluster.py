"""Keep nodes, pods, pod groups and queues, and every sum over them.

Each change removes an entry from all sums in its old form and adds it in its new form; sums are never recounted.
`projections/audit.py` recounts them to detect errors.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from projections import quota_charging
from projections.bind_backoffs import BindBackoffs
from projections.budget_refusals import BudgetRefusal
from projections.cluster_resources import ClusterResources
from projections.cluster_totals import ClusterTotals
from projections.config_errors import ConfigErrors
from projections.deltas import (
    ONLY_RUNS,
    OTHER_CHARGE,
    RECORD_APPLIED,
    SAME_CHARGE,
    PodChanged,
    PodWithClaimsChanged,
    PolicyChanged,
    QueueChanged,
)
from projections.device_holders import DeviceHolders
from projections.disruption_budgets import Budgets
from projections.faulty_pods import FaultyPods
from projections.feature import FeatureTable, NamedFeatures
from projections.feature_device_families import families_of
from projections.foreign_pod_groups import ForeignPodGroups
from projections.idle_reservations import IdleReservations
from projections.index import Index, Indexes
from projections.inter_pod_affinity_index import (
    InterPodAffinityIndex,
)
from projections.kept_quota import KeptQuota
from projections.namespace_access import NamespaceAccess
from projections.node_use import NodeUse
from projections.nodes import NodeTable
from projections.pending_status import PendingStatus
from projections.plugin import PluginSet, build_plugins
from projections.pod_group_index import PodGroupIndex
from projections.pod_group_resolution import group_key_of
from projections.pod_groups import (
    PodGroup,
)
from projections.pod_waits import PodWaits
from projections.pods import (
    BINDING,
    Pod,
    PodFacts,
    has_same_attributes,
    has_same_charge,
    node_share,
    stays_alike,
)
from projections.policy.policy import BUILT_IN, Policy, parse_policy
from projections.preemption_triggers import (
    PriorityClass,
    record_victim_added,
)
from projections.quarantine import Quarantines
from projections.queue_tree import QueueTree
from projections.queues import Queue
from projections.quota_charging import Cards, ClassCharges
from projections.quota_ledgers import QuotaLedgers
from projections.rejected_pods import RejectedPods
from projections.rescheduling import Reschedulings
from projections.scheduling_queue import SchedulingQueue
from projections.suspensions import InternalErrors
from projections.tables import Tables
from projections.tenants import Tenants
from projections.terminating_pods import TerminatingPods
from projections.unready_nodes import UnreadyNodes
from projections.victim_waits import VictimWait
from projections.volumes.claim_users import ClaimUsers
from projections.wakeup_events import (
    ALL_RESOURCES,
    LOWEST_PRIORITY,
    ChangedRows,
    WakeupEvents,
)

CHANGED_LEDGERS_MAX: Final = 10_000
"""Number of entries in `changed_ledgers`, in addition to two per queue, before the list is dropped."""


class Cluster:
    """All facts, observed and decided, and their sums. Only State changes it."""

    def __init__(self, features: FeatureTable) -> None:
        self.features = NamedFeatures(features)
        """Those that the policy names, and the table of all."""
        self.device_families = families_of(features)
        """Those of all features: objects name them, not the policy."""
        self.tables = Tables()
        """Facts that the plugins and features of the policy bring."""
        self.position = self.queue_objects = self.now_ns = 0
        """Position of the record that is being applied; number of queues with an object; time of the last cycle."""
        self.policy: Policy
        self.plugins: PluginSet
        self.scheduler_names: tuple[str, ...] = ("muster",)
        self.is_shadow = False
        """Whether decisions are not carried out: other schedulers of these names place the pods."""
        self.are_groups_listed = False
        """Whether the first list of pod groups in the log is complete."""
        self.pod_labels: tuple[str, ...] = ()
        """Keys of the labels of pods that the view `pod` shows."""
        self.nodes = NodeTable()
        self.unready_nodes, self.quarantines = UnreadyNodes(), Quarantines()
        self.cluster_totals, self.budgets, self.cards = ClusterTotals(), Budgets(), Cards()
        self.charges: dict[int, ClassCharges] = {}
        """Cache: class index to the charges of such pods."""
        self.pods: dict[str, Pod] = {}
        """By UID."""
        self.groups: dict[str, PodGroup] = {}
        self.pod_groups = PodGroupIndex()
        self.queues: dict[str, Queue] = {}
        self.inter_pod_affinity, self.tenants = (
            InterPodAffinityIndex(self.device_families),
            Tenants(),
        )
        self.priority_classes: dict[str, PriorityClass] = {}
        """By name."""
        self.namespaces: dict[str, str] = {}
        """Namespace to the queue named in its annotation."""
        self.owners: dict[str, dict[str, str]] = {}
        """UID of an owner of pods to its annotations with Volcano keys."""
        self.scheduling_queue = SchedulingQueue()
        self.wakeup_events = WakeupEvents()
        self.changed_rows = ChangedRows()
        self.queues_with_unreported_errors: dict[str, None] = {}
        """Queues with configuration errors that are not in the log yet."""
        self.config_errors = ConfigErrors()
        """Configuration errors of all kinds but queues."""
        self.changed_ledgers: list[str] = []
        """Names of queues whose ledgers changed, in order; replaced by a new list when it is long."""
        self.changed_queues: dict[str, None] = {}
        """Queues whose ledger changed with the current record."""
        self.bind_backoffs, self.pod_waits = BindBackoffs(), PodWaits()
        self.internal_errors = InternalErrors()
        """Pod groups and actions for which deciding raised an exception."""
        self.eviction_backoff: dict[str, int] = {}
        """UID of a pod whose eviction failed to the time before which it is not evicted again."""
        self.eviction_pauses: dict[str, dict[str, int]] = {}
        """Tenant to queue to the time before which no more pods are evicted for its groups there."""
        self.budget_refusals: dict[str, BudgetRefusal] = {}
        """Pod UID to the refusals of its eviction by budgets."""
        self.victim_waits: dict[str, VictimWait] = {}
        """Pod group key to its wait for terminating pods."""
        self.pending_status, self.foreign_groups = PendingStatus(), ForeignPodGroups()
        self.others: dict[str, dict[str, tuple[str, str]]] = {}
        """Kind to `namespace/name` to UID and digest, for kinds whose objects are not kept elsewhere."""
        self.last_read: dict[str, str] = {}
        """Subject to the digest of the object that its facts come from, if that is not the newest: a later one could not be
        used, or the object is deleted and still counts."""
        self.device_holders = DeviceHolders()
        self.object_facts: dict[str, dict[str, Struct]] = {}
        """Kind to `namespace/name` to facts, for kinds whose module names a type of facts (`projections/kinds/`)."""
        self.volume_kinds: dict[str, str] = {}
        """Kinds that must be listed before a pod with claims is placed, and why one is not; an empty text if it is. Empty
        in logs in which claims are not supported."""
        self.queue_tree, self.resources = QueueTree(), ClusterResources()
        self.namespace_access = NamespaceAccess()
        self.ledgers, self.kept_quota = QuotaLedgers(), KeptQuota()
        own = (
            self.queue_tree,
            self.nodes,
            self.nodes.hyper_tree,
            self.cards,
            self.namespace_access,
            self.config_errors,
            self.tenants,
            self.inter_pod_affinity,
            self.inter_pod_affinity.classes,
            self.scheduling_queue,
            NodeUse(),
            self.resources,
            self.foreign_groups,
            self.ledgers,
            self.kept_quota,
            IdleReservations(),
            self.budgets,
            self.pending_status,
            self.device_holders,
            TerminatingPods(),
            RejectedPods(),
            FaultyPods(),
            ClaimUsers(),
        )
        self.indexes = Indexes(own)
        """What is computed from facts, in the order in which deltas are dispatched: an index may read those before it,
        such as the ledgers the place of a queue and the class of a pod. Nodes, queues and pod groups keep sums of their
        own."""
        self.set_policy(parse_policy(BUILT_IN, features.policy_table)[0])

    # Nodes

    def mark_node_freed(self, node: str) -> None:
        """Record that a node may now fit pods that it did not fit before."""
        self.wakeup_events.nodes_freed[node] = self.wakeup_events.nodes_freed_at = self.position

    def mark_faulty(self, group: str) -> None:
        """Record that the next cycle looks at the faults of a pod group."""
        if self.policy.reschedules:
            self.wakeup_events.faulty_groups[group] = None

    def mark_recovered(self, node: str) -> None:
        """Record that a node that was faulty as a whole no longer is: it may have to settle before it gets pods."""
        if self.policy.reschedules and self.policy.action_arguments.rescheduling.settle_ns:
            self.reschedulings.settling[node] = 0

    @property
    def reschedulings(self) -> Reschedulings:
        """Return the restarts after faults; none if the policy does not move pods after faults."""
        return self.tables.find(Reschedulings) or Reschedulings()

    def is_closed_node(self, name: str) -> bool:
        """Return whether a node gets no pods: it is faulty as a whole, or has just recovered and settles."""
        if not self.policy.reschedules:
            return False
        return name in self.indexes.of(FaultyPods).closed or name in self.reschedulings.settling

    def reopen_node(self, name: str) -> None:
        """Let a node that has settled get pods again."""
        self.nodes.update_predicates(name)
        self.mark_node_freed(name)
        self.wakeup_events.nodes_updated[name] = None

    def wake_preemptors(self) -> None:
        """Record for all queues that pods may newly be evicted."""
        for queue in self.queues if self.policy.evicting else ():
            self.wakeup_events.victims_added[queue] = LOWEST_PRIORITY

    # Pods

    def replace_pods(self, pods: list[tuple[Pod, Pod]]) -> None:
        """Replace pods of a group by their new versions. The caller settles the group."""
        for _, new in pods:
            self.pods[new.facts.uid] = new
        self._count_pods([self.change_of(old, new) for old, new in pods])

    def replace_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Replace a pod; `old` is None for a new pod, `new` for a deleted one. Its group is settled with the record."""
        pod = new or old
        assert pod is not None
        if new is None:
            del self.pods[pod.facts.uid]
        else:
            self.pods[pod.facts.uid] = new
        change = self.change_of(old, new)
        self._count_pods([change])
        if pod.group_key:
            self.pod_groups.mark(pod.group_key, self.position, change.extent)

    def settle_pods(self, touched: list[tuple[int, Pod | None, Pod | None]]) -> None:
        """Count pods that have their places in `pods` already: the position of the last record of each, how it was counted
        before, and how it is now. `position` is then that of the record that was looked at last."""
        changes: list[PodChanged] = []
        left: dict[str, int] = {}
        """Pod group without an object, of which pods are gone, to the number of its pods."""
        for _, old, new in touched:
            if old is not None and new is None:
                del self.pods[old.facts.uid]
        for self.position, old, new in touched:
            is_moved = old is not None and (new is None or old.group_key != new.group_key)
            if old is not None and is_moved:
                # It is gone, or its annotations or owners changed: it leaves its group.
                changes.append(self.change_of(old, None))
                self._count_gone(old.group_key, left)
            if new is None:
                continue
            if new.group_key:
                if left.get(new.group_key) == 0:
                    # Its group is another one than that of which no pod was left.
                    self._settle_changes(changes)
                    self.pod_groups.settle(self)
                    changes, left = [], {}
                if old is None or is_moved or new.pod_class.device_options:
                    self.pod_groups.adopt(self, new)
                if new.group_key in left and (old is None or is_moved):
                    left[new.group_key] += 1
            changes.append(self.change_of(None if is_moved else old, new))
        self._settle_changes(changes)

    def _count_gone(self, key: str, left: dict[str, int]) -> None:
        """Count a pod that leaves its group."""
        group = self.groups.get(key)
        if group is not None and group.observed.facts is None:
            left[key] = left.get(key, len(group.pods)) - 1

    def _settle_changes(self, changes: list[PodChanged]) -> None:
        if not changes:
            return
        self._count_pods(changes)
        self.pod_groups.mark_pods(self, changes)

    def change_of(self, old: Pod | None, new: Pod | None) -> PodChanged:
        """Return the change of a pod that is in its place already, and record that its view rows may differ."""
        pod = new or old
        assert pod is not None
        uid = pod.facts.uid
        group = self.groups.get(pod.group_key)
        if pod.group_key in self.pod_groups.shared:
            group = self.pod_groups.own(self, pod.group_key)
        if (
            old is not None
            and new is not None
            and group is not None
            and group.pods.get(uid) is old
            and stays_alike(old, new)
        ):
            runs = old.status != BINDING and new.status != BINDING
            if not runs:
                self.changed_rows.pods[uid] = None
            return PodChanged(
                self.position,
                old,
                new,
                is_same_charge=True,
                stays=True,
                extent=ONLY_RUNS if runs else SAME_CHARGE,
            )
        self.changed_rows.pods[uid] = None
        if old is None or new is None or not has_same_attributes(old, new):
            self.changed_rows.pod_attributes[uid] = None
        left = node_share(old) if old is not None and old.occupies else None
        entered = node_share(new) if new is not None and new.occupies else None
        is_same_charge = old is not None and new is not None and has_same_charge(old, new)
        extent = SAME_CHARGE if is_same_charge else OTHER_CHARGE
        return PodChanged(self.position, old, new, left, entered, is_same_charge, extent=extent)

    def _count_pods(self, changes: list[PodChanged]) -> None:
        """Count pods in all indexes, after the class and the charge that each now has were determined."""
        self.inter_pod_affinity.classify(self, changes)
        self.ledgers.fix_charges(self, changes)
        self.indexes.dispatch_pods(self, changes)
        is_evicting = bool(self.policy.evicting)
        for one in changes:
            old, new = one.old, one.new
            if (new is not None and new.pod_class.claims) or (
                old is not None and old.pod_class.claims
            ):
                self.indexes.dispatch(self, PodWithClaimsChanged(old, new))
            self.position = one.position
            if is_evicting and new is not None and new.group_key:
                record_victim_added(self, self.groups[new.group_key], old, new)

    def exchange_pod(self, pod: Pod) -> None:
        """Put another version of a pod in its place. It has the same object, status and class."""
        self.pods[pod.facts.uid] = pod
        if pod.group_key in self.groups:
            self.pod_groups.own(self, pod.group_key).exchange_pod(pod)

    # Queues

    def ensure_queue(self, name: str) -> Queue:
        """Return the queue of this name; create it (without an object) if it does not exist."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name)
            self.indexes.dispatch(self, QueueChanged(queue))
        return queue

    def finish_record(self) -> None:
        """Settle the groups that a record marked, and find the queues whose charges it decreased."""
        self.pod_groups.settle(self)
        self.changed_ledgers += self.changed_queues
        for name in self.changed_queues:
            queue = self.queues.get(name)
            if queue is None:
                continue
            above = queue.above
            while above is not None:
                self.changed_rows.queues[above.name] = None
                above = above.above
            for one in queue.lineage:
                for resource in one.take_released(
                    lambda card: quota_charging.cards_of_charge(self, card)
                ):
                    self.mark_quota_released(one.name, resource)
        self.indexes.dispatch(self, RECORD_APPLIED)
        self.changed_queues.clear()
        for index in self.inter_pod_affinity.classes.free():
            self.charges.pop(index, None)

    def mark_quota_released(self, queue: str, resource: str = ALL_RESOURCES) -> None:
        """Record that a queue may now admit pod groups that it did not admit before."""
        self.wakeup_events.quota_released.setdefault(queue, {})[resource] = None
        self.wakeup_events.quota_released_at[queue] = self.position

    def forget_queue(self, queue: Queue) -> None:
        """Delete a queue that has neither an object nor pod groups."""
        if queue.facts is None and not queue.groups and self.queues.get(queue.name) is queue:
            del self.queues[queue.name]
            self.indexes.dispatch(self, QueueChanged(queue, is_gone=True))
            self.changed_rows.queues[queue.name] = None

    # Pod groups

    @property
    def trusts_stated_phase(self) -> bool:
        """Return whether a pod group that is new to the log begins with the phase that its object states: it was there
        before muster, or another scheduler decides on it. Any other phase can be written by the owner of the object, and
        counts for nothing (`trustStatedPhase` of the policy: as in Volcano it does)."""
        if self.is_shadow or not self.are_groups_listed:
            return True
        return self.policy.action_arguments.trusts_stated_phase

    def group_key_of(self, facts: PodFacts) -> str:
        """Return the key of the group of a pod; "" for pods of other schedulers."""
        if facts.scheduler not in self.scheduler_names:
            return ""
        key = group_key_of(facts)
        known = self.groups.get(key)
        return key if known is None else known.key  # One text for all its pods.

    # Nominations, and changes of all groups

    def follow_change_of_all(self) -> None:
        """Let features record that something changed which may concern all pod groups."""
        for one in self.features.wakeup_followers:
            one.all_woken(self)

    def wake_everything(self) -> None:
        """Let the next cycle evaluate all groups again."""
        self.wakeup_events.everything = True
        self.follow_change_of_all()

    def trim_journals(self) -> None:
        """Begin new journals where they are long; readers that are behind then read everything again."""
        if len(self.changed_ledgers) > CHANGED_LEDGERS_MAX + 2 * len(self.queues):
            self.changed_ledgers = []
        self.pod_groups.trim_journal(len(self.groups))

    def clear_changed_rows(self) -> None:
        """Start a new set of changed rows after the views were written."""
        self.changed_rows = ChangedRows()

    def mark_rows_changed(self) -> None:
        """Count every row as changed, so that the views are written whole."""
        rows, nodes = self.changed_rows, self.nodes.nodes
        rows.queues.update(dict.fromkeys(self.queues))
        for names in (rows.nodes, rows.topology):
            names.update(dict.fromkeys(nodes))
        rows.groups.update(dict.fromkeys(self.groups))
        for uids in (rows.pods, rows.pod_attributes):
            uids.update(dict.fromkeys(self.pods))
        for index in self.indexes.of_features:
            index.mark_rows(self)
        rows.faults.update(dict.fromkeys(self.indexes.of(FaultyPods).nodes))

    def set_policy(self, policy: Policy) -> None:
        """Set the policy, its plugins and their indexes, and nothing else that depends on them."""
        self.policy, self.plugins = (
            policy,
            build_plugins(policy.tiers, self.features.table.policy_table),
        )
        self.cards.forget()
        self.features = self.features.table.named_by(policy)
        of_plugins = (kind for plugin in self.plugins.all for kind in plugin.tables)
        tables = (*of_plugins, *self.features.tables)
        self.tables.drop(self, tables)
        self.tables.keep(tables)
        kept = {type(one): one for one in self.indexes.of_features}
        brought = [self._index_of(make) for make in self.features.indexes]
        self.indexes = Indexes(self.indexes.own, [kept.get(type(one), one) for one in brought])
        for one in brought:
            if type(one) not in kept:
                one.rebuild(self)
        self.rebuild_plugin_indexes()

    def _index_of(self, make: Callable[[], object]) -> Index:
        """Return an index of a feature, empty."""
        index = make()
        assert isinstance(index, Index)
        return index

    # Indexes that a fold leaves out

    @property
    def can_leave_indexes_out(self) -> bool:
        """Return whether facts can be kept without indexes: not under a policy that moves pods after faults, or whose features
        or plugins bring indexes from which facts may follow."""
        if self.policy.reschedules or self.policy.pools.deciders or self.indexes.of_features:
            return False
        return all(one.can_be_left_out for one in self.indexes.of_plugins)

    def leave_indexes_out(self) -> None:
        """Leave out of what follows all that no fact depends on: what pods use of nodes, the ledgers of queues, and indexes that
        say so (`Index.can_be_left_out`)."""
        self.indexes = self.indexes.left_out(are_left_out=True)
        self.ledgers.are_queues_charged = False

    def compute_indexes_left_out(self) -> None:
        """Compute from facts all that was left out."""
        self.indexes = self.indexes.left_out(are_left_out=False)
        self.ledgers.are_queues_charged = True
        for index in self.indexes.all:
            if index.can_be_left_out or index is self.ledgers:
                index.rebuild(self)
        for name in self.queues:
            self.pending_status.record_queue(name, self.position)
        self.nodes.outdate()
        self.changed_queues.clear()
        self.changed_ledgers = []

    def rebuild_indexes(self) -> None:
        """Compute all indexes from facts that were loaded without deltas, each once."""
        for index in (*self.indexes.own, *self.indexes.of_features):
            index.rebuild(self)
        self.rebuild_plugin_indexes()
        self.pod_groups.rebuild(self)

    def rebuild_plugin_indexes(self) -> None:
        """Compute the indexes of the plugins in force from facts. Those of other plugins are dropped."""
        brought = {type(one): one for plugin in self.plugins.all for one in plugin.indexes()}
        own, of_features = self.indexes.own, self.indexes.of_features
        self.indexes = Indexes(own, of_features, [one.rebuilt(self) for one in brought.values()])

    def change_policy(self, policy: Policy) -> None:
        """Set another policy and recompute what depends on it."""
        for key in self.groups:
            self.internal_errors.resume(key)
        before, indexes = self.plugins, self.indexes.of_features
        self.set_policy(policy)
        for index in (*indexes, *self.indexes.of_features):
            if index not in indexes or index not in self.indexes.of_features:
                index.mark_rows(self)
        for index in indexes:
            if index not in self.indexes.of_features:
                index.dropped(self)
        self.wakeup_events.everything = True
        self.indexes.dispatch(self, PolicyChanged(before))
        for group in self.groups.values():
            self.changed_rows.groups[group.key] = self.wakeup_events.groups[group.key] = None
        for name in self.queues:
            self.changed_rows.queues[name] = None
