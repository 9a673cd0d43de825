"""Whether disruption budgets allow an eviction, where no controller keeps their status (rule K9.2)."""

from typing import Final

import msgspec

from projections.device_families import NO_FAMILIES
from projections.disruption_budgets import BudgetObject, Budgets, budget_facts
from projections.objects import PodObject
from projections.pod_class import PodClass
from projections.pods import RUNNING, ObservedPod, Pod, pod_facts, pod_of
from simulator.manifest import Manifest
from simulator.manifest_fields import is_terminal, namespace_of, uid_of
from simulator.object_store import Store

SEVERAL_BUDGETS: Final = "TooManyBudgets"
BLOCKED: Final = "DisruptionBudget"


def eviction_refusal(store: Store, manifest: Manifest) -> str:
    """Return the code with which the server refuses to evict a pod; empty if it does not."""
    objects = store.objects()
    budgets = [
        one
        for one in objects.get("PodDisruptionBudget", {}).values()
        if namespace_of(one) == namespace_of(manifest)
    ]
    if not budgets or is_terminal(manifest):
        return ""
    pods = [
        _pod(one)
        for one in objects["Pod"].values()
        if namespace_of(one) == namespace_of(manifest) and not is_terminal(one)
    ]
    counted = Budgets()
    for one in budgets:
        obj = msgspec.json.decode(msgspec.json.encode(one), type=BudgetObject)
        counted.put(budget_facts(obj), pods)
    pod = next(one for one in pods if one.facts.uid == uid_of(manifest))
    covering = counted.covering(pod) if pod.status == RUNNING else []
    if len(covering) > 1:
        return SEVERAL_BUDGETS
    return BLOCKED if covering and covering[0].allowed < 1 else ""


def _pod(manifest: Manifest) -> Pod:
    """The pod with its status and labels; its requests do not matter here."""
    obj = msgspec.json.decode(msgspec.json.encode(manifest), type=PodObject)
    return pod_of(ObservedPod(pod_facts(obj, NO_FAMILIES)[0], PodClass(index=0, request=()), ""))
