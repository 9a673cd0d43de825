"""Compute every index and sum of State again, from pods, nodes, groups and queues, and compare.

State updates sums by adding and removing entries; a difference found here is a bug. `audit` computes everything again,
`RollingAudit` one object at a time beside other work. An index is compared with what its own `rebuilt` returns
(`projections/index_audit.py`); what concerns several of them is compared here. A difference raises an AssertionError that
names the entry, the kept value and the counted value.
"""

from collections.abc import Iterable
from typing import Final

from projections import nominations, quota_charging
from projections.cluster import Cluster
from projections.index_audit import check_index, check_same
from projections.inter_pod_affinity_index import check_classes
from projections.job_order import job_order
from projections.namespace_access import denial_of
from projections.pending_status import reported_in
from projections.pod_class import Amounts
from projections.pod_groups import INQUEUE, WAITING, PodGroup
from projections.pod_waits import lacks_pods
from projections.pods import ALLOCATED, PENDING
from projections.preemption_triggers import priority_of
from projections.quarantine import audit as audit_quarantines
from projections.queue_tree import place_of
from projections.queues import LEDGERS
from projections.reported_status import NOT_REPORTED
from projections.session_priority import bounded_priority
from projections.state_facts import StateFacts
from projections.wakeup_events import ChangedRows

QUEUE_GROUPS_MAX: Final = 1000
"""`RollingAudit` skips queues with more pod groups: a recount would stop the loop for too long."""

INDEX_PODS_MAX: Final = 1000
"""`RollingAudit` skips indexes over the whole cluster if there are more pods, for the same reason."""

TOUCHED_MAX: Final = 10_000
"""Maximum number of changed objects that wait for a recount; others are recounted in the regular round."""


def audit(state: StateFacts) -> None:
    """Recount everything."""
    cluster = state.cluster
    for name in cluster.nodes.nodes:
        _audit_node(state, name)
    for key in cluster.groups:
        _audit_group(state, key)
    for name in cluster.queues:
        _audit_queue(state, name)
    for uid in cluster.pods:
        _audit_pod(state, uid)
    for index in cluster.indexes.all:
        check_index(index.name, index, cluster)
    check_classes(cluster)
    _audit_places(state)
    _audit_totals(state)
    audit_quarantines(cluster)
    _audit_cluster_totals(state)
    _audit_slots(cluster)
    _audit_scheduling_queue(state)
    _audit_commitments(state)


class RollingAudit:
    """Recount one object at a time: first those that records changed, then all others in turn.

    It changes nothing, and no decision depends on it: the caller chooses how often to call `next`.
    """

    def __init__(self, state: StateFacts, index_pods_max: int = INDEX_PODS_MAX) -> None:
        self._state = state
        self._index_pods_max = index_pods_max
        self._touched: dict[tuple[str, str], None] = {}
        self._turn: list[tuple[str, str]] = []
        """Objects that are still to be recounted in this round; the last is next."""

    def note(self, touched: ChangedRows) -> None:
        """Add changed objects, up to TOUCHED_MAX."""
        for kind, keys in (
            ("node", touched.nodes),
            ("group", touched.groups),
            ("queue", touched.queues),
            ("pod", touched.pods),
        ):
            for key in keys:
                if len(self._touched) >= TOUCHED_MAX:
                    return
                self._touched[kind, key] = None

    @property
    def is_round_over(self) -> bool:
        """Return whether this round and all changed objects are done."""
        return not self._touched and not self._turn

    def next(self) -> None:
        """Recount the next object. Raise AssertionError with the position in the log if something differs."""
        if self._touched:
            kind, key = next(iter(self._touched))
            del self._touched[kind, key]
        else:
            if not self._turn:
                self._turn = self._everything()
            if not self._turn:
                return
            kind, key = self._turn.pop()
        try:
            self._count(kind, key)
        except AssertionError as error:
            position = self._state.position
            raise AssertionError(
                f"State does not add up at position {position}: {error}. This is a bug of muster; the log is "
                "not damaged, and a start folds State from it again"
            ) from error

    def _everything(self) -> list[tuple[str, str]]:
        cluster = self._state.cluster
        is_small = len(cluster.pods) <= self._index_pods_max
        return [
            *(("index", one.name) for one in cluster.indexes.all if is_small),
            *(("pod", uid) for uid in cluster.pods),
            *(("queue", name) for name in cluster.queues),
            *(("group", key) for key in cluster.groups),
            *(("node", name) for name in cluster.nodes.nodes),
        ]

    def _count(self, kind: str, key: str) -> None:
        cluster = self._state.cluster
        if kind == "node" and key in cluster.nodes.nodes:
            _audit_node(self._state, key)
        elif kind == "group" and key in cluster.groups:
            _audit_group(self._state, key)
        elif kind == "queue" and key in cluster.queues:
            if len(cluster.queues[key].groups) <= QUEUE_GROUPS_MAX:
                _audit_queue(self._state, key)
        elif kind == "pod" and key in cluster.pods:
            _audit_pod(self._state, key)
        elif kind == "index":
            for index in cluster.indexes.all:
                if index.name == key:
                    check_index(key, index, cluster)


