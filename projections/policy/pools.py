"""Pools of nodes, and the decider of each. Without any, all nodes are one pool `default`, decided by `session`."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from events.duration import SECOND
from events.errors import PolicyError
from events.limits import object_name_problem
from projections.policy.policy_values import (
    Warn,
    fraction_at,
    items_at,
    object_at,
    span_at,
    text_at,
    truth_at,
    whole_at,
)
from projections.policy.queue_rules import KEYS as USE_KEYS
from projections.policy.queue_rules import NO_RULE, UseRule, read_use_rule

SESSION: Final = "session"
"""The decider of Volcano's kind: actions over tiers of plugins."""
PRIORITY: Final = "priority"
FAIR_SHARE: Final = "fair_share"
ROUND_ROBIN: Final = "round_robin"
"""The deciders of Determined's kind (docs/pools.md)."""

POOL_ACTION: Final = "pool"
"""`action` of refusals by these, and of those of pod groups that name a pool that does not exist."""

DECIDERS: Final = (SESSION, PRIORITY, FAIR_SHARE, ROUND_ROBIN)
"""Names of the deciders."""

HIGHER_FIRST: Final = "higher_first"
LOWER_FIRST: Final = "lower_first"
"""Which of two priority numbers is more important: the larger, as in Kubernetes, or the smaller."""
PRIORITY_MIN: Final = 1
PRIORITY_MAX: Final = 99
DEFAULT_PRIORITY: Final = {HIGHER_FIRST: 50, LOWER_FIRST: 42}
"""Priority of jobs that state none, by direction."""

CPU: Final = "cpu"
DEFAULT_POOL: Final = "default"

_CHOICES: Final = {
    "decider": DECIDERS,
    "fitting": ("best", "worst"),
    "priorityDirection": (HIGHER_FIRST, LOWER_FIRST),
    "sameLevelPreemption": ("by_position", "off"),
    "shareBasis": ("demand", "equal"),
    "fairShareVictims": ("oldest", "newest"),
    "requeue": ("front_of_job", "back_of_job"),
    "multiNode": ("whole_nodes", "by_pod"),
}
"""Key to its values, the default first."""
_TRUTHS: Final = {
    "preemption": True,
    "pruneVictims": True,
    "infeasibleBlocks": True,
    "allowHeterogeneousFits": False,
}
"""Key to its default."""
_SPANS: Final = {
    "reserveAfter": 0,
    "minRunTime": 0,
    "preemptionTimeout": 3600 * SECOND,
}
"""Key to its default in nanoseconds."""
_OTHERS: Final = (
    "name",
    "nodeSelector",
    "slots",
    "priority",
    "weight",
    "maxAuxContainers",
    "replaces",
)


