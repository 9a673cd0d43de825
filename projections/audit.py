"""Recount every sum that State keeps, from pods, nodes, groups and queues.

State updates sums by adding and removing entries; a difference found here is a bug. `audit` recounts everything,
`RollingAudit` one object at a time beside other work. A difference raises an AssertionError that names the entry,
the kept value and the counted value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from projections import foreign_pod_groups, nominations, quota_charging
from projections.cluster import Cluster
from projections.config_errors import Pairs
from projections.gang_minimum import recount as recount_first
from projections.hyper_audit import recount as recount_hyper_nodes
from projections.inter_pod_affinity_index import recount
from projections.job_order import job_order
from projections.nodes import SHORT_MAX, Node
from projections.pending_status import reported_in
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED, FAILED, PENDING, READY, RELEASING, SUCCEEDED, Pod
from projections.queues import LEDGERS
from projections.wakeup_events import ChangedRows

QUEUE_GROUPS_MAX: Final = 1000
"""`RollingAudit` skips queues with more pod groups: a recount would stop the loop for too long."""

TOUCHED_MAX: Final = 10_000
"""Maximum number of changed objects that wait for a recount; others are recounted in the regular round."""


class PendingBinding(Protocol):
    """A binding without an outcome."""

    @property
    def pod(self) -> str:
        """`namespace/name`"""

    @property
    def node(self) -> str:
        """Return the node of the binding."""


class AuditedState(Protocol):
    """The part of State that is recounted."""

    cluster: Cluster
    position: int

    @property
    def commitments(self) -> Mapping[str, PendingBinding]:
        """Bindings without an outcome, by UID."""


def audit(state: AuditedState) -> None:
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
    _audit_places(state)
    _audit_totals(state)
    _audit_tree(state)
    _audit_cluster_totals(state)
    _audit_table(state)
    _audit_scheduling_queue(state)
    cluster.budgets.recount(cluster.pods)
    recount(cluster, cluster.pods.values())
    _audit_classes(cluster)
    recount_hyper_nodes(cluster)
    foreign_pod_groups.recount(cluster, cluster.pods.values())
    _audit_commitments(state)


class RollingAudit:
    """Recount one object at a time: first those that records changed, then all others in turn.

    It changes nothing, and no decision depends on it: the caller chooses how often to call `next`.
    """

    def __init__(self, state: AuditedState) -> None:
        self._state = state
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
        return [
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


def audit_trials(state: AuditedState, names: Iterable[str], group: PodGroup) -> None:
    """Recount nodes on which placements of a group were tried: no overlay may be left."""
    nodes = state.cluster.nodes.nodes
    for name in names:
        node = nodes.get(name)
        if node is None:
            continue
        assert not node.overlay_added, (
            f"node {name} still has overlay pods: {list(node.overlay_added)}"
        )
        assert not node.overlay_removed, (
            f"node {name} still has pods that are to leave: {list(node.overlay_removed)}"
        )
        _audit_node(state, name)
    for uid, held in group.nominations.items():
        there = nodes.get(held.node)
        assert there is not None, (
            f"pod group {group.key} is nominated to {held.node}, which is gone"
        )
        assert uid in there.nominated_pods, f"pod {uid} is not nominated on node {held.node}"


def _audit_node(state: AuditedState, name: str) -> None:
    node = state.cluster.nodes.nodes[name]
    occupied: Amounts = {}
    releasing: Amounts = {}
    for uid in node.pods:
        pod = state.cluster.pods.get(uid)
        assert pod is not None, f"node {name} holds pod {uid}, which is gone"
        at = pod.node if pod.occupies else ""
        assert at == name, f"node {name} holds pod {pod.key}, which is on {at or 'none'}"
        _add(occupied, pod.pod_class.request)
        if pod.status == RELEASING:
            _add(releasing, pod.pod_class.request)
    _same(f"node {name} occupied", node.occupied, occupied)
    _same(f"node {name} releasing", node.releasing, releasing)
    free: Amounts = {}
    for resource in node.free:
        held = node.nominated.get(resource, 0) - releasing.get(resource, 0)
        idle = node.allocatable(resource) - occupied.get(resource, 0)
        free[resource] = max(-SHORT_MAX, idle - held if held > 0 else idle)
        if resource in node.quarantine:
            free[resource] = min(free[resource], 0)
    _same(f"node {name} free", node.free, free)
    is_leaving = any(releasing.values()) or any(node.nominated.values())
    is_kept = name in state.cluster.nodes.leaving
    assert is_kept == is_leaving, f"node {name} leaving: kept {is_kept}, counted {is_leaving}"


def _audit_pod(state: AuditedState, uid: str) -> None:
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


def _audit_group(state: AuditedState, key: str) -> None:
    cluster, group = state.cluster, state.cluster.groups[key]
    what = f"pod group {key}"
    assert group.facts is not None or group.pods, f"{what} is empty"
    assert key in cluster.queues[group.queue].groups, f"{what} is not in queue {group.queue}"
    waiting = sorted(
        (pod for pod in group.pods.values() if pod.status == PENDING), key=lambda pod: pod.sort_key
    )
    assert group.pending == waiting, f"{what} pending: {[one.key for one in group.pending]}"
    counted = [one for one in group.pods.values() if one.status != RELEASING or one.node]
    _same(f"{what} counts", group.counts, _tally(pod.status for pod in counted))
    free = [pod for pod in waiting if pod.pod_class.is_best_effort]
    ready = [*free, *(pod for pod in group.pods.values() if pod.status in READY)]
    _same(f"{what} ready by role", group.ready_by_role, _tally(pod.facts.role for pod in ready))
    finished = (SUCCEEDED, FAILED, RELEASING)
    live = [pod for pod in group.pods.values() if pod.status not in finished]
    _same_index(f"{what} live classes", group.live_classes, live)
    recount_first(group.cached_min_members, live, what)
    busy = [pod for pod in waiting if not pod.pod_class.is_best_effort]
    _same_index(f"{what} pending classes", group.pending_classes, busy)
    held: Amounts = {}
    for pod in group.pods.values():
        if pod.status in ALLOCATED:
            _add(held, pod.pod_class.request)
    _same(f"{what} held", group.held, held)
    idle = len(waiting) - len(busy)
    assert group.best_effort_count == idle, f"{what} best effort: {group.best_effort_count}, {idle}"
    _audit_charges(state, group, what)


def _audit_charges(state: AuditedState, group: PodGroup, what: str) -> None:
    """Check charges, reservations, phase and queue position of a group."""
    cluster = state.cluster
    allocated: Amounts = {}
    for pod in group.pods.values():
        if pod.status in ALLOCATED:
            _add(allocated, pod.charge or ())
        asked = quota_charging.requested(cluster, pod.pod_class) if pod.status == PENDING else ()
        assert pod.requested_charge == asked, (
            f"pod {pod.key} asked: kept {pod.requested_charge}, counted {asked}"
        )
    _same(f"{what} allocated", group.allocated, allocated)
    inqueue, elastic = quota_charging.reservation(cluster, group)
    _same(f"{what} inqueue", dict(group.inqueue), dict(inqueue))
    _same(f"{what} elastic", dict(group.elastic), dict(elastic))
    for uid, held in group.nominations.items():
        found = group.pods.get(uid)
        assert found is not None, f"{what} nominates {uid} to {held.node}, which is gone"
        assert not found.node, f"{what} nominates {uid} to {held.node}, which is on {found.node}"
    keys = cluster.expected_equivalence_keys(group)
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
    """Check whether the status of the PodGroup object still has to be updated."""
    pending_status, facts = cluster.pending_status, group.facts
    reported_status, now = group.reported_status, group.status_now
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
    counted = (
        is_open and reported[0] != group.phase,
        is_open and reported[0] == group.phase and reported != reported_status.status,
    )
    assert kept == counted, f"{what} status update: kept {kept}, counted {counted}"


def _audit_queue(state: AuditedState, name: str) -> None:
    cluster, queue = state.cluster, state.cluster.queues[name]
    ledgers: dict[str, Amounts] = {
        ledger: {} for ledger in ("allocated", "held", "pending", "nominated", "inqueue", "elastic")
    }
    for key in queue.groups:
        group = cluster.groups.get(key)
        assert group is not None, f"queue {name} holds {key}, which is gone"
        assert group.queue == name, f"queue {name} holds {key}, which is in {group.queue}"
        _add(ledgers["allocated"], group.allocated.items())
        _add(ledgers["held"], ((name, held) for name, held in group.held.items() if held))
        _add(ledgers["inqueue"], group.inqueue)
        _add(ledgers["elastic"], group.elastic)
        for held in group.nominations.values():
            _add(ledgers["nominated"], held.charge)
        for pod in group.pending:
            _add(ledgers["pending"], pod.requested_charge)
    for ledger, counted in ledgers.items():
        kept: Amounts = getattr(queue, ledger)
        _same(f"queue {name} {ledger}", kept, counted)
        assert all(amount > 0 for amount in kept.values()), f"queue {name} {ledger}: {kept}"
    assert queue.facts is not None or queue.groups, (
        f"queue {name} has neither an object nor pod groups"
    )
    groups = [cluster.groups[key] for key in queue.groups]
    queue.recount_evictable((one.priority, pod) for one in groups for pod in one.pods.values())


def _audit_places(state: AuditedState) -> None:
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
        for held in group.nominations.values():
            _add(nominated.setdefault(held.node, {}), held.request)
    for name, node in cluster.nodes.nodes.items():
        _same(f"node {name} nominated", node.nominated, nominated.pop(name, {}))
    assert not nominated, f"resources are nominated on unknown nodes: {nominated}"


def _audit_totals(state: AuditedState) -> None:
    cluster = state.cluster
    present = [node.facts for node in cluster.nodes.nodes.values() if node.facts is not None]
    totals: Amounts = {}
    cards: dict[str, Amounts] = {}
    for facts in present:
        _add(totals, facts.allocatable.items())
        for resource, card in facts.cards.items():
            _add(cards.setdefault(resource, {}), [(card, 1)])
    _same("totals", cluster.totals, totals)
    assert cluster.cards.by_resource == cards, f"cards: {cluster.cards.by_resource}, {cards}"
    named = {name: cluster.cards.resource.get(name) for one in cards.values() for name in one}
    assert cluster.cards.resource == named, f"card names: {cluster.cards.resource}, {named}"
    for name, resource in cluster.cards.resource.items():
        assert name in cards[resource], f"card {name} is not counted by {resource}"
    objects = sum(queue.facts is not None for queue in cluster.queues.values())
    assert cluster.queue_objects == objects, f"queues: {cluster.queue_objects}, {objects}"
    book = cluster.config_errors
    missing = [subject for subject in book.current if book.unreported_of(subject)]
    assert sorted(book.unreported) == sorted(missing), (
        f"unreported errors: {book.unreported}, {missing}"
    )
    for node in present:
        _same_faults(cluster, f"Node//{node.name}", node.faults)
    unreported = [queue.name for queue in cluster.queues.values() if queue.unreported_errors]
    assert sorted(cluster.queues_with_unreported_errors) == sorted(unreported), (
        f"unreported errors: {cluster.queues_with_unreported_errors}, {unreported}"
    )


def _audit_cluster_totals(state: AuditedState) -> None:
    """Check the sums over the whole cluster against nodes and groups."""
    cluster, cluster_totals = state.cluster, state.cluster.cluster_totals
    used: Amounts = {}
    for node in cluster.nodes.nodes.values():
        if node.facts is not None:
            _add(used, node.occupied.items())
    _same("used", cluster_totals.used, used)
    for plugin in cluster.plugins.group_state:
        plugin.recount(cluster)
    for key in (
        *cluster_totals.backlogs,
        *cluster_totals.deadlines,
        *cluster_totals.overdue,
        *cluster_totals.reservation_timeouts,
    ):
        assert key in cluster.groups, f"{key} is kept, but the group is gone"


def _audit_tree(state: AuditedState) -> None:
    """Check that charges of a queue are also counted for all queues above it."""
    queues = state.cluster.queues.values()
    below: dict[str, Amounts] = {}
    for queue in queues:
        for above in queue.lineage[1:]:
            for ledger in LEDGERS:
                total = below.setdefault(f"{above.name} {ledger}", {})
                _add(total, getattr(queue, ledger).items())
    for queue in queues:
        for ledger in LEDGERS:
            counted = below.get(f"{queue.name} {ledger}", {})
            _same(f"below queue {queue.name} {ledger}", queue.below.get(ledger, {}), counted)


def _same_faults(cluster: Cluster, subject: str, faults: Pairs) -> None:
    kept = cluster.config_errors.current.get(subject, ())
    assert kept == faults, f"{subject} faults: kept {kept}, counted {faults}"


def _audit_table(state: AuditedState) -> None:
    """Check the columns of the node table, unless nodes were added or removed since the last layout."""
    table = state.cluster.nodes
    if not table.is_laid_out:
        return
    present = [table.nodes[name] for name in sorted(table.nodes) if table.nodes[name].is_present]
    assert table.order == present, f"table: {[node.name for node in table.order]}"
    for slot, node in enumerate(present):
        assert node.slot == slot, f"node {node.name} slot: kept {node.slot}, counted {slot}"
    for name in {name for node in present for name in node.free}:
        _audit_column(state, name, present)


def _audit_column(state: AuditedState, name: str, present: list[Node]) -> None:
    table = state.cluster.nodes
    column, whole = table.column(name), table.allocatable.get(name)
    assert column is not None, f"there is no column {name}"
    assert whole is not None, f"there is no column {name} of what can be allocated"
    for slot, node in enumerate(present):
        kept = (int(column[slot]), int(whole[slot]))
        there = (node.free.get(name, 0), node.allocatable(name))
        assert kept == there, f"node {node.name} column {name}: kept {kept}, counted {there}"


def _audit_classes(cluster: Cluster) -> None:
    """Check that there are exactly the classes of the existing pods, and the plain classes of these."""
    classes = cluster.inter_pod_affinity.classes
    pods = Counter(pod.pod_class.index for pod in cluster.pods.values())
    plain = Counter(one.plain for one in classes.by_index.values() if one.plain != one.index)
    counted = {index: pods.get(index, 0) + plain.get(index, 0) for index in (*pods, *plain)}
    assert classes.uses == counted, f"classes of pods: kept {classes.uses}, counted {counted}"
    assert sorted(classes.by_index) == sorted(counted), "classes without pods are kept"
    assert len(classes.by_key) == len(classes.by_index), "a class is kept under two keys"
    assert all(index in counted for index in cluster.charges), "a charge of no class is kept"


def _audit_scheduling_queue(state: AuditedState) -> None:
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


def _audit_commitments(state: AuditedState) -> None:
    for uid, one in state.commitments.items():
        pod = state.cluster.pods.get(uid)
        assert pod is not None, f"{one.pod} is committed to {one.node} and gone"
        assert pod.facts.node or pod.assumed == one.node, (
            f"{one.pod} is committed to {one.node} and assumed on {pod.assumed}"
        )
    for key in state.cluster.bind_backoff:
        assert key in state.cluster.groups, f"{key} rests and is gone"


def _add(total: Amounts, more: Iterable[tuple[str, int]]) -> None:
    for name, amount in more:
        total[name] = total.get(name, 0) + amount


def _tally(names: Iterable[str]) -> Amounts:
    total: Amounts = {}
    for name in names:
        total[name] = total.get(name, 0) + 1
    return total


def _same_index(what: str, kept: Mapping[int, int], pods: Iterable[Pod]) -> None:
    counted = _tally(str(pod.pod_class.index) for pod in pods)
    _same(what, {str(index): count for index, count in kept.items()}, counted)


def _same(what: str, kept: Mapping[str, int], counted: Mapping[str, int]) -> None:
    """Compare amounts; a zero may be kept or not."""
    for name in (*kept, *counted):
        ours, theirs = kept.get(name, 0), counted.get(name, 0)
        assert ours == theirs, f"{what}, {name}: kept {ours}, counted {theirs}"
