"""PodDisruptionBudgets: pods that the API server would not evict (rules K7.4 and K9.2)."""

from collections.abc import Iterable

from projections.cluster import Cluster
from projections.disruption_budgets import Budget
from projections.pods import RUNNING, Pod


class BudgetsLeft:
    """How many pods each budget still lets go, after those that are victims already."""

    def __init__(self, cluster: Cluster, gone: Iterable[Pod] = ()) -> None:
        self._budgets = cluster.budgets
        self._refusals = cluster.budget_refusals
        self._left: dict[int, int] = {}
        for pod in gone:
            self.take(pod)

    def take(self, pod: Pod) -> None:
        """Count a pod as a victim."""
        for budget in self._covering(pod):
            self._left[id(budget)] = self._of(budget) - 1

    def refuse(self, pod: Pod) -> bool:
        """Return whether a budget refuses the eviction of a pod. Several budgets of one pod do, whatever they allow."""
        covering = self._covering(pod)
        return len(covering) > 1 or any(self._of(budget) < 1 for budget in covering)

    def allowed(self, candidates: list[Pod]) -> list[Pod]:
        """Take the candidates that may be evicted together, in the order given, and return them."""
        chosen: list[Pod] = []
        for pod in candidates:
            if not self.refuse(pod):
                self.take(pod)
                chosen.append(pod)
        return chosen

    def refused(self, victims: Iterable[Pod]) -> list[Pod]:
        """Return those of some victims whose eviction budgets refuse: as counted here, or as the API server said."""
        refused: list[Pod] = []
        for pod in victims:
            if pod.facts.uid in self._refusals or self.refuse(pod):
                refused.append(pod)
            else:
                self.take(pod)
        return refused

    def _covering(self, pod: Pod) -> list[Budget]:
        """Return the budgets of a pod; none if it does not run yet: it is not protected."""
        return self._budgets.covering(pod) if pod.status == RUNNING else []

    def _of(self, budget: Budget) -> int:
        known = self._left.get(id(budget))
        return budget.allowed if known is None else known
