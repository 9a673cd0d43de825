"""The requests to the API server that State calls for: decisions without an outcome, and status updates.

State is only read. `daemon/effects.py` carries the requests out and leaves out those that are already under way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final

from events.messages import (
    AnnotateRequest,
    BindRequest,
    EvictRequest,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Request,
)
from projections.cluster import Cluster
from projections.commitments import Commitment
from projections.device_family import PlacedPod
from projections.device_uses import writing_families
from projections.internal_error import OnError, ignore, report
from projections.network_annotations import NetworkAnnotations
from projections.pod_groups import INQUEUE, PodGroup
from projections.pod_ranks import group_and_pod_options
from projections.pods import DECISION
from projections.previous_nodes import IN_PLACE, is_in_place
from projections.queues import Queue
from projections.state import State
from projections.written_config_map import WrittenConfigMap
from scheduling.conditions import condition_of, condition_updates

STATUS_UPDATES_MAX: Final = 500
"""Conditions and counts updated in one go; the rest follow when these are done."""


NOTHING_UNDER_WAY: Final[Mapping[str, int]] = {}


def bindings_and_evictions(
    state: State,
    on_error: OnError = ignore,
    under_way: Mapping[str, int] = NOTHING_UNDER_WAY,
) -> Iterator[Request]:
    """Yield bindings, evictions, marks of faults and phase updates, each in the order of their decisions.

    `under_way` has pods that are being bound: UID to decision. They are left out.
    """
    # State keeps these in the order of their decisions. Some may be answered before all are read.
    for one in list(state.commitments.values()):
        if under_way.get(one.uid) != one.decision:
            yield from _placement(state, one, on_error)
    sharers = _Sharers(state.cluster)
    for one in sorted(state.evictions.values(), key=lambda one: one.decision):
        namespace, _, name = one.pod.partition("/")
        tenant, queue = sharers.of(one)
        yield EvictRequest(
            decision=one.decision,
            namespace=namespace,
            name=name,
            uid=one.uid,
            node=one.node,
            is_in_doubt=one.is_unknown,
            workload=_owner_of(state, one.uid),
            grace_seconds=0 if one.is_forced else None,
            is_forced=one.is_forced,
            tenant=tenant,
            queue=queue,
            has_other_tenants=sharers.has_other_tenants(tenant),
            has_other_queues=sharers.has_other_queues(tenant, queue),
            is_without_budgets=one.is_without_budgets,
            is_limited=not one.mode or one.is_without_budgets,
        )
    for table in state.cluster.tables.with_marks:
        yield from table.mark_requests()
    yield from phase_updates(state, on_error)


class _Sharers:
    """Who shares the evictions of a minute: tenants, and queues of a tenant, as far as they have pod groups. They are
    looked at only if there is an eviction."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queues: dict[str, dict[str, None]] | None = None

    def of(self, one: Commitment) -> tuple[str, str]:
        """Return the tenant and the queue of the pod group for which a pod is evicted, or else of its own."""
        groups = self._cluster.groups
        pod = self._cluster.pods.get(one.uid)
        own = None if pod is None else groups.get(pod.group_key)
        group = groups.get(one.in_favour_of) or own
        key = one.in_favour_of or one.pod
        tenant = self._cluster.tenants.tenant_of(key.partition("/")[0])
        return tenant, "" if group is None else group.queue

    def has_other_tenants(self, tenant: str) -> bool:
        """Return whether any other tenant has pod groups."""
        return any(one != tenant for one in self._by_tenant())

    def has_other_queues(self, tenant: str, queue: str) -> bool:
        """Return whether a tenant has pod groups in any other queue."""
        return any(one != queue for one in self._by_tenant().get(tenant, ()))

    def _by_tenant(self) -> dict[str, dict[str, None]]:
        if self._queues is None:
            self._queues = {}
            for group in self._cluster.groups.values():
                if not group.is_foreign:
                    tenant = self._cluster.tenants.tenant_of(group.key.partition("/")[0])
                    self._queues.setdefault(tenant, {})[group.queue] = None
        return self._queues


