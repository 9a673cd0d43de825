"""Loads that one tenant can make to keep others waiting, and what they cost in CPU time.

For each load: CPU seconds of the longest cycle, cycles and CPU seconds until nothing is left to decide (or until
`CPU_SECONDS_MAX`, which is said), and how long canary pods of another queue and namespace wait for a decision. The first
canary comes with the load, one more after each of the first cycles. CPU time is of this process: what other
programs do meanwhile counts little.
"""

import gc
from collections.abc import Callable, Iterator
from time import process_time
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from benchmarks.driving import SECOND, begin, nothing_of, take_in
from benchmarks.figures import Figure
from benchmarks.manifests import listed
from benchmarks.scale import Scale
from engine.engine import Engine
from events.messages import ObjectSeen, WatchMessage
from projections.kind_table import REQUIRED

JsonObject: TypeAlias = dict[str, object]

CPU_SECONDS_MAX: Final = 60.0
"""After so many CPU seconds of cycles a load is left."""

CANARIES: Final = 10
"""How many canary pods come, one after each of the first cycles."""

QUEUE: Final = "scheduling.volcano.sh/queue-name"

EVERY: Final = "enqueue, allocate, preempt, reclaim, gangpreempt, gangreclaim, backfill"


class Load(Struct, frozen=True, kw_only=True):
    """What is attacked with."""

    name: str
    policy: JsonObject
    objects: Callable[[int], Iterator[WatchMessage]]
    """Everything there is but canaries, where the load is to be one in so many of its full size."""


class Waited(Struct):
    """How long one canary waited."""

    cycles: int = 0
    seconds: float = 0.0


class LoadResult(Struct):
    """What came of a load."""

    longest: float = 0.0
    cycles: int = 0
    seconds: float = 0.0
    units_of_longest: int = 0
    """Units of work of that cycle."""
    is_at_rest: bool = True
    waited: list[Waited] = []
    is_canary_left: bool = False
    """Whether a canary still waited at the end."""


def policy(
    actions: str, *tiers: list[JsonObject], arguments: JsonObject | None = None
) -> JsonObject:
    """A policy with these actions and plugins."""
    more: JsonObject = {}
    if arguments:
        more["configurations"] = [{"name": "cycle", "arguments": arguments}]
    return {"actions": actions, "tiers": [{"plugins": tier} for tier in tiers], **more}


def _plugins(*names: str) -> list[JsonObject]:
    return [{"name": name} for name in names]


HIERARCHY: Final = policy(
    "enqueue, allocate, backfill",
    _plugins("priority", "gang"),
    [{"name": "drf", "enableHierarchy": True}, *_plugins("predicates", "nodeorder")],
)

PLAIN: Final = policy(
    "enqueue, allocate, backfill", _plugins("priority", "gang", "predicates", "nodeorder")
)

WHOLE: Final = policy(
    EVERY,
    [
        {"name": "priority"},
        {"name": "gang", "enablePreemptable": False, "enableReclaimable": False},
        {"name": "conformance"},
    ],
    [
        {"name": "drf", "enablePreemptable": False},
        *_plugins("predicates", "capacity", "nodeorder"),
    ],
)


TREE: Final = policy(
    EVERY,
    _plugins("priority", "conformance"),
    [{"name": "drf", "enableHierarchy": True}, *_plugins("predicates", "nodeorder")],
)

HELD: Final = {"held": "yes"}


def _seen(kind: str, name: str, namespace: str = "", **parts: object) -> WatchMessage:
    meta: JsonObject = {"name": name, "uid": f"{kind}-{namespace}-{name}", "resourceVersion": "7"}
    if namespace:
        meta["namespace"] = namespace
    more = parts.pop("metadata", {})
    assert isinstance(more, dict)
    return ObjectSeen(msgspec.json.encode({"kind": kind, "metadata": {**meta, **more}, **parts}))


def _node_name(index: int) -> str:
    return f"n{index:04}"


