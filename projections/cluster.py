"""Keep nodes, pods, pod groups and queues, and every sum over them.

Each change removes an entry from all sums in its old form and adds it in its new form; sums are never recounted.
`projections/audit.py` recounts them to detect errors.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from projections import quota_charging
from projections.budget_refusals import BudgetRefusal
from projections.cluster_resources import ClusterResources
from projections.cluster_totals import ClusterTotals
from projections.config_errors import QUEUE_CHANGED, ConfigErrors, queue_changed
from projections.deltas import (
    ONLY_RUNS,
    OTHER_CHARGE,
    RECORD_APPLIED,
    SAME_CHARGE,
    PodChanged,
    PodGroupChanged,
    PodWithClaimsChanged,
    PolicyChanged,
    QueueChanged,
)
from projections.device_holders import DeviceHolders
from projections.disruption_budgets import Budgets
from projections.faulty_pods import FaultyPods
from projections.feature import FeatureTable, NamedFeatures
from projections.foreign_pod_groups import ForeignPodGroups
from projections.group_facts import GroupFacts, asks_for_more, spec_of
from projections.group_overrides import GroupOverrides
from projections.idle_reservations import IdleReservations
from projections.index import Index, Indexes
from projections.inter_pod_affinity_index import (
    InterPodAffinityIndex,
    remove_nomination,
)
from projections.job_order import equivalence_keys, job_order
from projections.kept_quota import KeptQuota
from projections.namespace_access import NamespaceAccess, denial_of, queue_to_enter
from projections.node_use import NodeUse
from projections.nodes import NodeTable
from projections.pending_status import PendingStatus, record_overwritten
from projections.plugin import PluginSet, build_plugins
from projections.pod_group_resolution import group_key_of, origin_of
from projections.pod_groups import (
    INQUEUE,
    PHASES,
    WAITING,
    EquivalenceKey,
    Nomination,
    PodGroup,
)
from projections.pod_waits import PodWait, is_backing_off, update_pod_wait
from projections.pods import (
    BINDING,
    PENDING,
    Pod,
    PodFacts,
    has_same_attributes,
    has_same_charge,
    node_share,
    stays_alike,
)
from projections.policy.policy import BUILT_IN, EVICTING, Policy, parse_policy
from projections.preemption_triggers import (
    PriorityClass,
    invalidate_victims,
    record_victim_added,
    update_preemption_state,
    without_evicting,
)
from projections.quarantine import Quarantines
from projections.queue_tree import QueueTree
from projections.queues import DEFAULT, Queue
from projections.quota_charging import Cards, ClassCharges
from projections.quota_ledgers import QuotaLedgers
from projections.rejected_pods import RejectedPods
from projections.rescheduling import Reschedulings, forget_group
from projections.reservation_timeouts import update_reservation_timeout
from projections.scheduling_queue import SchedulingQueue
from projections.suspensions import InternalErrors
from projections.tables import Tables
from projections.tenants import Tenants
from projections.unready_nodes import UnreadyNodes
from projections.victim_waits import VictimWait
from projections.volumes.claim_users import ClaimUsers
from projections.wakeup_events import (
    ALL_RESOURCES,
    LOWEST_PRIORITY,
    ChangedRows,
    WakeupEvents,
)

CHANGED_GROUPS_MAX: Final = 10_000
"""Number of entries in `changed_groups`, in addition to two per group, before the list is dropped."""


NOTHING: Final = (ONLY_RUNS, 0)


class Cluster:
    """All facts, observed and decided, and their sums. Only State changes it."""

    def __init__(self, features: FeatureTable) -> None:
        self.features = NamedFeatures(features)
        """Those that the policy names, and the table of all."""
        self.tables = Tables()
        """Facts that the plugins and features of the policy bring."""
        self.owner: object = object()
        """Token of the groups that may be changed here: both sides of a fork get new ones."""
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
        self.queues: dict[str, Queue] = {}
        self.inter_pod_affinity, self.tenants = InterPodAffinityIndex(), Tenants()
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
        self.changed_groups: list[str] = []
        """Keys of pod groups that changed, in order, since the last change of `changed_groups_version`."""
        self.changed_ledgers: list[str] = []
        """Names of queues whose ledgers changed, in order; replaced by a new list when it is long."""
        self.changed_groups_version = 0
        """Grows when `changed_groups` is emptied."""
        self.changed_queues: dict[str, None] = {}
        """Queues whose ledger changed with the current record."""
        self.groups_to_update: dict[str, None] = {}
        """Pod groups to update at the end of the current record."""
        self.bind_backoff: dict[str, int] = {}
        """Pod group key to the time before which it is not tried again."""
        self.bind_failures: dict[str, int] = {}
        """Pod group key to the number of consecutive failed bindings."""
        self.pod_waits: dict[str, PodWait] = {}
        """Pod group key to its wait for pods: of admitted groups that have too few, and of those that lost their
        reservation so."""
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
        self.reschedulings = Reschedulings()
        self.namespace_pools: dict[str, str] = {}
        """Namespace to the pool that its annotation names."""
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
            GroupOverrides(),
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
        """Replace pods of a group by their new versions. The caller updates the group."""
        for _, new in pods:
            self.pods[new.facts.uid] = new
        self._count_pods([self.change_of(old, new) for old, new in pods])

    def replace_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Replace a pod; `old` is None for a new pod, `new` for a deleted one. Update its group."""
        pod = new or old
        assert pod is not None
        if new is None:
            del self.pods[pod.facts.uid]
        else:
            self.pods[pod.facts.uid] = new
        change = self.change_of(old, new)
        self._count_pods([change])
        if pod.group_key:
            self._settle_groups({pod.group_key: (change.extent, self.position)})

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
                    changes, left = [], {}
                if old is None or is_moved or new.pod_class.device_options:
                    self.adopt(new)
                if new.group_key in left and (old is None or is_moved):
                    left[new.group_key] += 1
            changes.append(self.change_of(None if is_moved else old, new))
        self._settle_changes(changes)

    def _count_gone(self, key: str, left: dict[str, int]) -> None:
        """Count a pod that leaves its group."""
        group = self.groups.get(key)
        if group is not None and group.facts is None:
            left[key] = left.get(key, len(group.pods)) - 1

    def _settle_changes(self, changes: list[PodChanged]) -> None:
        if not changes:
            return
        self._count_pods(changes)
        groups: dict[str, tuple[int, int]] = {}
        turned: dict[str, bool] = {}
        for one in changes:
            pod = one.new or one.old
            if pod is not None and (key := pod.group_key):
                groups[key] = (max(one.extent, groups.get(key, NOTHING)[0]), one.position)
                was = one.old is not None and one.old.status == PENDING
                waits = one.new is not None and one.new.status == PENDING
                if was != waits and turned.setdefault(key, waits) != waits:
                    # Pods came and others went: as many as before may wait, but not the same.
                    self.own_group(self.groups[key]).fingerprint = ()
        self._settle_groups(groups)

    def change_of(self, old: Pod | None, new: Pod | None) -> PodChanged:
        """Return the change of a pod that is in its place already, and record that its view rows may differ."""
        pod = new or old
        assert pod is not None
        uid = pod.facts.uid
        group = self.groups.get(pod.group_key)
        if group is not None and group.owner is not self.owner:
            group = self.own_group(group)
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

    def _settle_groups(self, touched: dict[str, tuple[int, int]]) -> None:
        """Update pod groups after their pods changed: by key, how much of each, and with which record."""
        runs: list[PodGroupChanged] = []
        rest: list[tuple[PodGroup, int, bool]] = []
        for key, (extent, position) in touched.items():
            group = self.groups.get(key)
            if group is None:
                continue
            if group.owner is not self.owner:
                group = self.own_group(group)
            self.position = position
            if extent != ONLY_RUNS:
                rest.append((group, position, extent == OTHER_CHARGE))
            elif self._resumed(key) or group.next_phase() != group.phase:
                rest.append((group, position, False))
            else:
                runs.append(PodGroupChanged(position, group))
        if runs:
            self.indexes.dispatch_pod_groups(self, runs)
        if rest:
            self._update_groups(rest)

    def _resumed(self, key: str) -> bool:
        """Let suspended actions try a group again; return whether there were any."""
        errors = self.internal_errors
        return key in errors.groups and errors.resume(key)

    def exchange_pod(self, pod: Pod) -> None:
        """Put another version of a pod in its place. It has the same object, status and class."""
        self.pods[pod.facts.uid] = pod
        group = self.writable_group(pod.group_key)
        if group is not None:
            group.exchange_pod(pod)

    # Queues

    def ensure_queue(self, name: str) -> Queue:
        """Return the queue of this name; create it (without an object) if it does not exist."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name)
            self.indexes.dispatch(self, QueueChanged(queue))
        return queue

    def finish_record(self) -> None:
        """At the end of a record, update affected groups and find queues whose charges decreased."""
        for key in list(self.groups_to_update):
            if key in self.groups:
                self.update_group(self.groups[key])
        self.groups_to_update.clear()
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

    def ensure_group(self, key: str) -> PodGroup:
        """Return the pod group of this key; create it if it does not exist."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = PodGroup(key)
            group.owner = self.owner
        return self.own_group(group)

    def own_group(self, group: PodGroup) -> PodGroup:
        """Return the version of a group that may be changed here.

        A fork and its original share their groups. The first that changes one copies it, and the copy takes the
        place of the shared version in everything of this cluster.
        """
        if group.owner is self.owner:
            return group
        current = self.groups[group.key]
        if current.owner is not self.owner:
            current = self.groups[group.key] = current.copy()
            current.owner = self.owner
            self.scheduling_queue.exchange(current)
        return current

    def writable_group(self, key: str) -> PodGroup | None:
        """Return the group of this key in a version that may be changed here; None if it does not exist."""
        group = self.groups.get(key)
        return None if group is None else self.own_group(group)

    @property
    def trusts_stated_phase(self) -> bool:
        """Return whether a pod group that is new to the log begins with the phase that its object states: it was there
        before muster, or another scheduler decides on it. Any other phase can be written by the owner of the object, and
        counts for nothing (`trustStatedPhase` of the policy: as in Volcano it does)."""
        if self.is_shadow or not self.are_groups_listed:
            return True
        return self.policy.action_arguments.trusts_stated_phase

    def put_group(self, facts: GroupFacts, digest: str) -> None:
        """Add or update a PodGroup object."""
        group = self.ensure_group(f"{facts.namespace}/{facts.name}")
        before = group.facts
        if group.spec != spec_of(facts):
            self.internal_errors.resume(group.key)
        group.set_object(facts)
        group.digest, group.uid, group.created_ns = digest, facts.uid or group.key, facts.created_ns
        group.min_available, group.min_tasks = facts.min_available, facts.min_tasks
        group.raise_minimum(facts.device_options)
        for pod in group.pods.values():
            group.raise_minimum(pod.pod_class.device_options)
        if before is None and facts.phase in PHASES and self.trusts_stated_phase:
            group.phase = group.listed_phase = facts.phase
        elif before is not None:
            record_overwritten(self, group, before)
            if asks_for_more(before, facts) and not self.trusts_stated_phase:
                self._vote_again(group)
        self._follow_queue(group, facts, is_new=before is None)
        self.update_group(group)

    def _follow_queue(self, group: PodGroup, facts: GroupFacts, *, is_new: bool = False) -> None:
        """Move a group to the queue that its object names. While pods of it are charged it stays, as what they hold was
        admitted there and must not be charged to others; without such pods it is voted on again (`moveRunningGroups`
        of the policy: as in Volcano it takes all along, to a queue that it may use)."""
        named, subject = facts.queue or DEFAULT, f"PodGroup/{group.key}"
        moves_all = self.policy.action_arguments.moves_running_groups
        entered = queue_to_enter(self, group, named)
        if group.queue and group.counts.allocated and not moves_all:
            entered = group.queue
        if entered != named:
            self.config_errors.add(subject, (QUEUE_CHANGED, queue_changed(named, entered)))
        else:
            self.config_errors.replace(subject, QUEUE_CHANGED, ())
        is_stated = is_new or moves_all or group.is_foreign or self.is_shadow
        if entered != group.queue and not is_stated:
            self._vote_again(group)
        self.move_group(group, entered)

    def _vote_again(self, group: PodGroup) -> None:
        """Take back the admission of a group of which nothing is charged yet: it was for something else."""
        if group.phase == INQUEUE and not group.counts.allocated and not group.is_foreign:
            group.phase, group.listed_phase = WAITING, ""

    def drop_group_object(self, key: str) -> None:
        """Remove the PodGroup object; pods that name it wait until it is created again."""
        group = self.own_group(self.groups[key])
        group.set_object(None)
        self.internal_errors.resume(key)
        group.digest, group.needs_object, group.listed_phase = "", True, ""
        self.update_group(group)

    def group_key_of(self, facts: PodFacts) -> str:
        """Return the key of the group of a pod; "" for pods of other schedulers."""
        if facts.scheduler not in self.scheduler_names:
            return ""
        key = group_key_of(facts)
        known = self.groups.get(key)
        return key if known is None else known.key  # One text for all its pods.

    def adopt(self, pod: Pod) -> None:
        """Prepare the group of a pod; create it if it does not exist."""
        known = self.groups.get(pod.group_key)
        if known is not None:
            if pod.pod_class.device_options:
                self.own_group(known).raise_minimum(pod.pod_class.device_options)
            return
        owner = pod.facts.owner
        inherited = self.owners.get(owner.uid, {}) if owner else {}
        origin = origin_of(pod.facts, inherited, self.namespaces)
        group = self.groups[pod.group_key] = PodGroup(pod.group_key)
        group.owner = self.owner
        group.needs_object = origin.needs_object
        group.created_ns = pod.facts.created_ns
        group.min_available = origin.min_available
        group.priority = group.stated_priority = pod.facts.priority or 0
        self.move_group(group, origin.queue)
        if self.namespace_access.is_restricted:
            self.update_denial(group)

    def move_group(self, group: PodGroup, queue: str) -> None:
        """Move a group to a queue, with its charges."""
        if group.queue == queue:
            return
        if group.queue:
            self.remove_nominations(group)  # They are charged to the old queue.
            self.ledgers.charge_group(self, group, -1)
            before = self.queues[group.queue]
            del before.groups[group.key]
            group.queue = queue
            self.forget_queue(before)
        group.queue = queue
        self.internal_errors.resume(group.key)
        (self.queues.get(queue) or self.ensure_queue(queue)).groups[group.key] = None
        if group.pods or group.nominations or group.facts is not None:
            self.ledgers.charge_group(self, group, 1)
            invalidate_victims(self, group)

    def update_group(self, group: PodGroup) -> None:
        """Recompute what follows from a group's object and pods: phase, reservations, priority, place in the scheduling
        queue."""
        self._update_groups([(self.own_group(group), self.position, True)])

    def _update_groups(self, groups: list[tuple[PodGroup, int, bool]]) -> None:
        """Update groups, each with the position of its last record and whether charges or requests have changed."""
        changed: list[tuple[PodGroup, int, bool]] = []
        for group, self.position, charges_changed in groups:
            self.changed_rows.groups[group.key] = None
            self.changed_groups.append(group.key)
            facts, access = group.facts, self.namespace_access
            is_other = False
            if facts is not None or group.is_foreign or group.key in self.foreign_groups.owner_of:
                is_other = self.foreign_groups.update(self, group)
            if facts is not None and group.queue != (facts.queue or DEFAULT):
                self._follow_queue(group, facts)
            if group.denied is not None or access.queues or access.is_in_policy:
                is_other = self.update_denial(group) or is_other
            if group.facts is None and not group.pods:
                self._forget_group(group)
                continue
            if len(group.live_classes) > 1:
                group.keep_min_members()
            update_preemption_state(self, group)
            changed.append((group, self.position, charges_changed or is_other))
        self._update_phases(changed)
        for group, self.position, _ in changed:
            self._find_place(group)

    def _find_place(self, group: PodGroup) -> None:
        """Give a group its place in the scheduling queue, and wake it if it waits and something of it has changed."""
        keys = self._all_keys(group)
        if group.refusals:
            stale = [one for one in group.refusals if all(one != key[0] for key in keys)]
            if stale and is_backing_off(self, group):
                # Not voted on for a while, for this reason.
                stale = [one for one in stale if one != "enqueue"]
            if stale:
                for action in stale:
                    del group.refusals[action]
                    self.internal_errors.clear(group.key, action)
                self._update_phases([(group, self.position, True)])
                keys = self._all_keys(group)
        if self.internal_errors.groups:
            keys = self._without_suspended(group, keys)
        if self._place_group(group, keys):
            self.wakeup_events.groups[group.key] = None
            group.cause = self.position
            for one in self.features.wakeup_followers:
                one.group_woken(self, group.key)

    def update_denial(self, group: PodGroup) -> bool:
        """Determine whether the namespace of a group may use its queue and pool. Return whether that changed."""
        is_restricted = self.namespace_access.is_restricted
        if not is_restricted and group.denied is None:
            return False
        denied = denial_of(self, group) if is_restricted else None
        if denied == group.denied:
            return False
        self.ledgers.set_denial(self, group, denied)
        return True

    def _place_group(self, group: PodGroup, keys: tuple[EquivalenceKey, ...]) -> bool:
        """Place a group in the scheduling queue; return whether it waits and what a cycle reads of it has changed."""
        order = job_order(self, group) if keys else ()
        self.scheduling_queue.place(group, order, keys)
        before, group.fingerprint = group.fingerprint, ()
        if not keys:
            return False
        asked = (
            without_evicting(keys) if len(keys) > 1 or keys[0][0] in EVICTING else keys,
            order,
            group.phase,
            group.min_available,
            len(group.pending),
        )
        errors = self.internal_errors
        suspended = errors.suspended(group.key) if errors.groups else ()
        group.fingerprint = (*asked, group.spec, *suspended, group.device_job, group.denied)
        return group.fingerprint != before

    def _update_phases(self, groups: list[tuple[PodGroup, int, bool]]) -> None:
        """Update phases and reservations, and the indexes of pod groups."""
        for group, self.position, charges_changed in groups:
            phase = group.next_phase()
            if charges_changed or phase != group.phase:
                group.phase = phase
                if phase != WAITING or group.allocated or group.inqueue or group.elastic:
                    self.ledgers.update_reservation(self, group)
            if self.cluster_totals.reservation_timeouts:
                update_reservation_timeout(self, group)
            if phase == INQUEUE or group.key in self.pod_waits:
                update_pod_wait(self, group)
        changes = [PodGroupChanged(position, group) for group, position, _ in groups]
        self.indexes.dispatch_pod_groups(self, changes)
        for plugin in self.plugins.group_state:
            for group, self.position, _ in groups:
                plugin.group_changed(self, group)

    def _all_keys(self, group: PodGroup) -> tuple[EquivalenceKey, ...]:
        """Return the keys under which a group waits; none while it is not tried."""
        if group.key in self.bind_backoff or (self.pod_waits and is_backing_off(self, group)):
            return ()
        return equivalence_keys(self, group)

    def _without_suspended(
        self, group: PodGroup, keys: tuple[EquivalenceKey, ...]
    ) -> tuple[EquivalenceKey, ...]:
        """Remove the keys of actions that are suspended for the group after an internal error."""
        if group.key not in self.internal_errors.groups:
            return keys
        errors = self.internal_errors
        return tuple([key for key in keys if not errors.is_suspended(group.key, key[0])])

    def expected_equivalence_keys(self, group: PodGroup) -> tuple[EquivalenceKey, ...]:
        """Compute again the keys under which a group waits (for `projections/audit.py`)."""
        return self._without_suspended(group, self._all_keys(group))

    def expected_place(
        self, group: PodGroup
    ) -> tuple[tuple[object, ...], tuple[EquivalenceKey, ...]]:
        """Compute again the order of a group and the keys under which it waits."""
        keys = self.expected_equivalence_keys(group)
        return (job_order(self, group) if keys else ()), keys

    def _forget_group(self, group: PodGroup) -> None:
        self.scheduling_queue.remove(group)
        self.remove_nominations(group)
        self.ledgers.release(self, group)
        self.cluster_totals.reservation_timeouts.pop(group.key, None)
        self.indexes.dispatch_pod_groups(
            self, (PodGroupChanged(self.position, group, is_gone=True),)
        )
        for plugin in self.plugins.group_state:
            plugin.group_deleted(self, group.key)
        del self.groups[group.key]
        self.wakeup_events.groups.pop(group.key, None)
        for kept in (self.bind_backoff, self.bind_failures, self.pod_waits):
            kept.pop(group.key, None)
        self.victim_waits.pop(group.key, None)
        self.internal_errors.clear(group.key)
        forget_group(self, group.key)
        queue = self.queues[group.queue]
        del queue.groups[group.key]
        self.forget_queue(queue)

    # Nominations, and changes of all groups

    def set_nominations(self, group: PodGroup, nominations: dict[str, Nomination]) -> None:
        """Reserve the nominated resources, by pod UID, on nodes and in the queue."""
        group = self.own_group(group)
        group.nominations = nominations
        for uid, held in nominations.items():
            self.nodes.nominate(held.node, uid, held.request, 1, held.devices)
            self.queues[group.queue].add_charge("nominated", held.charge, 1)
        if nominations:
            self.changed_queues[group.queue] = None

    def remove_nominations(self, group: PodGroup, *, is_bound: bool = False) -> None:
        """Release the nominated resources of a group; `is_bound` if the group itself uses them now."""
        group = self.own_group(group)
        for uid, held in group.nominations.items():
            remove_nomination(self, group.pods.get(uid), uid, held)
            self.queues[group.queue].add_charge("nominated", held.charge, -1)
            if not is_bound:
                self.mark_node_freed(held.node)
        if group.nominations:
            self.changed_queues[group.queue] = None
        group.remove_nominations()

    def end_bind_backoff(self, key: str) -> None:
        """Let a group be tried again after its back-off."""
        self.bind_backoff.pop(key, None)
        if (group := self.groups.get(key)) is not None:
            self.update_group(group)

    def resume_group(self, key: str) -> None:
        """Let actions that were suspended after an internal error try a group again."""
        group = self.groups.get(key)
        if self.internal_errors.resume(key) and group is not None:
            self.update_group(group)

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
        if len(self.changed_ledgers) > CHANGED_GROUPS_MAX + 2 * len(self.queues):
            self.changed_ledgers = []
        if len(self.changed_groups) > CHANGED_GROUPS_MAX + 2 * len(self.groups):
            self.changed_groups = []
            self.changed_groups_version += 1

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

    def update_all_groups(self) -> None:
        """Update all groups after priorities or rules changed."""
        for group in list(self.groups.values()):
            self.update_group(group)

    def set_policy(self, policy: Policy) -> None:
        """Set the policy, its plugins and their indexes, and nothing else that depends on them."""
        self.policy, self.plugins = (
            policy,
            build_plugins(policy.tiers, self.features.table.policy_table),
        )
        self.cards.forget()
        self.features = self.features.table.named_by(policy)
        of_plugins = (kind for plugin in self.plugins.all for kind in plugin.tables)
        self.tables.keep((*of_plugins, *self.features.tables))
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

    def rebuild_indexes(self) -> None:
        """Compute all indexes from facts that were loaded without deltas, each once."""
        for index in (*self.indexes.own, *self.indexes.of_features):
            index.rebuild(self)
        self.rebuild_plugin_indexes()
        for group in self.groups.values():
            group.keep_min_members()
            update_preemption_state(self, group)
            for plugin in self.plugins.group_state:
                plugin.group_changed(self, group)
            self._place_group(group, self.expected_equivalence_keys(group))
        self.groups_to_update.clear()

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