def follow_ups(
    state: State, annotated: Iterable[str], on_error: OnError = ignore
) -> Iterator[Request]:
    """Yield the next requests for pods of these UIDs, and of each node on which pods wait for the devices of others to
    be confirmed."""
    first = [next(iter(waiting)) for waiting in state.assignments.unconfirmed.values()]
    for uid in dict.fromkeys((*annotated, *first)):
        one = state.commitments.get(uid)
        if one is not None:
            yield from _placement(state, one, on_error)


def _placement(state: State, one: Commitment, on_error: OnError) -> Iterator[Request]:
    """Yield the next request for a pod that is to be bound, if it need not wait for another one: its annotations, if any
    name its devices, and then the binding."""
    namespace, _, name = one.pod.partition("/")
    if one.assigned_ns and not state.assignments.is_next(one.node, one.uid):
        return
    devices: dict[str, str] = {}
    if one.assigned_ns:
        try:
            devices = _annotations(state, one)
        except Exception as error:  # a bug of a device family
            report(error, f"Pod/{one.pod}", "requests", on_error)
            return
        if not one.is_annotated:
            yield AnnotateRequest(one.decision, namespace, name, one.uid, one.node, devices)
            return
    yield BindRequest(
        decision=one.decision,
        namespace=namespace,
        name=name,
        uid=one.uid,
        node=one.node,
        annotations={DECISION: str(one.decision)},
        devices=devices,
        is_in_doubt=one.is_unknown,
    )


def _annotations(state: State, one: Commitment) -> dict[str, str]:
    """Return the annotations of a pod that is to be bound, of all families of its devices."""
    cluster = state.cluster
    pod = cluster.pods[one.uid]
    node, group = cluster.nodes.nodes.get(one.node), cluster.groups.get(pod.group_key)
    placed = PlacedPod(
        namespace=pod.facts.namespace,
        name=pod.facts.name,
        uid=one.uid,
        pod_class=pod.pod_class,
        node_name=one.node,
        node=None if node is None else node.facts,
        devices=pod.devices,
        labels=pod.facts.labels,
        options=group_and_pod_options(group, pod),
        assignments=pod.facts.assignments,
        rank=state.assignments.ranks.get(one.uid, -1),
        tasks=0 if group is None else sum(count for _, count in group.device_tasks),
        assigned_ns=one.assigned_ns,
    )
    found = dict(pod.decided.network)
    for hook in cluster.features.table.of(NetworkAnnotations) if found else ():
        for key in hook.unwritten:
            found.pop(key, None)
    for family in writing_families(cluster.device_families, pod.pod_class):
        found |= family.annotations(placed)
    if is_in_place(cluster, pod):
        found[IN_PLACE] = "true"
    return found


def _owner_of(state: State, uid: str) -> str:
    pod = state.cluster.pods.get(uid)
    owner = None if pod is None else pod.facts.owner
    return "" if owner is None else owner.uid


def _each(
    kind: str, keys: Iterable[str], ask: Callable[[str], Iterable[Request]], on_error: OnError
) -> Iterator[tuple[str, list[Request]]]:
    """Yield each key with its requests; none if computing them raises."""
    for key in keys:
        try:
            asked = list(ask(key))
        except Exception as error:  # a bug, whatever it is
            report(error, f"{kind}/{key}", "requests", on_error)
            asked = []
        yield key, asked


def phase_updates(
    state: State, on_error: OnError = ignore, among: Iterable[str] | None = None
) -> Iterator[Request]:
    """Yield updates of PodGroups (all, or those `among` them) whose phase is out of date, in the order of their names."""
    groups, pending = state.cluster.groups, state.cluster.pending_status.phases
    keys = sorted(pending if among is None else (key for key in among if key in pending))
    for _, asked in _each("PodGroup", keys, lambda key: (_phase(groups[key]),), on_error):
        yield from asked


