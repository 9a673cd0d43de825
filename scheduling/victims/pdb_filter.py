"""Pods that their disruption budgets hold: the API server would not evict them (rules K7.4 and K9.2)."""

from projections.disruption_budgets import Budget
from projections.pods import RUNNING, Pod
from scheduling.victims.preemptor import Preemptor


def allowed_by_budgets(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """The candidates that may be evicted together, first first; those chosen already count.

    A pod that does not run yet is not held. One that several budgets speak for is: the server refuses that.
    """
    budgets = preemptor.cluster.budgets
    if not budgets.all:
        return candidates
    left: dict[int, int] = {}
    for pod in preemptor.overlay.evicted:
        for budget in budgets.covering(pod) if pod.status == RUNNING else ():
            left[id(budget)] = _left(left, budget) - 1
    chosen: list[Pod] = []
    for pod in candidates:
        covering = budgets.covering(pod) if pod.status == RUNNING else []
        if len(covering) > 1 or any(_left(left, budget) < 1 for budget in covering):
            continue
        for budget in covering:
            left[id(budget)] = _left(left, budget) - 1
        chosen.append(pod)
    return chosen


def _left(left: dict[int, int], budget: Budget) -> int:
    known = left.get(id(budget))
    return budget.allowed if known is None else known
