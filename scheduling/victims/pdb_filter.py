"""PodDisruptionBudgets: pods that the API server would not evict (rules K7.4 and K9.2)."""

from projections.disruption_budgets import Budget
from projections.pods import RUNNING, Pod
from scheduling.victims.preemptor import Preemptor


def allowed_by_budgets(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Return the candidates that may be evicted together, in the order given; victims chosen already count.

    A pod that does not run yet is not protected. A pod covered by several budgets is: the API server refuses its
    eviction.
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