def audit_trials(state: StateFacts, names: Iterable[str], group: PodGroup) -> None:
    """Recount nodes on which placements of a group were tried: no trial may be left."""
    nodes = state.cluster.nodes.nodes
    for name in names:
        node = nodes.get(name)
        if node is None:
            continue
        assert not node.trial_pods, f"node {name} still has trial pods: {list(node.trial_pods)}"
        assert not node.trial_victims, (
            f"node {name} still has pods that are to leave: {list(node.trial_victims)}"
        )
        _audit_node(state, name)
    for uid, held in group.decided.nominations.items():
        there = nodes.get(held.node)
        assert there is not None, (
            f"pod group {group.key} is nominated to {held.node}, which is gone"
        )
        assert uid in there.nominated_pods, f"pod {uid} is not nominated on node {held.node}"


def _audit_node(state: StateFacts, name: str) -> None:
    node = state.cluster.nodes.nodes[name]
    for uid in node.pods:
        pod = state.cluster.pods.get(uid)
        assert pod is not None, f"node {name} holds pod {uid}, which is gone"
        at = pod.node if pod.occupies else ""
        assert at == name, f"node {name} holds pod {pod.key}, which is on {at or 'none'}"
    check_index(f"node {name}", node, state.cluster)
    is_leaving = any(node.releasing.values()) or any(node.nominated.values())
    is_kept = name in state.cluster.nodes.leaving
    assert is_kept == is_leaving, f"node {name} leaving: kept {is_kept}, counted {is_leaving}"


def _audit_pod(state: StateFacts, uid: str) -> None:
    pod = state.cluster.pods[uid]
    assert pod.facts.uid == uid, f"pod {pod.key} has the key {uid}"
    if pod.occupies:
        node = state.cluster.nodes.nodes.get(pod.node)
        there = {} if node is None else node.pods
        assert uid in there, f"pod {pod.key} is not on {pod.node}"
    if pod.group_key:
        group = state.cluster.groups.get(pod.group_key)
        members = {} if group is None else group.pods
        assert members.get(uid) is pod, f"pod {pod.key} is not in {pod.group_key}"
    is_charged = bool(pod.group_key) and pod.status in ALLOCATED
    assert not is_charged or pod.charge is not None, f"pod {pod.key} is charged nothing"
    if pod.assumed:
        assert pod.decision, f"pod {pod.key} is assumed on {pod.assumed} by no decision"


