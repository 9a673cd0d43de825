"""What follows from time after faults: how long pods have been faulty, when a job is looked at again, what a restart keeps.

Time enters with cycles only, so all of it is updated when a cycle opens or a decision is applied.
"""

from typing import TYPE_CHECKING

from msgspec import structs

from projections.faulty_pods import FaultyPods, tolerance_of
from projections.group_fault_options import fault_options
from projections.policy.action_arguments import RescheduleArguments
from projections.rescheduling import (
    HOUR_NS,
    Reschedulings,
    give_up_reservations,
    has_pods_again,
    is_stranded,
    nodes_free_by,
)
from projections.state_facts import StateFacts

if TYPE_CHECKING:
    from projections.cluster import Cluster

GRACE_NS = 900_000_000_000
"""Time until pods that do not end are deleted by force, unless the policy states another one (the vendor's)."""


def open_cycle(state: StateFacts, at_ns: int) -> None:
    """Update times at the start of a cycle, and let the cycle look at the pod groups of which one is reached."""
    cluster = state.cluster
    book, looked_at = cluster.tables.find(Reschedulings), cluster.wakeup_events.faulty_groups
    if book is None:
        return
    for key in [key for key, due in book.looked_at_ns.items() if due <= at_ns]:
        del book.looked_at_ns[key]
        looked_at[key] = None
        if key in book.restarts and key in cluster.groups:
            # It may have waited for this time.
            cluster.wakeup_events.groups[key] = None
    keys = sorted(looked_at)
    for key in keys:
        _update_times(cluster, key, at_ns)
    for key in keys:
        update_deadline(cluster, key, at_ns)
    _settle(cluster, at_ns)


def _update_times(cluster: "Cluster", key: str, at_ns: int) -> None:
    book = cluster.reschedulings
    faulty = cluster.indexes.of(FaultyPods).by_group.get(key, {})
    before = book.faulty_since_ns.pop(key, {})
    if faulty:
        book.faulty_since_ns[key] = {uid: before.get(uid, at_ns) for uid in faulty}
    for uid in before if book.marks else ():
        if uid not in faulty and uid in book.marks:
            del book.marks[uid]
    restart = book.restarts.get(key)
    if restart is not None:
        if not restart.leaving and not restart.gone_ns:
            span = cluster.policy.action_arguments.rescheduling.reservation_ns
            until = min(restart.reserved_until_ns, at_ns + span)
            restart = book.restarts[key] = structs.replace(
                restart, gone_ns=at_ns, reserved_until_ns=until
            )
        if has_pods_again(cluster, key):
            restart = book.restarts[key] = structs.replace(restart, first_gone_ns=at_ns)
        if (restart.reservations or restart.kept) and restart.reserved_until_ns <= at_ns:
            give_up_reservations(cluster, key)
    group = cluster.groups.get(key)
    if group is not None and is_stranded(group):
        book.stranded_since_ns.setdefault(key, at_ns)
    else:
        book.stranded_since_ns.pop(key, None)
    times = book.restarted_ns.pop(key, ())
    if times := tuple([one for one in times if one > at_ns - HOUR_NS]):
        book.restarted_ns[key] = times


def update_deadline(cluster: "Cluster", key: str, now_ns: int) -> None:
    """Compute again when a pod group is looked at next, if nothing happens before."""
    due = [one for one in _deadlines(cluster, key) if one > now_ns]
    if due:
        cluster.reschedulings.looked_at_ns[key] = min(due)
    else:
        cluster.reschedulings.looked_at_ns.pop(key, None)


def _deadlines(cluster: "Cluster", key: str) -> list[int]:
    book, arguments = cluster.reschedulings, cluster.policy.action_arguments.rescheduling
    due: list[int] = []
    restart = book.restarts.get(key)
    if restart is not None:
        due.append(restart.timeout_ns)
        if restart.reservations or restart.kept:
            due.append(restart.reserved_until_ns)
        if restart.leaving:
            due.append(restart.overdue_ns)
        if restart.gone_ns:
            due.append(nodes_free_by(restart))
        if restart.first_gone_ns:
            due += escalation_times(restart.first_gone_ns, arguments)
    if (times := book.restarted_ns.get(key)) and len(times) >= arguments.limit:
        due.append(times[-arguments.limit] + HOUR_NS)
    group = cluster.groups.get(key)
    if group is None or not fault_options(group, arguments).is_on:
        return due
    if key in book.stranded_since_ns and arguments.stranded_ns:
        due.append(book.stranded_since_ns[key] + arguments.stranded_ns)
    pods = cluster.indexes.of(FaultyPods).pods
    for uid, since in book.faulty_since_ns.get(key, {}).items():
        tolerance = tolerance_of(pods[uid], arguments) if uid in pods else arguments.tolerance_ns
        due.append(max(since + tolerance, cluster.eviction_backoff.get(uid, 0)))
    return due


def escalation_times(gone_ns: int, arguments: RescheduleArguments) -> tuple[int, int]:
    """Return when more of a job is deleted whose deleted pods were gone at a time: its logical SuperPoD, the whole job."""
    attempt = arguments.attempt_ns
    return (
        gone_ns + arguments.super_pod_attempts * attempt,
        gone_ns + arguments.job_attempts * attempt,
    )


def _settle(cluster: "Cluster", at_ns: int) -> None:
    """Begin the times of nodes that have recovered, and open those whose time is over."""
    settling = cluster.reschedulings.settling
    span = cluster.policy.action_arguments.rescheduling.settle_ns
    for name, until in list(settling.items()):
        if not until:
            settling[name] = at_ns + span
        elif until <= at_ns:
            del settling[name]
            cluster.reopen_node(name)