def is_moot(state: State, request: Request) -> bool:
    """Return True for a status update that tells nothing any more: its object is gone, or the pod has a node."""
    match request:
        case PodConditionRequest():
            pod = state.cluster.pods.get(request.uid)
            return pod is None or bool(pod.node) or pod.facts.is_releasing
        case PodGroupConditionRequest() | PodGroupCountsRequest():
            group = state.cluster.groups.get(f"{request.namespace}/{request.name}")
            return (
                group is None or group.observed.facts is None or group.observed.uid != request.uid
            )
        case _:
            return False


class StatusUpdates:
    """The status updates that one State still calls for, and how far this reader has looked at its changes.

    Asking changes only this reader. It remembers the groups and queues with something to report, so that each call
    looks at these and at what changed since, not at all groups.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._version = -1
        """Value of `PodGroupIndex.journal_version` when `_read` was counted."""
        self._read = self._position = 0
        """Number of entries of the journal of pod groups read; position up to which changed queues were read."""
        self._groups: dict[str, None] = {}
        """Groups whose conditions, or those of their pods, may have to be updated."""
        self._queues: dict[str, None] = {}
        """Queues whose reported allocated amounts may differ."""

    def are_left(self, *, updates_status: bool) -> bool:
        """Return True if an update is left to do: of a phase, or (with `updates_status`) of anything else."""
        if self._state.cluster.pending_status.phases:
            return True
        if not updates_status:
            return False
        if any(one.is_due(self._state.cluster) for one in self._config_maps):
            return True
        self._read_changes()
        return bool(self._state.cluster.pending_status.counts or self._groups or self._queues)

    def requests(self, on_error: OnError = ignore) -> Iterator[Request]:
        """Yield updates of conditions of waiting pods and pod groups, of counts of pods, and of what queues have
        allocated.

        Only where the object differs and no update was sent since.
        """
        self._read_changes()
        state, cluster = self._state, self._state.cluster
        left = STATUS_UPDATES_MAX

        def conditions(key: str) -> Iterable[Request]:
            group = cluster.groups.get(key)
            return () if group is None else condition_updates(cluster, group)

        def status(name: str) -> Iterable[Request]:
            queue = cluster.queues.get(name)
            is_ours = queue is not None and name not in _with_foreign_groups(cluster)
            request = _of_queue(queue, state.position) if queue is not None and is_ours else None
            return () if request is None else (request,)

        for key, asked in _each("PodGroup", self._groups_in_turn(), conditions, on_error):
            if not asked:
                del self._groups[key]
                continue
            yield from asked[:left]
            left -= len(asked)
            if left <= 0:
                break
        keys = list(islice(cluster.pending_status.counts, max(0, left)))
        for _, asked in _each(
            "PodGroup", keys, lambda key: (_counts(cluster.groups[key]),), on_error
        ):
            yield from asked
        for of in [one.requests for one in self._config_maps]:
            written = partial(_written, of, cluster)
            for _, asked in _each("ConfigMap", ("",), written, on_error):
                yield from asked
        for name, asked in _each("Queue/", list(self._queues), status, on_error):
            if not asked:
                del self._queues[name]
            yield from asked

    @property
    def _config_maps(self) -> tuple[WrittenConfigMap, ...]:
        return self._state.cluster.features.of(WrittenConfigMap)

    def _groups_in_turn(self) -> list[str]:
        """Return the groups to report: in the order of their last changes, or, if there are more than can be reported in one
        go, those of each tenant in turn, and of one tenant the last changed first."""
        if len(self._groups) <= STATUS_UPDATES_MAX:
            return list(self._groups)
        by_tenant: dict[str, list[str]] = {}
        tenant_of = self._state.cluster.tenants.tenant_of
        for key in self._groups:
            by_tenant.setdefault(tenant_of(key.partition("/")[0]), []).append(key)
        found: list[str] = []
        while by_tenant and len(found) <= STATUS_UPDATES_MAX:
            for tenant, keys in list(by_tenant.items()):
                found.append(keys.pop())
                if not keys:
                    del by_tenant[tenant]
        return found

    def _read_changes(self) -> None:
        """Add the groups and queues that changed since the last call; at first, and after the list of changes was
        emptied, all that may have something to report."""
        cluster = self._state.cluster
        if self._version != cluster.pod_groups.journal_version:
            keys: Iterable[str] = cluster.groups
        else:
            # A slice: `islice` would step over everything before, at each turn of the loop.
            keys = cluster.pod_groups.journal[self._read :]
        for key in keys:
            group = cluster.groups.get(key)
            if group is not None and _may_lack_condition(group):
                self._groups.pop(key, None)
                self._groups[key] = None
        self._version, self._read = (
            cluster.pod_groups.journal_version,
            len(cluster.pod_groups.journal),
        )
        if self._position == 0:
            self._queues.update(dict.fromkeys(cluster.queues))
        else:
            changed: list[str] = []
            for name, position in reversed(cluster.pending_status.queues.items()):
                if position <= self._position:
                    break
                changed.append(name)
            self._queues.update(dict.fromkeys(reversed(changed)))
        self._position = self._state.position


def _written(
    of: Callable[[Cluster], Iterable[Request]], cluster: Cluster, _name: str
) -> Iterable[Request]:
    return of(cluster)


def _may_lack_condition(group: PodGroup) -> bool:
    """Return whether the object of the group or of one of its pods may lack a condition."""
    reported = group.decided.reported_status
    return bool(
        group.decided.refusals
        or group.decided.nominations
        or group.is_broken
        or (
            group.observed.facts is not None
            and reported.ready_since > reported.conditions_reported_at
        )
    )


def _phase(group: PodGroup) -> PodGroupPhaseRequest:
    namespace, _, name = group.key.partition("/")
    phase, running, succeeded, failed = group.decided.reported_status.status
    return PodGroupPhaseRequest(
        decision=group.decided.reported_status.since,
        namespace=namespace,
        name=name,
        uid=group.observed.uid,
        phase=phase,
        running=running,
        succeeded=succeeded,
        failed=failed,
        ends_refusal=phase == INQUEUE and condition_of(group) is None,
    )


def _counts(group: PodGroup) -> PodGroupCountsRequest:
    namespace, _, name = group.key.partition("/")
    _, running, succeeded, failed = group.decided.reported_status.status
    return PodGroupCountsRequest(
        decision=group.decided.reported_status.since,
        namespace=namespace,
        name=name,
        uid=group.observed.uid,
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _with_foreign_groups(cluster: Cluster) -> dict[str, None]:
    """Return the queues that hold pod groups of another scheduler, and all queues above: that scheduler reports them."""
    queues = [
        cluster.queues[name] for name in cluster.foreign_groups.queues if name in cluster.queues
    ]
    return dict.fromkeys(one.name for queue in queues for one in (queue, *queue.ancestors))


def _of_queue(queue: Queue, position: int) -> Request | None:
    """Update a queue: what its pods and those of the queues below it request, as far as they have a node, by resource, and
    the cards charged for them."""
    facts = queue.facts
    if facts is None or queue.rejects_status_updates:
        return None
    amounts = {"cpu": 0, "memory": 0, **queue.total("allocated"), **queue.total("held")}
    if tuple(sorted(amounts.items())) == facts.reported_allocated:
        return None
    allocated = {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}
    return QueueStatusRequest(
        decision=position, name=facts.name, uid=facts.uid, allocated=allocated
    )


def _quantity(name: str, amount: int) -> str:
    """Return a Kubernetes quantity: cpu in cores or milli-cores, memory in bytes, whole cards."""
    if name != "cpu":
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
