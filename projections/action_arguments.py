"""Arguments of the actions (`configurations`), with their defaults."""

from typing import Final

from msgspec import Struct, structs

from projections.plugin import Warn
from projections.policy_values import items_at, object_at, truth_at, whole_at

WORK_BUDGET: Final = 800
"""Work of a cycle in thousands of units (`scheduling/work_budget.py`); a cycle that exceeds it ends early."""


CLASS_BUDGET: Final = 5_000
"""Work for the classes of a group's pending pods in one attempt to place it, in thousands of units; a group that
needs more is not tried."""


class PreemptArguments(Struct, frozen=True):
    """Arguments of `preempt`."""

    is_simulated: bool = False
    """Whether the node is chosen by the cost of its victims instead of its score (`enableTopologyAwarePreemption`)."""
    percentage: int = 10
    """Percentage of nodes that are compared then (`minCandidateNodesPercentage`)."""
    least: int = 1
    """Minimum number of these nodes (`minCandidateNodesAbsolute`)."""
    most: int = 100
    """Maximum number of these nodes (`maxCandidateNodesAbsolute`)."""

    def candidates(self, nodes: int) -> int:
        """Return how many of so many nodes are compared."""
        return max(1, min(max(nodes * self.percentage // 100, self.least), self.most))


class GangEvictionArguments(Struct, frozen=True):
    """Arguments of `gangpreempt` and of `gangreclaim`."""

    domains: int = 8
    """Number of domains that are searched for one gang (`maxDomains`)."""
    evicts_whole_gangs: bool = True
    """Whether whole gangs may be evicted, and not only pods above their minimum (`allowWholeBundle`)."""


class ActionArguments(Struct, frozen=True):
    """Arguments of all actions."""

    caches_failed_roles: bool = True
    """Whether a pod that fits no node stands for all pods of its role (`predicateErrorCacheEnable` of `allocate`)."""
    preempting: PreemptArguments = PreemptArguments()
    work_budget: int = WORK_BUDGET
    """Thousands of units of work per cycle (`workBudget` of `cycle`)."""
    class_budget: int = CLASS_BUDGET
    """Thousands of units of work for the classes of one pod group (`classBudget` of `cycle`)."""
    ganging: tuple[tuple[str, GangEvictionArguments], ...] = ()
    """`gangpreempt` and `gangreclaim` with their arguments, if given."""

    def of_gangs(self, action: str) -> GangEvictionArguments:
        """Return the arguments of a gang action."""
        return dict(self.ganging).get(action, GangEvictionArguments())


def read_configurations(
    value: object, warn: Warn, of_plugins: tuple[str, ...] = ()
) -> ActionArguments:
    """Read the arguments of all actions; call `warn` for arguments without effect. Entries with the names `of_plugins`
    are not about actions."""
    found = ActionArguments()
    for index, entry in enumerate(items_at(value, "configurations")):
        path = f"configurations[{index}]"
        one = object_at(entry, path)
        if one.get("name") in of_plugins:
            continue
        given = one.get("arguments")
        for key, argument in object_at(given, f"{path}.arguments").items() if given else ():
            at = f"{path}.arguments.{key}"
            changed = _with(found, str(one.get("name")), key, argument, at)
            if changed is None:
                known = key in _WITHOUT_EFFECT
                warn(
                    at, "it changes nothing here" if known else "muster does not know this argument"
                )
            found = changed or found
    return found


def _with(
    found: ActionArguments, action: str, key: str, argument: object, path: str
) -> ActionArguments | None:
    """Return the arguments with one more; None if the argument has no effect."""
    if (action, key) == ("allocate", "predicateErrorCacheEnable"):
        return structs.replace(found, caches_failed_roles=truth_at(argument, path))
    if (action, key) == ("cycle", "workBudget"):
        return structs.replace(found, work_budget=max(1, whole_at(argument, path)))
    if (action, key) == ("cycle", "classBudget"):
        return structs.replace(found, class_budget=max(1, whole_at(argument, path)))
    if action == "preempt" and key in _PREEMPTING:
        number = {} if key == _SIMULATES else {_PREEMPTING[key]: whole_at(argument, path)}
        changes = number or {_PREEMPTING[key]: truth_at(argument, path)}
        return structs.replace(found, preempting=structs.replace(found.preempting, **changes))
    if action in _GANGS and key in _GANGING:
        before = found.of_gangs(action)
        if key == _DOMAINS:
            after = structs.replace(before, domains=max(1, whole_at(argument, path)))
        else:
            after = structs.replace(before, evicts_whole_gangs=truth_at(argument, path))
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
"""Arguments that Volcano reads and that have no effect here."""