def _nodes(count: int, cpu: int = 64) -> Iterator[WatchMessage]:
    amounts = {"cpu": str(cpu), "memory": "1Ti", "pods": "200"}
    yield from listed(
        "Node",
        (
            _seen(
                "Node",
                _node_name(index),
                metadata={
                    "labels": {
                        "zone": f"z{index % 10}",
                        "kubernetes.io/hostname": _node_name(index),
                    }
                },
                spec={},
                status={"allocatable": amounts},
            )
            for index in range(count)
        ),
    )


def _queue(name: str, parent: str = "", **spec: object) -> WatchMessage:
    more: JsonObject = {"parent": parent} if parent else {}
    return _seen("Queue", name, spec={"weight": 1, **more, **spec}, status={"state": "Open"})


def _pod(
    name: str,
    milli_cpu: int,
    queue: str = "crowd",
    *,
    namespace: str = "crowd",
    node: str = "",
    priority: int = 0,
    spec: JsonObject | None = None,
    labels: dict[str, str] | None = None,
    group: str = "",
) -> WatchMessage:
    requests = {"cpu": f"{milli_cpu}m", "memory": "1Mi"}
    whole: JsonObject = {
        "schedulerName": "muster",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        **({"nodeName": node} if node else {}),
        **(spec or {}),
    }
    annotations = {QUEUE: queue, **({"scheduling.k8s.io/group-name": group} if group else {})}
    return _seen(
        "Pod",
        name,
        namespace,
        metadata={"annotations": annotations, "labels": labels or {}},
        spec=whole,
        status={"phase": "Running" if node else "Pending"},
    )


CANARY_QUEUE: Final = "canary"


def _two_queues() -> list[WatchMessage]:
    return [_queue("crowd"), _queue(CANARY_QUEUE)]


def _spread_over(key: str, skew: int, selector: JsonObject) -> JsonObject:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return {"topologySpreadConstraints": [constraint]}