def _audit_group(state: StateFacts, key: str) -> None:
    cluster, group = state.cluster, state.cluster.groups[key]
    what = f"pod group {key}"
    assert group.observed.facts is not None or group.pods, f"{what} is empty"
    assert key in cluster.queues[group.queue].groups, f"{what} is not in queue {group.queue}"
    check_index(what, group, cluster)
    is_foreign = cluster.foreign_groups.is_foreign(group, cluster.scheduler_names)
    check_same(f"{what} is foreign", group.is_foreign, is_foreign)
    is_restricted = cluster.namespace_access.is_restricted
    check_same(f"{what} denied", group.denied, denial_of(cluster, group) if is_restricted else None)
    if group.observed.facts is not None:
        stated = priority_of(cluster.priority_classes, group.observed.facts.priority_class)
        check_same(f"{what} stated priority", group.observed.stated_priority, stated)
    priority, _ = bounded_priority(cluster, group, group.observed.stated_priority)
    check_same(f"{what} priority", group.priority, priority)
    has_surplus = group.counts.ready - group.counts.best_effort > group.observed.min_available
    check_same(f"{what} has surplus", group.has_surplus, has_surplus)
    _audit_charges(state, group, what)


def _audit_charges(state: StateFacts, group: PodGroup, what: str) -> None:
    """Check charges, reservations, phase and queue position of a group."""
    cluster = state.cluster
    for pod in group.pods.values():
        asked = quota_charging.requested(cluster, pod.pod_class) if pod.status == PENDING else ()
        known = cluster.ledgers.requested.get(pod.facts.uid, ())
        assert known == asked, f"pod {pod.key} asked: kept {known}, counted {asked}"
    had, has = group.reservation, quota_charging.reservation(cluster, group)
    check_same(f"{what} inqueue", dict(had.inqueue), dict(has.inqueue))
    check_same(f"{what} elastic", dict(had.elastic), dict(has.elastic))
    for uid, held in group.decided.nominations.items():
        found = group.pods.get(uid)
        assert found is not None, f"{what} nominates {uid} to {held.node}, which is gone"
        assert not found.node, f"{what} nominates {uid} to {held.node}, which is on {found.node}"
    keys = cluster.pod_groups.expected_keys(cluster, group)
    stands = tuple(
        equivalence_group.key for equivalence_group in cluster.scheduling_queue.of(group)
    )
    assert stands == keys, f"{what} equivalence groups: kept {stands}, counted {keys}"
    _audit_pending_status(cluster, group, what)
    order = job_order(cluster, group)
    for equivalence_group in cluster.scheduling_queue.of(group):
        assert equivalence_group.queue == group.queue, (
            f"{what} waits in queue {equivalence_group.queue}"
        )
        assert (order, group) in equivalence_group.jobs, (
            f"{what} is out of place in {equivalence_group.key}"
        )
        if equivalence_group.by_refusal:
            standing = equivalence_group.standing_of(group)
            kept = equivalence_group.by_refusal.get(standing, {}).get(group.key)
            assert kept == (order, group), f"{what} is not kept by its refusal {standing}"


def _audit_pending_status(cluster: Cluster, group: PodGroup, what: str) -> None:
    """Check whether the status of the PodGroup object still has to be updated, and that no phase is kept of an object
    that is gone."""
    assert group.observed.facts is not None or not group.decided.listed_phase, (
        f"{what} keeps a listed phase"
    )
    pending_status, facts = cluster.pending_status, group.observed.facts
    reported_status = group.decided.reported_status
    if facts is None:
        assert reported_status == NOT_REPORTED, f"{what} keeps the status of an object that is gone"
    else:
        now = group.status_now
        assert reported_status.status == now, (
            f"{what} status: kept {reported_status.status}, counted {now}"
        )
        is_whole = bool(group.pods) and group.is_ready
        assert is_whole == bool(reported_status.ready_since), (
            f"{what} is whole since {reported_status.ready_since}"
        )
    is_open = (
        facts is not None
        and not group.is_foreign
        and reported_status.reported_at < reported_status.since
    )
    reported = ("", 0, 0, 0) if facts is None else reported_in(facts)
    kept = (group.key in pending_status.phases, group.key in pending_status.counts)
    is_new = facts is not None and not facts.phase and bool(group.decided.refusals)
    is_phase_due = is_open and (reported[0] != group.decided.phase or is_new)
    counted = (is_phase_due, is_open and not is_phase_due and reported != reported_status.status)
    assert kept == counted, f"{what} status update: kept {kept}, counted {counted}"