class Pool(Struct, frozen=True):
    """A pool of nodes. All but the first three and `use` are read by the deciders of Determined's kind only."""

    name: str = DEFAULT_POOL
    decider: str = SESSION
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels that its nodes have; without any, it has the nodes that no other pool has."""
    fitting: str = "best"
    """`best` packs nodes, `worst` spreads over them."""
    slots: tuple[str, ...] = ()
    """Resources that count as slots; all that count cards if none is named. Of `cpu`, whole CPUs count."""
    priority_direction: str = HIGHER_FIRST
    priority: int = DEFAULT_PRIORITY[HIGHER_FIRST]
    """Of jobs that state none."""
    weight: tuple[int, int] = (1, 1)
    """Of jobs that state none, as a fraction."""
    preempts: bool = True
    preempts_same_level: bool = True
    """Whether a job preempts jobs of its priority that are behind it."""
    share_basis: str = "demand"
    takes_oldest_first: bool = True
    """Whether fair share releases the oldest tasks of a group first."""
    prunes_victims: bool = True
    """Whether chosen victims that turn out not to be needed are left alone."""
    reserve_after_ns: int = 0
    """Time after which the oldest waiting task of the first level reserves its nodes; 0 for never."""
    min_run_ns: int = 0
    """Time for which a task that has started is not preempted."""
    infeasible_blocks: bool = True
    """Whether, without preemption, a task that never fits holds up less important ones."""
    resumes_first: bool = True
    """Whether work that was preempted comes before the tasks of its job that have not started."""
    aux_max: int = 100
    """Pods without slots on one node."""
    uses_whole_nodes: bool = True
    """Whether a task on several nodes takes only idle nodes, each of them whole."""
    mixes_sizes: bool = False
    """Whether these may be of different sizes."""
    preemption_timeout_ns: int = 3600 * SECOND
    """Time that preempted pods have to exit, if they state none."""
    replaces: tuple[str, ...] = ()
    """Names of pools of an earlier policy whose jobs come here."""
    use: UseRule = NO_RULE
    """Which namespaces may use it, and what their jobs may state; also where `session` decides."""

    @property
    def is_session(self) -> bool:
        """Return whether the pool is decided by actions and plugins."""
        return self.decider == SESSION

    def node_selector_is_in(self, selected: Mapping[str, str]) -> bool:
        """Return whether a node selector of a pod selects only nodes of the pool."""
        return all(selected.get(key) == value for key, value in self.node_selector)

    def has_node(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.node_selector)


class Pools(Struct, frozen=True):
    """The pools of a policy, in the order in which they are decided."""

    all: tuple[Pool, ...] = (Pool(),)
    compute: str = DEFAULT_POOL
    """The pool of pods that name none."""
    aux: str = DEFAULT_POOL
    """The pool of pods without slots that name none."""
    is_plain: bool = True
    """Whether all nodes are one pool that is decided by `session`."""
    deciders: tuple[str, ...] = ()
    """Names of the pools that are not decided by `session`."""

    def named(self, name: str) -> Pool | None:
        """Return the pool of this name, or the one that replaces it."""
        for one in self.all:
            if one.name == name:
                return one
        return next((one for one in self.all if name in one.replaces), None)

    def of_node(self, labels: Mapping[str, str]) -> str:
        """Return the name of the pool of a node; "" if it is in none."""
        rest = ""
        for one in self.all:
            if not one.node_selector:
                rest = rest or one.name
            elif one.has_node(labels):
                return one.name
        return rest


def read_pools(document: Mapping[str, object], warn: Warn) -> Pools:
    """Return the pools of a policy. Raise PolicyError, which names the path."""
    pools: list[Pool] = []
    for index, entry in enumerate(items_at(document.get("pools"), "pools")):
        path = f"pools[{index}]"
        pool = _read_pool(object_at(entry, path), path, warn)
        for known in pools:
            if known.name == pool.name:
                raise PolicyError(f"{path}.name: pool {pool.name} is named twice")
            if known.node_selector == pool.node_selector:
                raise PolicyError(
                    f"{path}.nodeSelector: pools {known.name} and {pool.name} select the same nodes"
                )
        pools.append(pool)
    if not pools:
        return Pools()
    names = [one.name for one in pools]
    for index, one in enumerate(pools):
        for old in one.replaces:
            if old in names or sum(old in other.replaces for other in pools) > 1:
                raise PolicyError(
                    f"pools[{index}].replaces: {old} is a pool, or is replaced by another one, too"
                )
    chosen = {}
    for key in ("defaultComputePool", "defaultAuxPool"):
        name = text_at(document.get(key, DEFAULT_POOL if DEFAULT_POOL in names else names[0]), key)
        if name not in names:
            raise PolicyError(f"{key}: there is no pool {name}: {', '.join(names)}")
        chosen[key] = name
    return Pools(
        tuple(pools),
        chosen["defaultComputePool"],
        chosen["defaultAuxPool"],
        is_plain=len(pools) == 1 and pools[0].is_session and not pools[0].node_selector,
        deciders=tuple([one.name for one in pools if not one.is_session]),
    )


def _read_pool(given: Mapping[str, object], path: str, warn: Warn) -> Pool:
    for key in given:
        if key not in (*_CHOICES, *_TRUTHS, *_SPANS, *_OTHERS, *USE_KEYS):
            warn(f"{path}.{key}", "muster does not know this key")
    name = text_at(given.get("name"), f"{path}.name")
    if problem := object_name_problem(name) or ("" if name else "is empty"):
        raise PolicyError(f"{path}.name: {problem}")
    choice = {key: _choice(given, key, values, path) for key, values in _CHOICES.items()}
    truth = {key: truth_at(given.get(key, one), f"{path}.{key}") for key, one in _TRUTHS.items()}
    span = {
        key: span_at(given[key], f"{path}.{key}") if key in given else one
        for key, one in _SPANS.items()
    }
    direction = choice["priorityDirection"]
    priority = whole_at(given.get("priority", DEFAULT_PRIORITY[direction]), f"{path}.priority")
    if not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise PolicyError(
            f"{path}.priority: {priority} is not from {PRIORITY_MIN} to {PRIORITY_MAX}"
        )
    weight = fraction_at(given.get("weight", 1), f"{path}.weight")
    if not weight:
        raise PolicyError(f"{path}.weight: expected a number above 0")
    selector = object_at(given.get("nodeSelector", {}), f"{path}.nodeSelector")
    return Pool(
        name=name,
        decider=choice["decider"],
        node_selector=tuple(
            sorted(
                (key, text_at(one, f"{path}.nodeSelector.{key}")) for key, one in selector.items()
            )
        ),
        fitting=choice["fitting"],
        slots=_texts(given, "slots", path),
        priority_direction=direction,
        priority=priority,
        weight=(weight.numerator, weight.denominator),
        preempts=truth["preemption"],
        preempts_same_level=choice["sameLevelPreemption"] == "by_position",
        share_basis=choice["shareBasis"],
        takes_oldest_first=choice["fairShareVictims"] == "oldest",
        prunes_victims=truth["pruneVictims"],
        reserve_after_ns=span["reserveAfter"],
        min_run_ns=span["minRunTime"],
        infeasible_blocks=truth["infeasibleBlocks"],
        resumes_first=choice["requeue"] == "front_of_job",
        aux_max=whole_at(given.get("maxAuxContainers", 100), f"{path}.maxAuxContainers"),
        uses_whole_nodes=choice["multiNode"] == "whole_nodes",
        mixes_sizes=truth["allowHeterogeneousFits"],
        preemption_timeout_ns=span["preemptionTimeout"],
        replaces=_texts(given, "replaces", path),
        use=_use(given, path, direction),
    )


def _use(given: Mapping[str, object], path: str, direction: str) -> UseRule:
    """Return who may use a pool. With `lower_first` a bound of priorities is one of the scale from 1 to 99."""
    use = read_use_rule(given, path)
    most = use.bounds.priority_max
    if most is not None and direction == LOWER_FIRST and not PRIORITY_MIN <= most <= PRIORITY_MAX:
        raise PolicyError(
            f"{path}.priorityMax: {most} is not from {PRIORITY_MIN} to {PRIORITY_MAX}, as with lower_first it must be"
        )
    return use


def _choice(given: Mapping[str, object], key: str, values: tuple[str, ...], path: str) -> str:
    value = text_at(given.get(key, values[0]), f"{path}.{key}")
    if value not in values:
        raise PolicyError(f"{path}.{key}: {value!r} is not one of {', '.join(values)}")
    return value


def _texts(given: Mapping[str, object], key: str, path: str) -> tuple[str, ...]:
    listed = items_at(given.get(key), f"{path}.{key}")
    return tuple([text_at(one, f"{path}.{key}[{index}]") for index, one in enumerate(listed)])