def _unlike(part: int) -> Iterator[WatchMessage]:
    yield from _nodes(200)
    yield from listed("Queue", _two_queues())
    yield from listed("Pod", (_pod(f"p{index}", 100 + index) for index in range(1_500 // part)))


def _chain(part: int) -> Iterator[WatchMessage]:
    count = 1_200 // part
    yield from _nodes(200)
    chain = [_queue(f"q{index}", f"q{index - 1}" if index else "") for index in range(count)]
    yield from listed("Queue", [*chain, _queue(CANARY_QUEUE)])
    yield from listed(
        "Pod", (_pod(f"p{index}", 100 + index, f"q{index}") for index in range(count))
    )


def _spread(part: int) -> Iterator[WatchMessage]:
    yield from _nodes(100)
    yield from listed("Queue", _two_queues())

    def one(index: int) -> WatchMessage:
        selector: JsonObject = {
            "matchExpressions": [{"key": f"k{index % 97}", "operator": "Exists"}]
        }
        key = "zone" if index % 2 else "kubernetes.io/hostname"
        spec = _spread_over(key, 1 + index % 5, selector)
        return _pod(f"p{index}", 100 + index, spec=spec, labels={f"k{index % 97}": str(index)})

    yield from listed("Pod", map(one, range(600 // part)))


def _full(
    waiting: int,
    part: int,
    *,
    is_held: bool = False,
    is_spread: bool = False,
    nodes: int = 100,
) -> Iterator[WatchMessage]:
    """Nodes full of 24 running pods each, and pods of higher priority that wait.

    `is_held`: a disruption budget holds all that run; `is_spread`: no eviction brings those that wait within their
    spread constraints.
    """
    nodes = max(2, nodes // part)
    yield from _nodes(nodes)
    deserved = {"cpu": "3200", "memory": "50Ti"}
    yield from listed("Queue", [_queue("crowd", deserved=deserved), *_two_queues()[1:]])
    # 24 pods of 2.65 cpu leave 0.4 cpu on a node: too little for any of those that wait.
    pods = [
        _pod(
            f"r{index}",
            2_650,
            "crowd" if index % 3 else "other",
            node=_node_name(index % nodes),
            labels=HELD,
        )
        for index in range(24 * nodes)
    ]
    pods += [
        _pod(
            f"p{index}",
            1_000 + index,
            priority=100,
            spec=_spread_over("zone", 1 + index % 5, {"matchLabels": HELD}) if is_spread else {},
            labels=HELD if is_spread else {},
        )
        for index in range(waiting // part)
    ]
    yield from listed("Pod", pods)
    if is_held:
        budget = _seen(
            "PodDisruptionBudget",
            "held",
            "crowd",
            spec={"maxUnavailable": 0, "selector": {"matchLabels": HELD}},
            status={"disruptionsAllowed": 0},
        )
        yield from listed("PodDisruptionBudget", [budget])


def _empty(part: int) -> Iterator[WatchMessage]:
    yield from _nodes(100)
    yield from listed("Queue", _two_queues())
    waiting = (_pod(f"p{index}", 1_000 + index, priority=100) for index in range(10_000 // part))
    yield from listed("Pod", waiting)


def _gang(part: int) -> Iterator[WatchMessage]:
    """One gang of pods of which no two are alike, each apart from pods with a label that one other has."""
    count = 800 // part
    yield from _nodes(1_000 // part)
    yield from listed("Queue", _two_queues())
    spec: JsonObject = {"minMember": count, "queue": "crowd"}
    gang = _seen("PodGroup", "gang", "crowd", spec=spec, status={"phase": "Inqueue"})
    yield from listed("PodGroup", [gang])

    def one(index: int) -> WatchMessage:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {f"k{index % 97}": str(index)}},
        }
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return _pod(
            f"p{index}",
            100 + index,
            spec={"affinity": {"podAntiAffinity": apart}},
            labels={f"k{index % 97}": str(index)},
            group="gang",
        )

    yield from listed("Pod", map(one, range(count)))


def _anti_affinity(term: JsonObject, topology_key: str) -> JsonObject:
    required = [{"topologyKey": topology_key, **term}]
    rules: JsonObject = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"affinity": {"podAntiAffinity": rules}}


def _terms(shape: str, index: int) -> JsonObject:
    """The anti-affinity of one pod of many, unlike that of each other."""
    unlike: JsonObject = {"key": "app", "operator": "NotIn", "values": [f"not-{index}"]}
    everything: JsonObject = {"labelSelector": {"matchExpressions": [unlike]}}
    match shape:
        case "matchLabels":
            apart_from: JsonObject = {"labelSelector": {"matchLabels": {"app": f"p{index + 1}"}}}
            return _anti_affinity(apart_from, "kubernetes.io/hostname")
        case "NotIn":
            return _anti_affinity(everything, "kubernetes.io/hostname")
        case "Exists":
            exists: JsonObject = {"key": f"k{index}", "operator": "Exists"}
            selector: JsonObject = {"labelSelector": {"matchExpressions": [exists]}}
            return _anti_affinity(selector, "kubernetes.io/hostname")
        case "namespaceSelector":
            return _anti_affinity({**everything, "namespaceSelector": {}}, "kubernetes.io/hostname")
        case _:
            return _anti_affinity(everything, f"key-{index}")


SHAPES: Final = ("matchLabels", "NotIn", "Exists", "namespaceSelector", "topologyKey")
"""How the anti-affinity terms of pods are unlike. With `NotIn`, `namespaceSelector` and `topologyKey` each term selects
every pod."""


def affinity_load(shape: str, count: int, nodes: int = 200) -> Iterator[WatchMessage]:
    """So many pods, each with an anti-affinity term and labels that no other has."""
    yield from _nodes(nodes)
    yield from listed("Queue", _two_queues())
    labels = {f"k{index}": "yes" for index in range(20)}
    pods = (
        _pod(
            f"p{index}",
            100,
            spec=_terms(shape, index),
            labels={**labels, "app": f"p{index}", f"k{index}": "yes"},
        )
        for index in range(count)
    )
    yield from listed("Pod", pods)


LOADS: Final = (
    Load(name="1,500 unlike pods, drf with hierarchy", policy=HIERARCHY, objects=_unlike),
    Load(name="1,200 queues in a chain, drf with hierarchy", policy=HIERARCHY, objects=_chain),
    Load(name="600 pods with unlike spread", policy=PLAIN, objects=_spread),
    Load(
        name="800 unlike preemptors, every action",
        policy=WHOLE,
        objects=lambda part: _full(800, part),
    ),
    Load(
        name="800 unlike preemptors of held pods, every action",
        policy=WHOLE,
        objects=lambda part: _full(800, part, is_held=True),
    ),
    Load(
        name="800 preemptors with spread, drf with hierarchy, every action",
        policy=TREE,
        objects=lambda part: _full(800, part, is_spread=True),
    ),
    Load(
        name="100 preemptors with spread on 1,000 nodes, drf with hierarchy, every action",
        policy=TREE,
        objects=lambda part: _full(100, part, is_spread=True, nodes=1_000),
    ),
    Load(name="a gang of 800 unlike pods with anti-affinity", policy=PLAIN, objects=_gang),
    Load(name="10,000 unlike pods, every action", policy=WHOLE, objects=_empty),
    *(
        Load(
            name=f"2,000 pods with unlike anti-affinity ({shape})",
            policy=PLAIN,
            objects=lambda part, shape=shape: affinity_load(shape, 2_000 // part),  # type: ignore[misc]  # bound now
        )
        for shape in SHAPES
    ),
)


def begun(load: Load, part: int = 1) -> Engine:
    """A daemon that has just read the whole load."""
    engine, _ = begin(with_views=False, rules=msgspec.json.encode(load.policy))
    for _ in take_in(engine, load.objects(part)):
        pass
    rest = [kind for kind in REQUIRED if kind not in engine.state.listed]
    for _ in take_in(engine, nothing_of(*rest)):
        pass
    return engine


def run(load: Load, part: int = 1, canaries: int = CANARIES) -> LoadResult:
    """Hold cycles until nothing is left to decide or the time is up."""
    engine, job_status = begun(load, part), LoadResult(waited=[])
    now_ns = 2 * SECOND
    open_canaries: dict[str, Waited] = {}
    come = 0
    gc.collect()
    while True:
        if come < canaries:
            name = f"canary-{come}"
            come += 1
            seen = _pod(name, 100, CANARY_QUEUE, namespace="canary")
            engine.observe([seen], now_ns)
            waits = open_canaries[f"canary/{name}"] = Waited()
            job_status.waited.append(waits)
        if not engine.is_due(now_ns):
            break
        began = process_time()
        batch = engine.cycle(now_ns)
        took = process_time() - began
        assert batch is not None
        job_status.cycles += 1
        job_status.seconds += took
        if took > job_status.longest:
            job_status.longest, job_status.units_of_longest = took, engine.decider.session.work.done
        for key in list(open_canaries):
            open_canaries[key].cycles += 1
            open_canaries[key].seconds += took
            if _is_decided(engine, key):
                del open_canaries[key]
        if job_status.seconds > CPU_SECONDS_MAX:
            job_status.is_at_rest = False
            break
    job_status.is_canary_left = bool(open_canaries)
    return job_status


def _is_decided(engine: Engine, key: str) -> bool:
    pod = next(one for one in engine.state.cluster.pods.values() if one.key == key)
    group = engine.state.cluster.groups[pod.group_key]
    return bool(pod.node or group.decided.nominations or group.decided.refusals)


async def measure(scale: Scale) -> list[Figure]:
    """Each load at its full size; a part of it for a quick look."""
    part = max(1, 5_000 // scale.pods)
    return [figure for load in LOADS for figure in figures_of(load, run(load, part))]


def figures_of(load: Load, job_status: LoadResult) -> Iterator[Figure]:
    """The figures of one load."""
    rest = "to rest" if job_status.is_at_rest else "until left"
    values = (
        ("longest cycle, CPU", job_status.longest, "s"),
        (f"cycles {rest}", float(job_status.cycles), ""),
        (f"CPU {rest}", job_status.seconds, "s"),
        ("canary waits at most", float(max(one.cycles for one in job_status.waited)), "cycles"),
        ("canary waits at most, CPU", max(one.seconds for one in job_status.waited), "s"),
    )
    for what, value, unit in values:
        yield Figure(benchmark="hostile", name=f"{load.name}: {what}", value=value, unit=unit)
    yield Figure(
        benchmark="hostile",
        name=f"{load.name}: units of the longest cycle",
        value=job_status.units_of_longest / 1_000,
        unit="thousand",
    )