def _audit_queue(state: StateFacts, name: str) -> None:
    cluster, queue = state.cluster, state.cluster.queues[name]
    for key in queue.groups:
        group = cluster.groups.get(key)
        assert group is not None, f"queue {name} holds {key}, which is gone"
        assert group.queue == name, f"queue {name} holds {key}, which is in {group.queue}"
    for child in queue.children:
        there = cluster.queues.get(child)
        assert there is not None, f"queue {name} is above {child}, which is gone"
        assert there.parent is queue, f"queue {name} is above {child}, which is elsewhere"
    above = queue.above
    found, misplaced = place_of(cluster, queue)
    assert (above and above.name) == found, f"queue {name} is below {above}, counted {found}"
    is_tree = cluster.plugins.quota.keeps_tree
    kept_place = (queue.is_in_tree, queue.parent, queue.misplaced)
    counted = (is_tree, above if is_tree else None, misplaced if is_tree else "")
    assert kept_place == counted, f"queue {name} place: kept {kept_place}, counted {counted}"
    parent = queue.parent
    assert parent is None or name in parent.children, f"queue {name} is below one that knows not"
    check_index(f"queue {name}", queue, cluster)
    for ledger in LEDGERS:
        kept: Amounts = getattr(queue, ledger)
        assert all(amount > 0 for amount in kept.values()), f"queue {name} {ledger}: {kept}"
    assert queue.facts is not None or queue.groups, (
        f"queue {name} has neither an object nor pod groups"
    )


def _audit_places(state: StateFacts) -> None:
    """Check that nothing is in two places, and that everything that is placed is known."""
    cluster = state.cluster
    on_node = [uid for node in cluster.nodes.nodes.values() for uid in node.pods]
    in_group = [uid for group in cluster.groups.values() for uid in group.pods]
    in_queue = [key for queue in cluster.queues.values() for key in queue.groups]
    for what, names, known in (
        ("pod on a node", on_node, cluster.pods.keys()),
        ("pod in a group", in_group, cluster.pods.keys()),
        ("pod group in a queue", in_queue, cluster.groups.keys()),
    ):
        for name, times in _tally(names).items():
            assert times == 1, f"{what}: {name} is in {times} places"
            assert name in known, f"{what}: {name} is not known"
    nominated: dict[str, Amounts] = {}
    nominations.sum_nominations(cluster, nominated)
    for group in cluster.groups.values():
        for held in group.decided.nominations.values():
            _add(nominated.setdefault(held.node, {}), held.request)
    for name, requests in cluster.reschedulings.reservations_on().items():
        for request in requests:
            _add(nominated.setdefault(name, {}), request)
    nominated_pods: dict[str, dict[str, tuple[str, ...]]] = {}
    for group in cluster.groups.values():
        for uid, held in group.decided.nominations.items():
            nominated_pods.setdefault(held.node, {})[uid] = held.devices
    for pod in cluster.pods.values():
        if (room := nominations.nomination_of(pod)) is not None:
            nominated_pods.setdefault(room[0], {})[pod.facts.uid] = ()
    for name, node in cluster.nodes.nodes.items():
        check_same(f"node {name} nominated", node.nominated, nominated.pop(name, {}))
        expected = nominated_pods.get(name, {})
        check_same(f"node {name} nominated pods", node.nominated_pods, expected)
    assert not nominated, f"resources are nominated on unknown nodes: {nominated}"


def _audit_totals(state: StateFacts) -> None:
    cluster = state.cluster
    present = [node.facts for node in cluster.nodes.nodes.values() if node.facts is not None]
    objects = sum(queue.facts is not None for queue in cluster.queues.values())
    assert cluster.queue_objects == objects, f"queues: {cluster.queue_objects}, {objects}"
    current = cluster.config_errors.current
    for node in present:
        kept = current.get(f"Node//{node.name}", ())
        found = (*node.faults, *cluster.device_holders.errors.get(node.name, ()))
        check_same(f"Node//{node.name} faults", kept, found)
    tree = cluster.nodes.hyper_tree
    for name in tree.facts:
        kept = current.get(f"HyperNode//{name}", ())
        check_same(f"HyperNode//{name} faults", kept, tree.faults_of(name))
    unreported = {one.name: None for one in cluster.queues.values() if one.unreported_errors}
    check_same("unreported errors", cluster.queues_with_unreported_errors, unreported)


