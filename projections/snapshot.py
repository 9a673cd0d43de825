"""Convert State to bytes and back, with its position, so that a start need not fold the whole log.

A snapshot is a cache of rows: facts and decisions; sums are computed again when it is restored. Only the code that wrote it reads it
(`daemon/log/code_key.py`): other code folds the log from a base (`projections/base/`), which is kept for longer, or from
its beginning.
"""

from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import islice
from sys import intern
from typing import Final

import msgspec
from msgspec import Struct, structs

from projections.budget_refusals import BudgetRefusal
from projections.cluster import Cluster
from projections.commitments import Commitment
from projections.config_errors import Pairs
from projections.deferred_work import DeferredWork
from projections.disruption_budgets import BudgetFacts
from projections.feature import FeatureTable
from projections.group_facts import spec_of
from projections.group_rows import DecidedGroup, ObservedGroup
from projections.hyper_nodes import HyperNodeFacts
from projections.kind_table import kinds_with
from projections.node_updates import change_reports
from projections.nodes import NodeFacts, listed_image
from projections.pod_class import Amounts, PodClass, class_key_of
from projections.pod_groups import PodGroup
from projections.pod_terms import Labels
from projections.pod_waits import PodWait
from projections.pods import (
    UNDECIDED,
    Charge,
    DecidedPod,
    ObservedPod,
    Pod,
    PodFacts,
    Stated,
    pod_of,
)
from projections.policy.policy import parse_policy
from projections.preemption_triggers import PriorityClass
from projections.quarantine import Quarantine
from projections.quarantine import restore as restore_quarantines
from projections.queue_objects import update_reported_errors
from projections.queues import Queue, QueueFacts
from projections.rescheduling import Reschedulings
from projections.restart_times import update_deadline
from projections.state import State
from projections.suspensions import FailedAction, Suspension
from projections.victim_waits import VictimWait
from projections.wakeup_events import WakeupEvents


class NodeImage(Struct, frozen=True, array_like=True):
    """A present node."""

    facts: NodeFacts
    digest: str


class PodImage(Struct, frozen=True, array_like=True):
    """A pod, and what was decided about it."""

    facts: PodFacts
    pod_class: int
    digest: str
    group_key: str
    stated: Stated | None = None
    decided: DecidedPod = UNDECIDED


class GroupImage(Struct, frozen=True, array_like=True):
    """A pod group without its pods."""

    key: str
    queue: str
    priority: int
    observed: ObservedGroup
    """Without `spec`, which follows from the facts of the object, and without a UID that is the key."""
    decided: DecidedGroup


class QueueImage(Struct, frozen=True, array_like=True):
    """A queue without its ledger."""

    name: str
    facts: QueueFacts | None
    digest: str
    reported_errors: tuple[tuple[str, str], ...]


class Image(Struct, frozen=True):
    """All of State that cannot be computed from the rest, without pod groups and pods."""

    position: int
    cycle: int
    now_ns: int
    period_ns: int
    policy_position: int
    policy: bytes
    scheduler_names: tuple[str, ...]
    pod_labels: tuple[str, ...]
    listed: dict[str, None]
    watched: dict[str, str]
    newest: dict[str, dict[str, tuple[str, str, bool]]]
    assigned_ns: dict[str, int]
    unconfirmed: dict[str, dict[str, int]]
    ranks: dict[str, int]
    commitments: dict[str, Commitment]
    evictions: dict[str, Commitment]
    totals: Amounts
    reservation_timeouts: dict[str, int]
    bind_failures: dict[str, int]
    bind_backoff: dict[str, int]
    eviction_backoff: dict[str, int]
    suspended: dict[str, dict[str, Suspension]]
    failed_actions: dict[str, FailedAction]
    others: dict[str, dict[str, tuple[str, str]]]
    quarantines: list[Quarantine]
    faults: dict[str, Pairs]
    reported_errors: dict[str, Pairs]
    due: WakeupEvents
    deferred: DeferredWork
    priority_classes: dict[str, PriorityClass]
    namespaces: dict[str, str]
    budgets: list[BudgetFacts]
    namespace_labels: dict[str, dict[str, str]]
    outdated_terms: dict[str, None]
    owners: dict[str, dict[str, str]]
    schedulers: dict[str, tuple[str, ...]]
    gone_workloads: dict[str, None]
    hyper_nodes: list[HyperNodeFacts]
    classes: list[tuple[bytes, PodClass]]
    next_class: int
    nodes: list[NodeImage]
    queues: list[QueueImage]
    not_ready_since_ns: dict[str, int | None]
    uncounted_nodes: dict[str, None]
    victim_waits: dict[str, VictimWait]
    object_facts: dict[str, bytes] = {}
    """Kind to its facts by name, encoded."""
    tables: dict[str, bytes] = {}
    """Name of the type of a table of a plugin or feature to the table, encoded."""
    pod_waits: dict[str, PodWait] = {}
    is_shadow: bool = False
    are_groups_listed: bool = False
    budget_refusals: dict[str, BudgetRefusal] = {}
    volume_kinds: dict[str, str] = {}
    eviction_pauses: dict[str, dict[str, int]] = {}
    last_read: dict[str, str] = {}


