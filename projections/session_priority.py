"""The priority of a pod group in queues of actions and plugins: that of the PriorityClass that its PodGroup names, or of its first pod,
at most that of the bounds of its queue and pool.

A PodGroup can name any class: ResourceQuotas and the admission of pods do not look at it. So a class of Kubernetes itself
counts for PodGroups of `kube-system` only, and a policy can say that a PodGroup is never more important than its pods
(`priorityFromPods`).
"""

from typing import TYPE_CHECKING, Final

from projections.pod_groups import PodGroup
from projections.pods import FAILED, SUCCEEDED
from projections.policy.job_bounds import SYSTEM_NAMESPACE, SYSTEM_PRIORITY_MIN
from projections.pool_members import pool_of

if TYPE_CHECKING:
    from projections.cluster import Cluster

PRIORITY_CUT: Final = "PriorityCut"
"""Code of the configuration error for a priority that is beyond a bound: the bound counts."""


def bounded_priority(cluster: "Cluster", group: PodGroup, stated: int) -> tuple[int, str]:
    """Return the priority of a group that counts, and why it is less than the stated one; "" if it is not."""
    policy = cluster.policy
    priority, cut = stated, ""
    is_system = group.observed.facts is not None and stated > SYSTEM_PRIORITY_MIN
    if is_system and group.key.partition("/")[0] != SYSTEM_NAMESPACE:
        priority = SYSTEM_PRIORITY_MIN
        cut = f"is for PodGroups of namespace {SYSTEM_NAMESPACE} only: {priority} counts"
    if policy.bounds_priorities:
        of_queue = policy.of_queue(group.queue).bounds
        pool = pool_of(cluster, group)
        of_pool = None if pool is None or not pool.is_session else pool.use.bounds
        if pool is None or pool.is_session:
            most = of_queue.priority_max
            if most is not None and priority > most:
                priority, cut = most, f"is above priorityMax of queue {group.queue}: {most} counts"
        if pool is not None and of_pool is not None:
            most = of_pool.priority_max
            if most is not None and priority > most:
                priority, cut = most, f"is above priorityMax of pool {pool.name}: {most} counts"
        from_pods = of_queue.priority_from_pods or (
            of_pool is not None and of_pool.priority_from_pods
        )
        if from_pods and group.observed.facts is not None:
            highest = highest_of_pods(group)
            if highest is not None and priority > highest:
                priority = highest
                cut = f"is above those of its pods (priorityFromPods): {highest} counts"
    if not cut:
        return priority, ""
    name = "" if group.observed.facts is None else group.observed.facts.priority_class
    of_class = f" of PriorityClass {name}" if name else ""
    return priority, f"priority {stated}{of_class} {cut}"


def highest_of_pods(group: PodGroup) -> int | None:
    """Return the highest priority of the pods of a group that have not ended; None without pods."""
    values = [
        pod.facts.priority or 0
        for pod in group.pods.values()
        if pod.status not in (SUCCEEDED, FAILED)
    ]
    return max(values, default=None)


def report_cut(cluster: "Cluster", group: PodGroup, cut: str) -> None:
    """Keep as a configuration error of the group that its priority is cut; "" if it is not."""
    subject = f"PodGroup/{group.key}"
    if cut or subject in cluster.config_errors.current:
        faults = ((PRIORITY_CUT, cut),) if cut and not group.is_foreign else ()
        cluster.config_errors.replace(subject, PRIORITY_CUT, faults)