def _audit_cluster_totals(state: StateFacts) -> None:
    """Check the sums over the whole cluster against nodes and groups."""
    cluster, cluster_totals = state.cluster, state.cluster.cluster_totals
    for key in (
        *cluster_totals.reservation_timeouts,
        *cluster.pod_waits.of,
    ):
        assert key in cluster.groups, f"{key} is kept, but the group is gone"
    for key in cluster.victim_waits:
        assert key in cluster.groups, f"{key} waits for victims, but the group is gone"
    unready = cluster.unready_nodes
    for name in unready.since_ns:
        facts = cluster.nodes.nodes[name].facts if name in cluster.nodes.nodes else None
        assert facts is not None, f"{name} is unready and absent"
        assert facts.not_ready_since_ns is not None, f"{name} is kept as unready and is not"
    for name in unready.uncounted:
        assert name in unready.since_ns, f"{name} does not count, and is not unready"
    for key in cluster.pod_waits.of:
        group = cluster.groups[key]
        assert lacks_pods(group), f"{key} waits for pods, but has them"
        assert group.decided.phase in (INQUEUE, WAITING), (
            f"{key} waits for pods, but is {group.decided.phase}"
        )


def _audit_slots(cluster: Cluster) -> None:
    """Check that each node knows its place in the columns, and that no class without pods has a charge."""
    for slot, node in enumerate(cluster.nodes.order if cluster.nodes.is_laid_out else ()):
        assert node.slot == slot, f"node {node.name} slot: kept {node.slot}, counted {slot}"
    uses = cluster.inter_pod_affinity.classes.uses
    assert all(index in uses for index in cluster.charges), "a charge of no class is kept"


def _audit_scheduling_queue(state: StateFacts) -> None:
    for name, equivalence_groups in state.cluster.scheduling_queue.by_queue.items():
        for key, equivalence_group in equivalence_groups.items():
            assert (equivalence_group.queue, equivalence_group.key) == (name, key), (
                f"equivalence group {key} is in queue {name}"
            )
            assert equivalence_group.jobs, f"equivalence group {key} of {name} is empty"
            orders = [order for order, _ in equivalence_group.jobs]
            assert orders == sorted(orders), f"equivalence group {key} of {name} is out of order"
            kept = sum(len(jobs) for jobs in equivalence_group.by_refusal.values())
            assert kept in (0, len(orders)), f"equivalence group {key} of {name} keeps {kept}"
            for _, group in equivalence_group.jobs:
                assert state.cluster.groups.get(group.key) is group, f"{group.key} is gone"
                assert equivalence_group in state.cluster.scheduling_queue.of(group), (
                    f"{group.key} is not in {key}"
                )


def _audit_commitments(state: StateFacts) -> None:
    before = 0
    for uid, one in state.commitments.items():
        assert one.decision >= before, f"the binding of {one.pod} is not in the order of decisions"
        before = one.decision
        pod = state.cluster.pods.get(uid)
        assert pod is not None, f"{one.pod} is committed to {one.node} and gone"
        assert pod.facts.node or pod.assumed == one.node, (
            f"{one.pod} is committed to {one.node} and assumed on {pod.assumed}"
        )
    for key in state.cluster.bind_backoffs.until:
        assert key in state.cluster.groups, f"{key} rests and is gone"


def _add(total: Amounts, more: Iterable[tuple[str, int]]) -> None:
    for name, amount in more:
        total[name] = total.get(name, 0) + amount


def _tally(names: Iterable[str]) -> Amounts:
    total: Amounts = {}
    for name in names:
        total[name] = total.get(name, 0) + 1
    return total
