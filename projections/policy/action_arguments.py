"""Arguments of the actions (`configurations`), with their defaults."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from events.duration import SECOND, nanoseconds
from events.errors import PolicyError
from projections.policy.policy_values import Warn, items_at, object_at, text_at, truth_at, whole_at

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


class RescheduleArguments(Struct, frozen=True):
    """Arguments of `reschedule`: what is done after faults, for jobs that do not say so themselves.

    Times are in nanoseconds here and durations (`30s`) in the policy.
    """

    mode: str = "off"
    """`off`, `grace` or `force`: whether pods are moved, and how they are deleted (`mode`)."""
    moves_pods_only: bool = False
    """Whether healthy pods stay (`scope: pod`), or the whole job is restarted (`scope: job`)."""
    retry_times: int = 0
    """Number of restarts of a job because pods failed (`retryTimes`)."""
    conditions: tuple[str, ...] = ()
    """Types of conditions that are faults of a node while they are True (`conditions`)."""
    taints: tuple[str, ...] = ()
    """Keys of taints that are faults of a node (`taints`)."""
    tolerance_ns: int = 0
    """Time for which a fault must last before pods are moved (`tolerance`)."""
    settle_ns: int = 0
    """Time for which a node that was faulty gets no pods after it has recovered (`settle`)."""
    grace_ns: int | None = None
    """Time until pods that do not end are deleted by force (`graceOverTime`); None for that of `volcano-npu`."""
    attempt_ns: int = SECOND
    """Least time between two attempts to place what was deleted (`attemptInterval`)."""
    super_pod_attempts: int = 6
    """Attempts until all pods of the same logical SuperPoD are deleted (`superPodAttempts`)."""
    job_attempts: int = 12
    """Attempts until all pods of the job are deleted (`jobAttempts`)."""
    reservation_ns: int = 300 * SECOND
    """Longest time for which the nodes of healthy pods are kept for the pods that replace them (`reservation`)."""
    stranded_ns: int = 120 * SECOND
    """Time after which what is left of a gang below its minimum is restarted (`strandedTimeout`); 0 for never."""
    limit: int = 20
    """Most restarts of one job in an hour (`restartsPerHour`)."""


class ActionArguments(Struct, frozen=True):
    """Arguments of all actions."""

    caches_failed_roles: bool = True
    """Whether a pod that fits no node stands for all pods of its role (`predicateErrorCacheEnable` of `allocate`)."""
    preempting: PreemptArguments = PreemptArguments()
    work_budget: int = WORK_BUDGET
    """Thousands of units of work per cycle (`workBudget` of `cycle`)."""
    class_budget: int = CLASS_BUDGET
    """Thousands of units of work for the classes of one pod group (`classBudget` of `cycle`)."""
    pod_creation_ns: int = 300 * SECOND
    """Time for which the reservation of an admitted group is protected while it has too few pods
    (`podCreationTimeout` of `enqueue`); 0 for ever."""
    trusts_stated_phase: bool = False
    """Whether a new PodGroup begins with the phase that its object states, as in Volcano, and not as Pending
    (`trustStatedPhase` of `enqueue`)."""
    moves_running_groups: bool = False
    """Whether a PodGroup takes the charges of its running pods along to another queue that it names, as in Volcano
    (`moveRunningGroups` of `enqueue`)."""
    ganging: tuple[tuple[str, GangEvictionArguments], ...] = ()
    """`gangpreempt` and `gangreclaim` with their arguments, if given."""
    rescheduling: RescheduleArguments = RescheduleArguments()
    not_ready_ns: int = 300 * SECOND
    """Time after which a node that is not ready counts in no share (`notReadyTimeout` of `cycle`)."""
    victim_timeout_ns: int = 600 * SECOND
    """Time for which a pod group waits for terminating pods on the nodes that it is nominated to (`victimTimeout` of `cycle`)."""

    protects_always: bool = False
    """Whether pods that `volcano.sh/preemptable` or a budget protects are never reclaimed, as in Volcano, and not only within
    what their queue deserves (`protection` of `cycle`)."""
    budget_timeout_ns: int = 300 * SECOND
    """Time for which a PodDisruptionBudget may refuse the eviction of a pod above what its queue deserves; then the pod is
    deleted (`budgetTimeout` of `cycle`); 0: for ever."""

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
    if (action, key) == ("enqueue", "podCreationTimeout"):
        return structs.replace(found, pod_creation_ns=_duration(argument, path))
    if (action, key) == ("enqueue", "trustStatedPhase"):
        return structs.replace(found, trusts_stated_phase=truth_at(argument, path))
    if (action, key) == ("enqueue", "moveRunningGroups"):
        return structs.replace(found, moves_running_groups=truth_at(argument, path))
    if (action, key) == ("cycle", "workBudget"):
        return structs.replace(found, work_budget=max(1, whole_at(argument, path)))
    if (action, key) == ("cycle", "classBudget"):
        return structs.replace(found, class_budget=max(1, whole_at(argument, path)))
    if (action, key) == ("cycle", "notReadyTimeout"):
        return structs.replace(found, not_ready_ns=_duration(argument, path))
    if (action, key) == ("cycle", "victimTimeout"):
        return structs.replace(found, victim_timeout_ns=_duration(argument, path))
    if (action, key) == ("cycle", "protection"):
        always = _one_of(argument, path, (WITHIN_DESERVED, ALWAYS)) == ALWAYS
        return structs.replace(found, protects_always=always)
    if (action, key) == ("cycle", "budgetTimeout"):
        return structs.replace(found, budget_timeout_ns=_duration(argument, path))
    if action == "preempt" and key in _PREEMPTING:
        number = {} if key == _SIMULATES else {_PREEMPTING[key]: whole_at(argument, path)}
        changes = number or {_PREEMPTING[key]: truth_at(argument, path)}
        return structs.replace(found, preempting=structs.replace(found.preempting, **changes))
    if action == RESCHEDULE and key in _RESCHEDULING:
        name, reader = _RESCHEDULING[key]
        after_faults = structs.replace(found.rescheduling, **{name: reader(argument, path)})
        return structs.replace(found, rescheduling=after_faults)
    if action in _GANGS and key in _GANGING:
        before = found.of_gangs(action)
        if key == _DOMAINS:
            after = structs.replace(before, domains=max(1, whole_at(argument, path)))
        else:
            after = structs.replace(before, evicts_whole_gangs=truth_at(argument, path))
        return structs.replace(found, ganging=(*found.ganging, (action, after)))
    return None


def _mode(value: object, path: str) -> str:
    return _one_of(value, path, ("off", "grace", "force"))


def _is_pod(value: object, path: str) -> bool:
    return _one_of(value, path, ("job", "pod")) == "pod"


def _one_of(value: object, path: str, known: tuple[str, ...]) -> str:
    # YAML reads `off` as false.
    text = "off" if value is False and "off" in known else text_at(value, path)
    if text not in known:
        raise PolicyError(f"{path}: {text!r} is not one of {', '.join(known)}")
    return text


def _names(value: object, path: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple([one.strip() for one in value.split(",") if one.strip()])
    return tuple([text_at(one, f"{path}[{at}]") for at, one in enumerate(items_at(value, path))])


def _duration(value: object, path: str) -> int:
    try:
        found = nanoseconds(text_at(value, path))
    except ValueError as error:
        raise PolicyError(f"{path}: {error}") from error
    if not 0 <= found <= DURATION_MAX:
        raise PolicyError(f"{path}: expected a time from 0s to 24h")
    return found


def _interval(value: object, path: str) -> int:
    return max(SECOND, _duration(value, path))


def _least_one(value: object, path: str) -> int:
    count = whole_at(value, path)
    if count < 1:
        raise PolicyError(f"{path}: expected a number of at least 1")
    return count


WITHIN_DESERVED: Final = "withinDeserved"
ALWAYS: Final = "always"
"""Values of `protection` of `cycle`."""
RESCHEDULE: Final = "reschedule"
DURATION_MAX: Final = 24 * 3600 * SECOND
_RESCHEDULING: Final[dict[str, tuple[str, Callable[[object, str], object]]]] = {
    "mode": ("mode", _mode),
    "scope": ("moves_pods_only", _is_pod),
    "retryTimes": ("retry_times", lambda value, path: max(0, whole_at(value, path))),
    "conditions": ("conditions", _names),
    "taints": ("taints", _names),
    "tolerance": ("tolerance_ns", _duration),
    "settle": ("settle_ns", _duration),
    "graceOverTime": ("grace_ns", _duration),
    "attemptInterval": ("attempt_ns", _interval),
    "superPodAttempts": ("super_pod_attempts", _least_one),
    "jobAttempts": ("job_attempts", _least_one),
    "reservation": ("reservation_ns", _duration),
    "strandedTimeout": ("stranded_ns", _duration),
    "restartsPerHour": ("limit", _least_one),
}
"""Argument of `reschedule` to its field and how it is read."""
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