_REPEATED: Final = ("namespace", "node", "phase", "scheduler", "priority_class", "queue", "role")
"""Facts of pods of which there are few, each kept once."""


class Part(Struct, frozen=True, array_like=True):
    """Some pod groups, or some pods. All groups come before all pods."""

    groups: list[GroupImage] = []
    pods: list[PodImage] = []


PART_OBJECTS: Final = 1_000
"""Pod groups or pods of a part: no more of them are held twice, as objects and encoded."""

LENGTH_BYTES: Final = 8
"""Each part is preceded by its length."""

_ENCODER = msgspec.msgpack.Encoder()
_IMAGES = msgspec.msgpack.Decoder(Image)
_PARTS = msgspec.msgpack.Decoder(Part)


def take(state: State) -> bytes:
    """Return the State at the end of a batch as bytes."""
    buffer = BytesIO()
    write(state, buffer.write)
    return buffer.getvalue()


def write(state: State, sink: Callable[[bytes], object]) -> None:
    """Write the State at the end of a batch, part by part."""
    assert state.is_settled
    assert not state.are_indexes_left_out
    cluster = state.cluster
    image = Image(
        position=state.position,
        cycle=state.cycle,
        now_ns=state.now_ns,
        period_ns=state.period_ns,
        policy_position=state.policy_position,
        policy=state.policy_document,
        scheduler_names=cluster.scheduler_names,
        pod_labels=cluster.pod_labels,
        listed=state.listed,
        watched=state.watched,
        newest=state.newest,
        assigned_ns=state.assignments.last_ns,
        unconfirmed=state.assignments.unconfirmed,
        ranks=state.assignments.ranks,
        commitments=state.commitments,
        evictions=state.evictions,
        totals=cluster.cluster_totals.totals,
        reservation_timeouts=cluster.cluster_totals.reservation_timeouts,
        bind_failures=cluster.bind_backoffs.failures,
        bind_backoff=cluster.bind_backoffs.until,
        eviction_backoff=cluster.eviction_backoff,
        suspended=cluster.internal_errors.groups,
        failed_actions=cluster.internal_errors.actions,
        others=cluster.others,
        quarantines=list(cluster.quarantines.all.values()),
        faults=cluster.config_errors.current,
        reported_errors=cluster.config_errors.reported,
        due=cluster.wakeup_events,
        deferred=state.deferred_work,
        priority_classes=cluster.priority_classes,
        namespaces=cluster.namespaces,
        budgets=cluster.budgets.facts(),
        namespace_labels=cluster.inter_pod_affinity.namespaces,
        outdated_terms=cluster.inter_pod_affinity.outdated,
        owners=cluster.owners,
        schedulers=cluster.foreign_groups.schedulers,
        gone_workloads=cluster.foreign_groups.deleted_owners,
        hyper_nodes=list(cluster.nodes.hyper_tree.facts.values()),
        classes=[
            (_ENCODER.encode(key), one)
            for key, one in cluster.inter_pod_affinity.classes.by_key.items()
        ],
        next_class=cluster.inter_pod_affinity.classes.next_index,
        not_ready_since_ns=cluster.unready_nodes.since_ns,
        uncounted_nodes=cluster.unready_nodes.uncounted,
        victim_waits=cluster.victim_waits,
        nodes=[NodeImage(n.facts, n.digest) for n in cluster.nodes.nodes.values() if n.facts],
        queues=[
            QueueImage(q.name, q.facts, q.digest, q.reported_errors)
            for q in cluster.queues.values()
        ],
        object_facts={kind: _ENCODER.encode(one) for kind, one in cluster.object_facts.items()},
        tables={type(one).__name__: _ENCODER.encode(one) for one in cluster.tables},
        is_shadow=cluster.is_shadow,
        are_groups_listed=cluster.are_groups_listed,
        budget_refusals=cluster.budget_refusals,
        volume_kinds=cluster.volume_kinds,
        pod_waits=cluster.pod_waits.of,
        eviction_pauses=cluster.eviction_pauses,
        last_read=cluster.last_read,
    )
    _write(sink, image)
    groups, pods = iter(cluster.groups.values()), iter(cluster.pods.values())
    while some := [_group_image(group) for group in islice(groups, PART_OBJECTS)]:
        _write(sink, Part(groups=some))
    while several := [_pod_image(pod) for pod in islice(pods, PART_OBJECTS)]:
        _write(sink, Part(pods=several))


