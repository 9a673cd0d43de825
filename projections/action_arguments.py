"""What actions may be told (`configurations`): the arguments of each, with their defaults."""

from typing import Final

from msgspec import Struct, structs

from projections.plugin_arguments import Warn
from projections.policy_values import items_at, object_at, truth_at, whole_at

WORK_BUDGET: Final = 800
"""Thousands of units of work that a cycle may take (`scheduling/work.py`); then it ends early."""


CLASS_BUDGET: Final = 5_000
"""Thousands of units of work that the classes of a group's waiting pods may take in one attempt to place it; a group
beyond that is not tried."""


class PreemptArguments(Struct, frozen=True):
    """Arguments of `preempt`."""

    is_simulated: bool = False
    """Whether the node is chosen by who would leave it, rather than by its score
    (`enableTopologyAwarePreemption`)."""
    percentage: int = 10
    """How many nodes are compared then, of all (`minCandidateNodesPercentage`)."""
    least: int = 1
    """How many at least (`minCandidateNodesAbsolute`)."""
    most: int = 100
    """How many at most (`maxCandidateNodesAbsolute`)."""

    def candidates(self, nodes: int) -> int:
        """How many nodes are compared of so many."""
        return max(1, min(max(nodes * self.percentage // 100, self.least), self.most))


class GangEvictionArguments(Struct, frozen=True):
    """Arguments of `gangpreempt` and of `gangreclaim`."""

    domains: int = 8
    """How many domains are looked at for one gang (`maxDomains`)."""
    breaks_gangs: bool = True
    """Whether whole gangs may have to leave, rather than only what they do not need (`allowWholeBundle`)."""


class ActionArguments(Struct, frozen=True):
    """What all actions are told."""

    remembers_roles: bool = True
    """Whether a pod without a node speaks for all of its role (`predicateErrorCacheEnable` of `allocate`)."""
    preempting: PreemptArguments = PreemptArguments()
    work_budget: int = WORK_BUDGET
    """Thousands of units of work in a cycle (`workBudget` of `cycle`)."""
    class_budget: int = CLASS_BUDGET
    """Thousands of units for the classes of one pod group (`classBudget` of `cycle`)."""
    ganging: tuple[tuple[str, GangEvictionArguments], ...] = ()
    """`gangpreempt` and `gangreclaim` with their arguments, where there are any."""

    def of_gangs(self, action: str) -> GangEvictionArguments:
        """The arguments of one of the actions for whole gangs."""
        return dict(self.ganging).get(action, GangEvictionArguments())


def read_configurations(value: object, warn: Warn) -> ActionArguments:
    """The arguments of all actions. What changes nothing is warned of."""
    found = ActionArguments()
    for index, entry in enumerate(items_at(value, "configurations")):
        path = f"configurations[{index}]"
        one = object_at(entry, path)
        given = one.get("arguments")
        for key, said in object_at(given, f"{path}.arguments").items() if given else ():
            at = f"{path}.arguments.{key}"
            changed = _with(found, str(one.get("name")), key, said, at)
            if changed is None:
                known = key in _WITHOUT_EFFECT
                warn(
                    at, "it changes nothing here" if known else "muster does not know this argument"
                )
            found = changed or found
    return found


def _with(
    found: ActionArguments, action: str, key: str, said: object, path: str
) -> ActionArguments | None:
    """The arguments with one more; None where it is none that counts."""
    if (action, key) == ("allocate", "predicateErrorCacheEnable"):
        return structs.replace(found, remembers_roles=truth_at(said, path))
    if (action, key) == ("cycle", "workBudget"):
        return structs.replace(found, work_budget=max(1, whole_at(said, path)))
    if (action, key) == ("cycle", "classBudget"):
        return structs.replace(found, class_budget=max(1, whole_at(said, path)))
    if action == "preempt" and key in _PREEMPTING:
        number = {} if key == _SIMULATES else {_PREEMPTING[key]: whole_at(said, path)}
        changes = number or {_PREEMPTING[key]: truth_at(said, path)}
        return structs.replace(found, preempting=structs.replace(found.preempting, **changes))
    if action in _GANGS and key in _GANGING:
        before = found.of_gangs(action)
        if key == _DOMAINS:
            after = structs.replace(before, domains=max(1, whole_at(said, path)))
        else:
            after = structs.replace(before, breaks_gangs=truth_at(said, path))
        return structs.replace(found, ganging=(*found.ganging, (action, after)))
    return None


_GANGS: Final = ("gangpreempt", "gangreclaim")
_DOMAINS: Final = "maxDomains"
_GANGING: Final = (_DOMAINS, "allowWholeBundle")
_SIMULATES: Final = "enableTopologyAwarePreemption"
_PREEMPTING: Final = {
    _SIMULATES: "is_simulated",
    "minCandidateNodesPercentage": "percentage",
    "minCandidateNodesAbsolute": "least",
    "maxCandidateNodesAbsolute": "most",
}
_WITHOUT_EFFECT: Final = ("predicateErrorCacheEnable", "topologyAwarePreemptWorkerNum")
"""Volcano reads them; here nothing depends on them."""
