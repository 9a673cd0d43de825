"""Begin and go on with the restart of a job after a fault, as a decision says."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from events.decisions.reschedule import RescheduleDecided, RestartedPod
from projections.faulty_pods import POD_FAILED, FaultyPods
from projections.group_fault_options import fault_options
from projections.network_annotations import NetworkAnnotations
from projections.pod_class import Amounts
from projections.pod_terms import Labels
from projections.pods import Charge
from projections.queues import add
from projections.reschedule_records import add_record
from projections.rescheduling import Reservation, Restart, Retries, put_restart
from projections.restart_times import update_deadline
from projections.state_facts import StateFacts

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_groups import PodGroup


def begin(state: StateFacts, position: int, event: RescheduleDecided) -> None:
    """Keep the restart that a decision begins or goes on with."""
    cluster, key, now = state.cluster, event.pod_group, state.now_ns
    group = cluster.groups.get(key)
    if group is None:
        return
    arguments = cluster.policy.action_arguments.rescheduling
    before = cluster.reschedulings.restarts.get(key)
    owner = owner_of(group)
    deleted = {one.uid: None for one in event.evictions}
    repeats = before is not None and all(uid in before.leaving for uid in deleted)
    leaving = {**({} if before is None else before.leaving), **deleted}
    reservations = {} if before is None else dict(before.reservations)
    for one in event.members:
        if one.uid in deleted and not one.fault:
            reservations |= _reservation(cluster, one)
    restart = Restart(
        owner=owner,
        position=position,
        begun_ns=now if before is None else before.begun_ns,
        decided_ns=before.decided_ns if before is not None and repeats else now,
        mode=event.mode,
        scope=event.scope,
        members=event.members,
        replaced={} if before is None else before.replaced,
        leaving={uid: None for uid in leaving if uid in cluster.pods},
        networks=_networks(cluster, event, {} if before is None else before.networks),
        reservations=reservations if arguments.reservation_ns else {},
        reserved_until_ns=now + event.grace_ns + arguments.reservation_ns,
        first_gone_ns=0 if before is None else before.first_gone_ns,
        grace_ns=event.grace_ns,
        forced_ns=now if repeats else 0,
        queue=group.queue,
        kept=_quota(cluster, event, before) if arguments.reservation_ns else (),
    )
    put_restart(cluster, key, restart)
    if not repeats:
        _count(cluster, group, event, owner, now)
        reports = cluster.reschedulings.reports
        add_record(reports.records, owner, event, now)
        reports.changed_at["restarts"] = position
    for one in event.members:
        if one.fault:
            cluster.changed_rows.faults[one.node] = None
    update_deadline(cluster, key, now)
    cluster.pod_groups.mark(key, cluster.position)


def _networks(
    cluster: "Cluster", event: RescheduleDecided, before: Mapping[str, Labels]
) -> dict[str, Labels]:
    """Return what its leaf switch or its logical SuperPoD is for each pod of the job that has one, by UID."""
    hooks = cluster.features.of(NetworkAnnotations)
    found: dict[str, Labels] = {}
    for one in event.members:
        pod = cluster.pods.get(one.uid)
        if pod is None:
            pairs = before.get(one.uid, ())
        else:
            pairs = tuple([pair for hook in hooks for pair in hook.of_restarted(cluster, pod)])
        if pairs:
            found[one.uid] = pairs
    return found


def owner_of(group: "PodGroup") -> str:
    """Return the UID of the workload that owns a group: a group of the same name with another one is another job."""
    if group.observed.facts is not None:
        return group.observed.facts.owner or group.observed.facts.uid
    owners = (pod.facts.owner for pod in group.pods.values())
    return next((one.uid for one in owners if one is not None), group.observed.uid)


def _quota(cluster: "Cluster", event: RescheduleDecided, before: Restart | None) -> Charge:
    """Return what the queue was charged for the pods of the job before the first ones were deleted."""
    total: Amounts = {}
    for one in event.members:
        pod = cluster.pods.get(one.uid)
        add(total, () if pod is None or pod.charge is None else pod.charge, 1)
    for name, amount in () if before is None else before.kept:
        total[name] = max(amount, total.get(name, 0))
    return tuple(total.items())


def _reservation(cluster: "Cluster", one: RestartedPod) -> dict[str, Reservation]:
    """Return what is kept of the node of a healthy pod, by UID; nothing if the node is faulty itself."""
    node, pod = cluster.nodes.nodes.get(one.node), cluster.pods.get(one.uid)
    if node is None or node.facts is None or pod is None:
        return {}
    if one.node in cluster.indexes.of(FaultyPods).closed:
        return {}
    return {one.uid: Reservation(one.node, pod.pod_class.request)}


def _count(
    cluster: "Cluster", group: "PodGroup", event: RescheduleDecided, owner: str, now_ns: int
) -> None:
    """Count the restart, and one of the retries of the job if pods failed."""
    book, key = cluster.reschedulings, group.key
    if not event.is_escalation:
        book.restarted_ns[key] = (*book.restarted_ns.get(key, ()), now_ns)
    if any(one.fault == POD_FAILED for one in event.members):
        left = retries_left(cluster, group)
        book.retries.pop(key, None)
        book.retries[key] = Retries(owner, max(0, left - 1))
        book.reports.changed_at["faults"] = cluster.position


def retries_left(cluster: "Cluster", group: "PodGroup") -> int:
    """Return how often a job may still be restarted because pods failed."""
    kept = cluster.reschedulings.retries.get(group.key)
    if kept is not None and kept.owner == owner_of(group):
        return kept.left
    return fault_options(group, cluster.policy.action_arguments.rescheduling).retry_times
