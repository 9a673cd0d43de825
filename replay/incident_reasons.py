"""Why nothing is done, or not yet, for a job that a fault hit: the rules of `features/faults/job_faults.py` in words."""

from collections.abc import Iterable
from typing import Final

from events.duration import format_duration
from projections.fault_marks import ANNOTATION
from projections.fault_options import FORCE_EXIT, GRACE_EXIT, MODE, OFF, FaultOptions
from projections.faulty_pods import POD_FAILED, SOFTWARE, FaultyPods, PodFault
from projections.group_fault_options import fault_options
from projections.node_faults import SUB_HEALTH
from projections.pod_groups import PodGroup
from projections.rescheduling import HOUR_NS
from projections.restarts import retries_left
from projections.state import State

NOT_HIT: Final = "NotHit"
TOLERATED: Final = "Tolerated"

Reason = tuple[str, str]
"""Code and message."""


def reason_not_moved(state: State, group: PodGroup, uids: Iterable[str], now_ns: int) -> Reason:
    """Return why no pod of a group is deleted at a time, though these pods were hit."""
    cluster = state.cluster
    if not cluster.policy.reschedules:
        return "NoAction", "the policy has no action `reschedule`"
    arguments = cluster.policy.action_arguments.rescheduling
    options = fault_options(group, arguments)
    if options.recovers_outside:
        return "OtherController", "another controller handles the faults of the job"
    if options.mode == OFF:
        return (
            "ModeOff",
            f"the label {MODE} of the job, or else the mode of the policy, is `off`",
        )
    if options.is_external and any(uid in cluster.reschedulings.marks for uid in uids):
        text = f"{MODE} is `{options.mode}`: the faults are written on the pods ({ANNOTATION})"
        return "Marked", text
    index = cluster.indexes.of(FaultyPods)
    faults = {uid: index.pods[uid] for uid in uids if uid in index.pods}
    if not faults:
        return NOT_HIT, "its pods are not faulty any more, or are gone"
    return (
        _of_pods(state, group, faults, options, now_ns)
        or _of_limit(state, group)
        or ("NotDecided", "no cycle has decided about it yet")
    )


def _of_pods(
    state: State, group: PodGroup, faults: dict[str, PodFault], options: FaultOptions, now_ns: int
) -> Reason | None:
    """Return why none of the faulty pods counts; None if one does."""
    cluster = state.cluster
    since = cluster.reschedulings.faulty_since_ns.get(group.key, {})
    tolerance = cluster.policy.action_arguments.rescheduling.tolerance_ns
    found: list[Reason] = []
    for uid, fault in faults.items():
        begun = since.get(uid, now_ns)
        if uid in cluster.eviction_backoff:
            found.append(("Backoff", "its eviction failed and is tried again later"))
        elif begun + tolerance > now_ns:
            span = format_duration(now_ns - begun)
            found.append(
                (
                    TOLERATED,
                    f"the fault has lasted {span}, and is tolerated for {format_duration(tolerance)}",
                )
            )
        elif fault.kind == POD_FAILED and not retries_left(cluster, group):
            found.append(("NoRetries", "no retries are left for pods that fail"))
        elif fault.kind == SOFTWARE and options.recovers_processes:
            found.append(("OtherController", "a recovery controller restarts its processes"))
        elif fault.kind == SUB_HEALTH and options.sub_healthy_strategy not in (
            GRACE_EXIT,
            FORCE_EXIT,
        ):
            strategy = options.sub_healthy_strategy
            found.append(("SubHealthy", f"sub-healthy pods stay: the strategy is `{strategy}`"))
        else:
            return None
    return found[0]


def _of_limit(state: State, group: PodGroup) -> Reason | None:
    book = state.cluster.reschedulings
    limit = state.cluster.policy.action_arguments.rescheduling.limit
    times = book.restarted_ns.get(group.key, ())
    if len(times) < limit:
        return None
    return (
        "RestartLimit",
        f"the job was restarted {len(times)} times within {format_duration(HOUR_NS)}, and {limit} are allowed",
    )
