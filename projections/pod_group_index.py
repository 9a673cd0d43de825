"""Settle pod groups: what follows from their objects, their pods and what was decided about them.

What changes a group marks its key, with the position of the record. A settling, a decision or the start of a cycle then
settles each marked group once: whether it belongs to another scheduler, its queue, whether its namespace may use that, its
priority, phase and reservation, and its place in the scheduling queue. A group that waits is woken if anything that a cycle
reads of it has changed.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import structs

from projections import quota_charging
from projections.config_errors import QUEUE_CHANGED, queue_changed
from projections.deltas import ONLY_RUNS, OTHER_CHARGE, PodChanged, PodGroupChanged
from projections.group_facts import GroupFacts, asks_for_more
from projections.group_rows import NO_NOMINATIONS, NO_RESERVATION, Nomination, ObservedGroup
from projections.group_shapes import GroupShapes, ShapeResult
from projections.inter_pod_affinity_index import remove_nomination
from projections.job_order import equivalence_keys, job_order, order_values
from projections.namespace_access import denial_of, queue_to_enter
from projections.pending_status import record_overwritten
from projections.pod_group_resolution import origin_of
from projections.pod_groups import INQUEUE, PHASES, WAITING, DeviceJob, EquivalenceKey, PodGroup
from projections.pods import PENDING, Pod
from projections.policy.policy import EVICTING
from projections.preemption_triggers import (
    invalidate_victims,
    update_preemption_state,
    without_evicting,
)
from projections.queues import DEFAULT
from projections.rescheduling import forget_group
from projections.reservation_timeouts import update_reservation_timeout

if TYPE_CHECKING:
    from projections.cluster import Cluster

JOURNAL_MAX: Final = 10_000
"""Entries of the journal, in addition to two per group, before it is dropped."""

_Changed = tuple[PodGroup, int, bool]
"""A group, the position of the last record that changed it, and whether its charges or requests have changed."""


class PodGroupIndex:
    """Which pod groups have changed, and what settles them."""

    def __init__(self) -> None:
        self._marked: dict[str, tuple[int, int]] = {}
        """Key of a group to settle to how much of it has changed, and the position of the last record that changed it."""
        self.journal: list[str] = []
        """Keys of groups that changed, in order, since the last change of `journal_version`."""
        self.journal_version = 0
        """Grows when the journal is emptied."""
        self.shared: dict[str, None] = {}
        """Keys of the groups that a fork has, too: the first side that changes one copies it."""
        self._shapes = GroupShapes()

    def share(self, keys: Iterable[str]) -> None:
        """Begin to share groups with a fork."""
        self.shared = dict.fromkeys(keys)

    def own(self, cluster: "Cluster", key: str) -> PodGroup:
        """Return a group in a version that may be changed here: of one that a fork has, too, a copy that has taken its
        place."""
        if key in self.shared:
            del self.shared[key]
            cluster.groups[key] = cluster.groups[key].copy()
            cluster.scheduling_queue.exchange(cluster.groups[key])
        return cluster.groups[key]

    def find(self, cluster: "Cluster", key: str) -> PodGroup | None:
        """Return a group in a version that may be changed here; None if it does not exist."""
        if key in self.shared:
            return self.own(cluster, key)
        return cluster.groups.get(key)

    def ensure(self, cluster: "Cluster", key: str) -> PodGroup:
        """Return a group in a version that may be changed here; create it if it does not exist."""
        if key not in cluster.groups:
            cluster.groups[key] = PodGroup(key)
        return self.own(cluster, key)

    def mark(self, key: str, position: int, extent: int = OTHER_CHARGE) -> None:
        """Let a group be settled after the record at `position` changed it; `extent` says how much of it."""
        known = self._marked.get(key)
        self._marked[key] = (extent if known is None else max(extent, known[0]), position)

    def mark_all(self, keys: Iterable[str], position: int) -> None:
        """Let all these groups be settled."""
        for key in keys:
            self.mark(key, position)

    def mark_pods(self, cluster: "Cluster", changes: Iterable[PodChanged]) -> None:
        """Let the groups of pods that changed be settled."""
        marked = self._marked
        turned: dict[str, bool] = {}
        for one in changes:
            pod = one.new or one.old
            if pod is None or not (key := pod.group_key):
                continue
            extent, known = one.extent, marked.get(key)
            if known is not None and known[0] > extent:
                extent = known[0]
            marked[key] = extent, one.position
            was = one.old is not None and one.old.status == PENDING
            waits = one.new is not None and one.new.status == PENDING
            if was != waits and turned.setdefault(key, waits) != waits:
                # Pods came and others went: as many as before may wait, but not the same.
                self.own(cluster, key).fingerprint = ()

    def forget_marks(self) -> None:
        """Settle no group that is marked: all were computed again."""
        self._marked.clear()

    def settle(self, cluster: "Cluster") -> None:
        """Settle all marked groups, each once."""
        if not self._marked:
            return
        position = cluster.position
        while self._marked:
            marked, self._marked = self._marked, {}
            runs: list[PodGroupChanged] = []
            rest: list[_Changed] = []
            for key, (extent, cluster.position) in marked.items():
                if key not in cluster.groups:
                    continue
                group = self.own(cluster, key) if key in self.shared else cluster.groups[key]
                if extent != ONLY_RUNS:
                    rest.append((group, cluster.position, extent == OTHER_CHARGE))
                elif (
                    _resumed(cluster, key)
                    or self._next_phase(cluster, group) != group.decided.phase
                ):
                    rest.append((group, cluster.position, False))
                else:
                    runs.append(PodGroupChanged(cluster.position, group))
            if runs:
                cluster.indexes.dispatch_pod_groups(cluster, runs)
            if rest:
                self._settle(cluster, rest)
        cluster.position = position

    def _next_phase(self, cluster: "Cluster", group: PodGroup) -> str:
        """Return the phase that a group has next; "" for a shape of which it is not known."""
        shape, known = self._shapes.find(cluster, group)
        if known is not None:
            return known.phase
        return "" if shape is not None else group.next_phase()

    def settle_decided(self, cluster: "Cluster", key: str) -> None:
        """Settle a group after a decision about it, which does not wake it."""
        self._marked.pop(key, None)
        group = self.own(cluster, key) if key in self.shared else cluster.groups[key]
        self._settle(cluster, [(group, cluster.position, True)])
        cluster.wakeup_events.groups.pop(key, None)

    def _settle(self, cluster: "Cluster", groups: list[_Changed]) -> None:
        changed: list[_Changed] = []
        for group, cluster.position, charges_changed in groups:
            cluster.changed_rows.groups[group.key] = None
            self.journal.append(group.key)
            facts, access = group.observed.facts, cluster.namespace_access
            is_other = False
            if (
                facts is not None
                or group.is_foreign
                or group.key in cluster.foreign_groups.owner_of
            ):
                is_other = cluster.foreign_groups.update(cluster, group)
            if facts is not None and group.queue != (facts.queue or DEFAULT):
                self._follow_queue(cluster, group, facts)
            if group.denied is not None or access.queues or access.is_in_policy:
                is_other = self.update_denial(cluster, group) or is_other
            if group.observed.facts is None and not group.pods:
                self._forget(cluster, group)
                continue
            if len(group.live_classes) > 1:
                group.keep_min_members()
            update_preemption_state(cluster, group)
            changed.append((group, cluster.position, charges_changed or is_other))
        results = self._update_phases(cluster, changed)
        for (group, cluster.position, _), one in zip(changed, results, strict=True):
            if one is not None:
                self._place(cluster, group, one.keys, one.device_job, one.order)
            else:
                self._find_place(cluster, group)

    def _update_phases(
        self, cluster: "Cluster", groups: list[_Changed]
    ) -> list[ShapeResult | None]:
        """Update phases and reservations, and the indexes of pod groups; return for each group what follows from its shape,
        None if it has none."""
        results: list[ShapeResult | None] = []
        for group, cluster.position, charges_changed in groups:
            shape, result = self._shapes.find(cluster, group)
            if shape is not None and result is None:
                result = self._find_result(cluster, group)
                self._shapes.add(cluster, group, shape, result)
            results.append(result)
            phase = group.next_phase() if result is None else result.phase
            is_next = phase != group.decided.phase
            if is_next:
                group.decided = structs.replace(group.decided, phase=phase)
            if result is not None:
                if group.reservation != result.reservation:
                    cluster.ledgers.reserve(cluster, group, result.reservation)
            elif (charges_changed or is_next) and (
                phase != WAITING or group.allocated or group.reservation != NO_RESERVATION
            ):
                cluster.ledgers.update_reservation(cluster, group)
            if cluster.cluster_totals.reservation_timeouts:
                update_reservation_timeout(cluster, group)
            if group.key in cluster.pod_waits.of or (
                phase == INQUEUE and group.observed.facts is not None
            ):
                cluster.pod_waits.update(cluster, group)
        changes = [PodGroupChanged(position, group) for group, position, _ in groups]
        cluster.indexes.dispatch_pod_groups(cluster, changes)
        for plugin in cluster.plugins.group_state:
            for group, cluster.position, _ in groups:
                plugin.group_changed(cluster, group)
        return results

    def _find_result(self, cluster: "Cluster", group: PodGroup) -> ShapeResult:
        """Set the phase of a group, and return all that follows for groups of its shape."""
        group.decided = structs.replace(group.decided, phase=group.next_phase())
        return ShapeResult(
            group.decided.phase,
            quota_charging.reservation(cluster, group),
            _all_keys(cluster, group),
            group.device_job,
            order_values(cluster, group) if cluster.plugins.orders_by_shape else None,
        )

    # Place in the scheduling queue

    def _find_place(self, cluster: "Cluster", group: PodGroup) -> None:
        """Find the keys under which a group waits, and place it."""
        keys = _all_keys(cluster, group)
        if group.decided.refusals:
            stale = [one for one in group.decided.refusals if all(one != key[0] for key in keys)]
            if stale and cluster.pod_waits.is_backing_off(group.key):
                # Not voted on for a while, for this reason.
                stale = [one for one in stale if one != "enqueue"]
            if stale:
                group.decided = group.decided.without_refusals(*stale)
                for action in stale:
                    cluster.internal_errors.clear(group.key, action)
                self._update_phases(cluster, [(group, cluster.position, True)])
                keys = _all_keys(cluster, group)
        self._place(cluster, group, keys, group.device_job)

    def _place(
        self,
        cluster: "Cluster",
        group: PodGroup,
        keys: tuple[EquivalenceKey, ...],
        device_job: DeviceJob | None,
        values: tuple[object, ...] | None = None,
        *,
        wakes: bool = True,
    ) -> None:
        """Give a group its place in the scheduling queue, and wake it if it waits and what a cycle reads of it has changed.
        `values` are those of the plugins in its sort key, if they are known."""
        if cluster.internal_errors.groups:
            keys = _without_suspended(cluster, group, keys)
        before, group.fingerprint = group.fingerprint, ()
        if not keys:
            cluster.scheduling_queue.remove(group)
            return
        if values is None:
            order = job_order(cluster, group)
        else:
            order = (False, *values, group.observed.created_ns, group.key)
        cluster.scheduling_queue.place(group, order, keys)
        asked = (
            without_evicting(keys) if len(keys) > 1 or keys[0][0] in EVICTING else keys,
            order,
            group.decided.phase,
            group.observed.min_available,
            len(group.pending),
        )
        errors = cluster.internal_errors
        suspended = errors.suspended(group.key) if errors.groups else ()
        spec = group.observed.spec
        group.fingerprint = (*asked, spec, *suspended, device_job, group.denied)
        if wakes and group.fingerprint != before:
            cluster.wakeup_events.groups[group.key] = None
            group.decided = structs.replace(group.decided, cause=cluster.position)
            for one in cluster.features.wakeup_followers:
                one.group_woken(cluster, group.key)

    def expected_keys(self, cluster: "Cluster", group: PodGroup) -> tuple[EquivalenceKey, ...]:
        """Compute again the keys under which a group waits."""
        return _without_suspended(cluster, group, _all_keys(cluster, group))

    def expected_place(
        self, cluster: "Cluster", group: PodGroup
    ) -> tuple[tuple[object, ...], tuple[EquivalenceKey, ...]]:
        """Compute again the order of a group and the keys under which it waits."""
        keys = self.expected_keys(cluster, group)
        return (job_order(cluster, group) if keys else ()), keys

    def rebuild(self, cluster: "Cluster") -> None:
        """Compute again what follows from the groups, after they were loaded without marks and all indexes were rebuilt."""
        for group in cluster.groups.values():
            group.keep_min_members()
            update_preemption_state(cluster, group)
            for plugin in cluster.plugins.group_state:
                plugin.group_changed(cluster, group)
            self._place(cluster, group, _all_keys(cluster, group), group.device_job, wakes=False)
        self.forget_marks()

    def trim_journal(self, count: int) -> None:
        """Begin a new journal if it is long for so many groups; readers that are behind then read everything again."""
        if len(self.journal) > JOURNAL_MAX + 2 * count:
            self.journal = []
            self.journal_version += 1

    # Objects and pods

    def put_object(self, cluster: "Cluster", facts: GroupFacts, digest: str) -> None:
        """Add or update a PodGroup object."""
        group = self.ensure(cluster, f"{facts.namespace}/{facts.name}")
        before = group.observed.facts
        row = group.observed.with_object(group.key, facts, digest)
        if group.observed.spec != row.spec:
            cluster.internal_errors.resume(group.key)
        for pod in group.pods.values():
            row = row.with_least(pod.pod_class.device_options)
        group.observe(row)
        if before is None and facts.phase in PHASES and cluster.trusts_stated_phase:
            phase = facts.phase
            group.decided = structs.replace(group.decided, phase=phase, listed_phase=phase)
        elif before is not None:
            record_overwritten(cluster, group, before)
            if asks_for_more(before, facts) and not cluster.trusts_stated_phase:
                _vote_again(group)
        self._follow_queue(cluster, group, facts, is_new=before is None)
        cluster.foreign_groups.update(cluster, group)
        self.mark(group.key, cluster.position)

    def drop_object(self, cluster: "Cluster", key: str) -> None:
        """Remove the PodGroup object; pods that name it wait until it is created again."""
        group = self.own(cluster, key)
        group.observe(group.observed.without_object())
        group.decided = structs.replace(group.decided, listed_phase="")
        cluster.internal_errors.resume(key)
        self.mark(key, cluster.position)

    def adopt(self, cluster: "Cluster", pod: Pod) -> None:
        """Prepare the group of a pod; create it if it does not exist."""
        known = cluster.groups.get(pod.group_key)
        if known is not None:
            if pod.pod_class.device_options:
                known = self.own(cluster, known.key)
                known.observed = known.observed.with_least(pod.pod_class.device_options)
            return
        owner = pod.facts.owner
        inherited = cluster.owners.get(owner.uid, {}) if owner else {}
        origin = origin_of(pod.facts, inherited, cluster.namespaces)
        group = cluster.groups[pod.group_key] = PodGroup(pod.group_key)
        group.priority = pod.facts.priority or 0
        group.observed = ObservedGroup(
            group.key,
            pod.facts.created_ns,
            origin.min_available,
            origin.needs_object,
            group.priority,
        )
        self._move(cluster, group, origin.queue)
        if cluster.namespace_access.is_restricted:
            self.update_denial(cluster, group)

    def _follow_queue(
        self, cluster: "Cluster", group: PodGroup, facts: GroupFacts, *, is_new: bool = False
    ) -> None:
        """Move a group to the queue that its object names. While pods of it are charged it stays, as what they hold was
        admitted there and must not be charged to others; without such pods it is voted on again (`moveRunningGroups`
        of the policy: as in Volcano it takes all along, to a queue that it may use)."""
        named, subject = facts.queue or DEFAULT, f"PodGroup/{group.key}"
        moves_all = cluster.policy.action_arguments.moves_running_groups
        entered = queue_to_enter(cluster, group, named)
        if group.queue and group.counts.allocated and not moves_all:
            entered = group.queue
        if entered != named:
            cluster.config_errors.add(subject, (QUEUE_CHANGED, queue_changed(named, entered)))
        else:
            cluster.config_errors.replace(subject, QUEUE_CHANGED, ())
        is_stated = is_new or moves_all or group.is_foreign or cluster.is_shadow
        if entered != group.queue and not is_stated:
            _vote_again(group)
        self._move(cluster, group, entered)

    def _move(self, cluster: "Cluster", group: PodGroup, queue: str) -> None:
        """Move a group to a queue, with its charges."""
        if group.queue == queue:
            return
        if group.queue:
            self.remove_nominations(cluster, group)  # They are charged to the old queue.
            cluster.ledgers.charge_group(cluster, group, -1)
            before = cluster.queues[group.queue]
            del before.groups[group.key]
            group.queue = queue
            cluster.forget_queue(before)
        group.queue = queue
        cluster.internal_errors.resume(group.key)
        (cluster.queues.get(queue) or cluster.ensure_queue(queue)).groups[group.key] = None
        if group.pods or group.decided.nominations or group.observed.facts is not None:
            cluster.ledgers.charge_group(cluster, group, 1)
            invalidate_victims(cluster, group)

    def update_denial(self, cluster: "Cluster", group: PodGroup) -> bool:
        """Determine whether the namespace of a group may use its queue and pool. Return whether that changed."""
        is_restricted = cluster.namespace_access.is_restricted
        if not is_restricted and group.denied is None:
            return False
        denied = denial_of(cluster, group) if is_restricted else None
        if denied == group.denied:
            return False
        cluster.ledgers.set_denial(cluster, group, denied)
        return True

    def _forget(self, cluster: "Cluster", group: PodGroup) -> None:
        cluster.scheduling_queue.remove(group)
        self.remove_nominations(cluster, group)
        cluster.ledgers.release(cluster, group)
        cluster.cluster_totals.reservation_timeouts.pop(group.key, None)
        gone = PodGroupChanged(cluster.position, group, is_gone=True)
        cluster.indexes.dispatch_pod_groups(cluster, (gone,))
        for plugin in cluster.plugins.group_state:
            plugin.group_deleted(cluster, group.key)
        del cluster.groups[group.key]
        cluster.wakeup_events.groups.pop(group.key, None)
        cluster.bind_backoffs.forget(group.key)
        for kept in (cluster.pod_waits.of, cluster.victim_waits):
            kept.pop(group.key, None)
        cluster.internal_errors.clear(group.key)
        if cluster.policy.reschedules:
            forget_group(cluster, group.key)
        queue = cluster.queues[group.queue]
        del queue.groups[group.key]
        cluster.forget_queue(queue)

    # Nominations

    def set_nominations(
        self, cluster: "Cluster", group: PodGroup, nominations: dict[str, Nomination]
    ) -> None:
        """Reserve the nominated resources, by pod UID, on nodes and in the queue."""
        group = self.own(cluster, group.key)
        group.decided = structs.replace(group.decided, nominations=nominations)
        for uid, held in nominations.items():
            cluster.nodes.nominate(held.node, uid, held.request, 1, held.devices)
            cluster.queues[group.queue].add_charge("nominated", held.charge, 1)
        if nominations:
            cluster.changed_queues[group.queue] = None

    def remove_nominations(
        self, cluster: "Cluster", group: PodGroup, *, is_bound: bool = False
    ) -> None:
        """Release the nominated resources of a group; `is_bound` if the group itself uses them now."""
        group = self.own(cluster, group.key)
        for uid, held in group.decided.nominations.items():
            remove_nomination(cluster, group.pods.get(uid), uid, held)
            cluster.queues[group.queue].add_charge("nominated", held.charge, -1)
            if not is_bound:
                cluster.mark_node_freed(held.node)
        if group.decided.nominations:
            cluster.changed_queues[group.queue] = None
        group.decided = structs.replace(group.decided, nominations=NO_NOMINATIONS)

    def resume(self, cluster: "Cluster", key: str) -> None:
        """Let actions that were suspended after an internal error try a group again."""
        if cluster.internal_errors.resume(key):
            self.mark(key, cluster.position)


def _vote_again(group: PodGroup) -> None:
    """Take back the admission of a group of which nothing is charged yet: it was for something else."""
    if group.decided.phase == INQUEUE and not group.counts.allocated and not group.is_foreign:
        group.decided = structs.replace(group.decided, phase=WAITING, listed_phase="")


def _resumed(cluster: "Cluster", key: str) -> bool:
    """Let suspended actions try a group again; return whether there were any."""
    errors = cluster.internal_errors
    return key in errors.groups and errors.resume(key)


def _all_keys(cluster: "Cluster", group: PodGroup) -> tuple[EquivalenceKey, ...]:
    """Return the keys under which a group waits; none while it is not tried."""
    if group.key in cluster.bind_backoffs.until:
        return ()
    if cluster.pod_waits.of and cluster.pod_waits.is_backing_off(group.key):
        return ()
    return equivalence_keys(cluster, group)


def _without_suspended(
    cluster: "Cluster", group: PodGroup, keys: tuple[EquivalenceKey, ...]
) -> tuple[EquivalenceKey, ...]:
    """Remove the keys of actions that are suspended for the group after an internal error."""
    if group.key not in cluster.internal_errors.groups:
        return keys
    errors = cluster.internal_errors
    return tuple([key for key in keys if not errors.is_suspended(group.key, key[0])])
