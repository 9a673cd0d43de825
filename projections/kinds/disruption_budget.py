"""PodDisruptionBudget: how many pods an eviction may take away."""

from typing import Final

from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.disruption_budgets import BudgetFacts, BudgetObject, budget_facts
from projections.objects import read
from projections.observed_kind import ObservedKind, Reading

BUDGETS: Final = Resource(
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    "policy",
    short_names=("pdb",),
    needs_revision=True,
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    def whole(content: bytes) -> BudgetFacts | None:
        obj = read(BudgetObject, content)
        return None if isinstance(obj, str) else budget_facts(obj)

    facts = reading.of(whole, lambda *_: None)
    cluster.config_errors.put(reading.subject, reading.faults)
    reading.counts = facts is not None
    if facts is not None and cluster.budgets.put(facts, cluster.pods.values()):
        cluster.wake_preemptors()


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    _, namespace, name = subject.split("/")
    cluster.budgets.drop(namespace, name)
    cluster.wake_preemptors()


DISRUPTION_BUDGET: Final = ObservedKind(
    resource=BUDGETS, why="what an eviction may cost", apply=_apply, drop=_drop
)
