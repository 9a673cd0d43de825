"""Pods whose eviction PodDisruptionBudgets refuse, and since when.

A budget of `maxUnavailable: 0` refuses for ever. Where the pod belongs to what its queue holds above what that deserves, the
budget is asked again and again for `budgetTimeout` of the policy; after that the pod is deleted without it
(`scheduling/victims/protection.py`). The time begins with the first refusal in the namespace, so that many pods under one
budget do not take many times as long, nor does a budget that is created again and again. It ends when no eviction there was
refused for FORGOTTEN_NS.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from events.duration import SECOND

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.disruption_budgets import Budget

BUDGET_CODES: Final = ("DisruptionBudget", "TooManyBudgets")
"""Codes of an eviction that budgets refuse."""

FORGOTTEN_NS: Final = 600 * SECOND
"""Time after the last refusal when the next one counts as the first again."""


class BudgetRefusal(Struct, frozen=True, array_like=True):
    """A pod whose eviction budgets refused."""

    namespace: str
    since_ns: int
    """Time of the first refusal in its namespace."""
    last_ns: int
    """Time of the last refusal of its own."""


def record_refusal(cluster: "Cluster", uid: str, namespace: str, at_ns: int) -> None:
    """Record that budgets refused the eviction of a pod."""
    kept = cluster.budget_refusals
    since_ns = min(
        (one.since_ns for one in kept.values() if one.namespace == namespace), default=at_ns
    )
    kept[uid] = BudgetRefusal(namespace, since_ns, at_ns)


def is_overdue(cluster: "Cluster", uid: str) -> bool:
    """Return whether budgets refused the eviction of a pod, and have refused those of its namespace for as long as the
    policy allows."""
    found = cluster.budget_refusals.get(uid)
    limit_ns = cluster.policy.action_arguments.budget_timeout_ns
    return found is not None and 0 < limit_ns <= cluster.now_ns - found.since_ns


def is_namespace_overdue(cluster: "Cluster", namespace: str) -> bool:
    """Return whether budgets have refused evictions in a namespace for as long as the policy allows."""
    return any(
        one.namespace == namespace and is_overdue(cluster, uid)
        for uid, one in cluster.budget_refusals.items()
    )


def wake_covered(cluster: "Cluster", uids: Iterable[str]) -> None:
    """Wake preemptors that wait for nodes with pods under the budgets that refused these pods: while a refusal was fresh,
    no other pod was asked for."""
    found: dict[tuple[str, str], Budget] = {}
    for uid in uids:
        pod = cluster.pods.get(uid)
        if pod is not None and uid in cluster.budget_refusals:
            for one in cluster.budgets.covering(pod):
                found[one.facts.namespace, one.facts.name] = one
    for budget in found.values():
        for uid in budget.pods:
            if node := cluster.pods[uid].node:
                cluster.mark_node_freed(node)


def forget_refusals(cluster: "Cluster", at_ns: int) -> None:
    """Forget the refusals that are long ago."""
    kept = cluster.budget_refusals
    for uid in [uid for uid, one in kept.items() if one.last_ns + FORGOTTEN_NS <= at_ns]:
        del kept[uid]
        pod = cluster.pods.get(uid)
        if pod is not None and pod.node:
            cluster.mark_node_freed(pod.node)
