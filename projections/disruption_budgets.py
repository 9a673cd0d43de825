"""Disruption budgets: how many of the pods that a budget selects may be evicted now (rule K7.4).

    healthy = running pods that are not terminating
    allowed = healthy - pods that must remain, at least 0

The number that must remain is `minAvailable`, or the total minus `maxUnavailable`; a percentage is rounded up. The
total is the number of existing pods: their owners may want more.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec
from msgspec import Raw, Struct

from events.limits import whole_number
from projections.deltas import PodChanged
from projections.index import Index
from projections.objects import NOTHING, Int32, Metadata
from projections.pod_terms import Selector, label_selector, selects
from projections.pods import FAILED, RUNNING, SUCCEEDED, Pod

if TYPE_CHECKING:
    from projections.cluster import Cluster

Count: TypeAlias = int | str | None


class BudgetSpec(Struct):
    """`PodDisruptionBudget.spec`"""

    selector: Raw = NOTHING
    minAvailable: Int32 | str | None = None  # noqa: N815
    maxUnavailable: Int32 | str | None = None  # noqa: N815


class BudgetObject(Struct):
    """A PodDisruptionBudget."""

    metadata: Metadata
    spec: BudgetSpec | None = None


class BudgetFacts(Struct, frozen=True):
    """What muster reads of a PodDisruptionBudget."""

    namespace: str
    name: str
    selector: Selector | None
    """None selects no pod."""
    at_least: Count
    """`minAvailable`: a number or a percentage."""
    at_most: Count
    """`maxUnavailable`: a number or a percentage."""


def budget_facts(obj: BudgetObject) -> BudgetFacts:
    """Return what muster reads of a PodDisruptionBudget. A selector that cannot be read selects no pod."""
    spec = obj.spec or BudgetSpec()
    try:
        selector = label_selector(spec.selector)
    except msgspec.ValidationError:
        selector = None
    return BudgetFacts(
        namespace=obj.metadata.namespace or "default",
        name=obj.metadata.name,
        selector=selector,
        at_least=spec.minAvailable,
        at_most=spec.maxUnavailable,
    )


class Budget:
    """A budget and the pods that it selects. Only State changes it."""

    __slots__ = ("facts", "healthy", "pods")

    COMPARED: ClassVar[tuple[str, ...]] = ("facts", "pods", "healthy")

    def __init__(self, facts: BudgetFacts) -> None:
        self.facts = facts
        self.pods: dict[str, None] = {}
        """UIDs of the selected pods that are not finished."""
        self.healthy = 0
        """Number of running pods."""

    @property
    def allowed(self) -> int:
        """Return how many of its pods may be evicted."""
        return max(0, self.healthy - self._must_stay())

    def add(self, pod: Pod) -> None:
        """Add a selected pod."""
        self.pods[pod.facts.uid] = None
        self.healthy += pod.status == RUNNING

    def remove(self, pod: Pod) -> None:
        """Remove a pod, if it was selected."""
        if pod.facts.uid in self.pods:
            del self.pods[pod.facts.uid]
            self.healthy -= pod.status == RUNNING

    def selects(self, pod: Pod) -> bool:
        """Return whether the budget selects a pod."""
        facts = self.facts
        if pod.facts.namespace != facts.namespace or pod.status in (SUCCEEDED, FAILED):
            return False
        return selects(facts.selector, dict(pod.facts.labels))

    def _must_stay(self) -> int:
        total = len(self.pods)
        if self.facts.at_least is not None:
            return _number(self.facts.at_least, total)
        if self.facts.at_most is not None:
            return total - _number(self.facts.at_most, total)
        return 1


class Budgets(Index):
    """All budgets, by namespace and name. Only State changes them."""

    name = "budgets"
    COMPARED: ClassVar[tuple[str, ...]] = ("all",)

    def __init__(self) -> None:
        self.all: dict[str, dict[str, Budget]] = {}

    def put(self, facts: BudgetFacts, pods: Iterable[Pod]) -> bool:
        """Add or update a budget; return whether anything changed."""
        there = self.all.setdefault(facts.namespace, {})
        known = there.get(facts.name)
        if known is not None and known.facts == facts:
            return False
        budget = there[facts.name] = Budget(facts)
        for pod in pods:
            if budget.selects(pod):
                budget.add(pod)
        return True

    def drop(self, namespace: str, name: str) -> None:
        """Remove a budget."""
        there = self.all.get(namespace, {})
        there.pop(name, None)
        if not there:
            self.all.pop(namespace, None)

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Select the pods again. If more pods of some budget may be evicted than before, preemptors may go on."""
        for one in changes if self.all else ():
            cluster.position = one.position
            if self.replace(one.old, one.new):
                cluster.wake_preemptors()

    def replace(self, old: Pod | None, new: Pod | None) -> bool:
        """Replace a pod; return whether more pods of some budget may be evicted than before."""
        pod, allows_more = new or old, False
        for budget in self.all.get(pod.facts.namespace, {}).values() if pod else ():
            before = budget.allowed
            if old is not None:
                budget.remove(old)
            if new is not None and budget.selects(new):
                budget.add(new)
            allows_more |= budget.allowed > before
        return allows_more

    def covering(self, pod: Pod) -> list[Budget]:
        """Return the budgets that select a pod."""
        there = self.all.get(pod.facts.namespace, {})
        return [budget for budget in there.values() if pod.facts.uid in budget.pods]

    def facts(self) -> list[BudgetFacts]:
        """Return the facts of all budgets."""
        return [budget.facts for there in self.all.values() for budget in there.values()]

    def rebuilt(self, cluster: "Cluster", /) -> "Budgets":
        """Select and count the pods of each budget again."""
        twin = Budgets()
        for facts in self.facts():
            twin.put(facts, ())
        for pod in cluster.pods.values() if twin.all else ():
            twin.replace(None, pod)
        return twin


def _number(count: int | str, of: int) -> int:
    """Return the number of a count or a percentage (rounded up). Any other text counts as all pods."""
    if isinstance(count, int):
        return count
    number = whole_number(count.removesuffix("%"))
    if number is None or number < 0:
        return of
    return -(-number * of // 100) if count.endswith("%") else number