def _write(sink: Callable[[bytes], object], part: Struct) -> None:
    encoded = _ENCODER.encode(part)
    sink(len(encoded).to_bytes(LENGTH_BYTES, "big"))
    sink(encoded)


def parts_of(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the encoded parts of a snapshot: first the Image, then each Part. `read` returns so many bytes, or none at
    the end."""
    while length := read(LENGTH_BYTES):
        yield read(int.from_bytes(length, "big"))


def restore(payload: bytes, features: FeatureTable) -> State:
    """Return the State of a snapshot, without the set of changed rows."""
    return load(BytesIO(payload).read, features)


def load(
    read: Callable[[int], bytes], features: FeatureTable, policy: bytes | None = None
) -> State:
    """Return the State of a snapshot that is read part by part; with another `policy` as if that had been in force before."""
    parts = parts_of(read)
    image = _IMAGES.decode(next(parts))
    state = State(features)
    cluster = state.cluster
    state.begin_at(image.position)
    cluster.position = image.position
    state.cycle, state.now_ns, state.period_ns = image.cycle, image.now_ns, image.period_ns
    state.policy_position = image.policy_position
    state.policy_document = image.policy if policy is None else policy
    for kind, encoded in image.object_facts.items():
        facts = kinds_with(features)[kind].facts
        cluster.object_facts[kind] = msgspec.msgpack.decode(encoded, type=dict[str, facts])  # type: ignore[valid-type]  # the table names the type
    # The indexes of features follow from these facts already here: others are rebuilt before them and read them, such as which
    # groups may use their pool.
    cluster.set_policy(parse_policy(state.policy_document, features.policy_table)[0])
    cluster.scheduler_names, cluster.is_shadow = image.scheduler_names, image.is_shadow
    cluster.are_groups_listed = image.are_groups_listed
    cluster.pod_labels, cluster.volume_kinds = image.pod_labels, image.volume_kinds
    state.listed, state.commitments = image.listed, image.commitments
    state.watched, state.evictions = image.watched, image.evictions
    state.newest = image.newest
    state.assignments.last_ns = image.assigned_ns
    state.assignments.unconfirmed, state.assignments.ranks = image.unconfirmed, image.ranks
    backoffs = cluster.bind_backoffs
    backoffs.failures, backoffs.until = image.bind_failures, image.bind_backoff
    cluster.pod_waits.of, cluster.now_ns = image.pod_waits, image.now_ns
    cluster.eviction_pauses, cluster.last_read = image.eviction_pauses, image.last_read
    cluster.eviction_backoff, cluster.others = image.eviction_backoff, image.others
    cluster.priority_classes, cluster.namespaces = image.priority_classes, image.namespaces
    for budget in image.budgets:
        cluster.budgets.put(budget, ())
    cluster.owners, cluster.cluster_totals.totals = image.owners, image.totals
    cluster.unready_nodes.since_ns = image.not_ready_since_ns
    cluster.unready_nodes.uncounted = image.uncounted_nodes
    cluster.victim_waits = image.victim_waits
    cluster.budget_refusals = image.budget_refusals
    cluster.foreign_groups.schedulers = image.schedulers
    cluster.foreign_groups.deleted_owners = image.gone_workloads
    for table in list(cluster.tables):
        if (stored := image.tables.get(type(table).__name__)) is not None:
            cluster.tables.replace(msgspec.msgpack.decode(stored, type=type(table)))
    cluster.cluster_totals.reservation_timeouts = image.reservation_timeouts
    cluster.internal_errors.actions = image.failed_actions
    for key, one in image.classes:
        cluster.inter_pod_affinity.classes.keep(class_key_of(key), one)
    cluster.inter_pod_affinity.classes.next_index = image.next_class
    cluster.inter_pod_affinity.namespaces = image.namespace_labels
    cluster.nodes.hyper_tree.facts = {one.name: one for one in image.hyper_nodes}
    for node in image.nodes:
        _put_node(cluster, node)
    cluster.config_errors.current, cluster.config_errors.reported = (
        image.faults,
        image.reported_errors,
    )
    restore_quarantines(cluster, image.quarantines, image.now_ns)
    cluster.internal_errors.groups = image.suspended
    _restore_queues(cluster, image)
    shared = _Shared()
    for part in parts:
        _restore_part(cluster, _PARTS.decode(part), shared)
    cluster.rebuild_indexes()
    if policy is not None:
        _leave_policy(cluster, image.policy, state.now_ns)
    cluster.inter_pod_affinity.outdated = image.outdated_terms
    cluster.clear_changed_rows()
    cluster.wakeup_events, state.deferred_work = image.due, image.deferred
    cluster.pending_status.queues = dict.fromkeys(cluster.queues, image.position)
    return state


def _leave_policy(cluster: Cluster, old: bytes, now_ns: int) -> None:
    """Change what the policy that was in force has left in facts: reports of devices, deadlines, what its plugins and pools keep."""
    policy, kept = cluster.policy, list(cluster.tables)
    cluster.set_policy(parse_policy(old, cluster.features.table.policy_table)[0])

    def follow() -> None:
        cluster.set_policy(policy)
        for table in kept:
            cluster.tables.replace(table)

    change_reports(cluster, cluster.nodes.nodes, follow)
    for table in cluster.tables.of_policies:
        table.policy_changed(cluster)
    if (book := cluster.tables.find(Reschedulings)) is not None:
        for key in dict.fromkeys((*book.looked_at_ns, *book.restarts, *book.faulty_since_ns)):
            update_deadline(cluster, key, now_ns)


def _put_node(cluster: Cluster, one: NodeImage) -> None:
    """Restore a node; its images are shared again with all nodes that have them."""
    there = tuple(listed_image(name, size) for name, size in one.facts.images)
    structs.force_setattr(one.facts, "images", there)
    cluster.nodes.put(one.facts, one.digest)


def _restore_queues(cluster: Cluster, image: Image) -> None:
    for kept in image.queues:
        queue = cluster.queues[kept.name] = Queue(kept.name)
        queue.set_object(kept.facts, kept.digest)
        queue.reported_errors = kept.reported_errors
        cluster.queue_objects += kept.facts is not None
        update_reported_errors(cluster, queue)


class _Shared:
    """Equal values of many pods, each kept once."""

    def __init__(self) -> None:
        self._labels: dict[Labels, Labels] = {}
        self._one: dict[tuple[str, str], tuple[str, str]] = {}
        self._charges: dict[Charge | None, Charge | None] = {}

    def facts(self, facts: PodFacts) -> PodFacts:
        """Return the facts of a pod, which has just been decoded."""
        labels = self._labels.get(facts.labels)
        if labels is None:
            labels = tuple([self._one.setdefault(one, one) for one in facts.labels])
            self._labels[labels] = labels
        structs.force_setattr(facts, "labels", labels)
        for name in _REPEATED:
            structs.force_setattr(facts, name, intern(getattr(facts, name)))
        if facts.owner is not None:
            facts.owner.kind = intern(facts.owner.kind)
        return facts

    def charge(self, charge: Charge | None) -> Charge | None:
        """Return a charge."""
        return self._charges.setdefault(charge, charge)


def _restore_part(cluster: Cluster, part: Part, shared: _Shared) -> None:
    for saved in part.groups:
        group = cluster.pod_groups.ensure(cluster, saved.key)
        observed, group.priority = saved.observed, saved.priority
        uid, spec = observed.uid or group.key, spec_of(observed.facts)
        group.observe(structs.replace(observed, uid=uid, spec=spec))
        queue = cluster.queues[saved.queue]
        group.decided, group.queue = saved.decided, queue.name
        queue.groups[group.key] = None
    for one in part.pods:
        pod = _pod(cluster, one, shared)
        cluster.pods[pod.facts.uid] = pod
        if pod.group_key:
            cluster.groups[pod.group_key].load_pod(pod)


def _pod(cluster: Cluster, one: PodImage, shared: _Shared) -> Pod:
    classes = cluster.inter_pod_affinity.classes.by_index
    pod_class, key = classes[one.pod_class], one.group_key
    observed = ObservedPod(
        shared.facts(one.facts),
        pod_class,
        one.digest,
        cluster.groups[key].key if key else "",
        one.stated,
    )
    if one.decided == UNDECIDED:
        return pod_of(observed)
    structs.force_setattr(one.decided, "charge", shared.charge(one.decided.charge))
    return pod_of(observed, one.decided)


def _group_image(group: PodGroup) -> GroupImage:
    uid = group.observed.uid
    observed = structs.replace(group.observed, uid="" if uid == group.key else uid, spec=None)
    return GroupImage(group.key, group.queue, group.priority, observed, group.decided)


def _pod_image(pod: Pod) -> PodImage:
    observed = pod.observed
    return PodImage(
        facts=observed.facts,
        pod_class=observed.pod_class.index,
        digest=observed.digest,
        group_key=observed.group_key,
        stated=observed.stated,
        decided=pod.decided,
    )
