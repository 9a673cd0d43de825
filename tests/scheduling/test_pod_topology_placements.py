"""Placements over random clusters, checked against the rules of the Kubernetes pages on affinity and spread.

The check goes node by node and pod by pod, without the counts and classes that the code keeps.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from events.messages import DeletionSeen, ObjectSeen
from events.normalize import JsonObject
from tests.example_count import examples
from tests.scheduling.builders import EngineHarness, raw

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Term(Struct):
    """Pods of an app (any, where none is named), in the pod's own namespace or in `other`."""

    key: str
    app: str
    is_of_other: bool = False

    def manifest(self) -> JsonObject:
        """As a manifest has it."""
        selector: JsonObject = {"matchLabels": {"app": self.app}} if self.app else {}
        named: JsonObject = {"namespaces": ["other"]} if self.is_of_other else {}
        return {"topologyKey": self.key, "labelSelector": selector, **named}


class Rule(Struct):
    """A spread over domains."""

    term: Term
    skew: int
    domains: int
    honors: bool


class APod(Struct):
    """A pod as the judge sees it."""

    name: str
    namespace: str
    app: str
    near: list[Term]
    apart: list[Term]
    rules: list[Rule]
    port: int
    pool: str
    node: str = ""

    def shown(self) -> bytes:
        """Its object."""
        container: JsonObject = {"name": "main", "resources": {"requests": {"cpu": "1m"}}}
        if self.port:
            container["ports"] = [{"hostPort": self.port}]
        spec: JsonObject = {
            "schedulerName": "muster",
            "containers": [container],
            "affinity": {
                "podAffinity": {REQUIRED: [one.manifest() for one in self.near]},
                "podAntiAffinity": {REQUIRED: [one.manifest() for one in self.apart]},
            },
            "topologySpreadConstraints": [
                {
                    **one.term.manifest(),
                    "maxSkew": one.skew,
                    "minDomains": one.domains,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "nodeAffinityPolicy": "Honor" if one.honors else "Ignore",
                }
                for one in self.rules
            ],
            **({"nodeSelector": {"pool": self.pool}} if self.pool else {}),
            **({"nodeName": self.node} if self.node else {}),
        }
        meta: JsonObject = {"namespace": self.namespace, "labels": {"app": self.app}}
        phase = "Running" if self.node else "Pending"
        return raw("Pod", self.name, metadata=meta, spec=spec, status={"phase": phase})


Nodes: TypeAlias = dict[str, dict[str, str]]
"""Name to labels."""


def may_go(pod: APod, node: str, nodes: Nodes, pods: list[APod]) -> bool:
    """Whether the pod may stand on the node beside all others that have one."""
    there = [one for one in pods if one.node and one is not pod]
    if not _is_selected(pod, nodes[node]):
        return False
    if pod.port and any(one.port == pod.port for one in there if one.node == node):
        return False
    return (
        _is_near(pod, node, nodes, there)
        and _is_apart(pod, node, nodes, there)
        and all(_is_spread(pod, rule, node, nodes, there) for rule in pod.rules)
    )


def _is_selected(pod: APod, labels: dict[str, str]) -> bool:
    return not pod.pool or labels.get("pool") == pod.pool


def _means(owner: APod, term: Term, other: APod) -> bool:
    namespace = "other" if term.is_of_other else owner.namespace
    return other.namespace == namespace and term.app in ("", other.app)


def _same(key: str, nodes: Nodes, one: str, other: str) -> bool:
    value = nodes[one].get(key)
    return value is not None and nodes[other].get(key) == value


def _is_near(pod: APod, node: str, nodes: Nodes, there: list[APod]) -> bool:
    wanted = [one for one in there if all(_means(pod, term, one) for term in pod.near)]
    has_any = any(term.key in nodes[one.node] for one in wanted for term in pod.near)
    if not has_any and all(_means(pod, term, pod) for term in pod.near):
        return all(term.key in nodes[node] for term in pod.near)
    return all(any(_same(term.key, nodes, node, one.node) for one in wanted) for term in pod.near)


def _is_apart(pod: APod, node: str, nodes: Nodes, there: list[APod]) -> bool:
    pairs = [pair for one in there for pair in ((pod, one), (one, pod))]
    return not any(
        _means(owner, term, other) and _same(term.key, nodes, node, (other.node or owner.node))
        for owner, other in pairs
        for term in owner.apart
    )


def _is_spread(pod: APod, rule: Rule, node: str, nodes: Nodes, there: list[APod]) -> bool:
    key = rule.term.key
    if key not in nodes[node]:
        return False
    counted = {
        name: labels[key]
        for name, labels in nodes.items()
        if key in labels and (not rule.honors or _is_selected(pod, labels))
    }
    domains = dict.fromkeys(counted.values(), 0)
    for one in there:
        is_alike = one.namespace == pod.namespace and rule.term.app in ("", one.app)
        if one.node in counted and is_alike:
            domains[counted[one.node]] += 1
    least = min(domains.values(), default=0) if len(domains) >= rule.domains else 0
    own = rule.term.app in ("", pod.app)
    return domains.get(nodes[node][key], 0) + own - least <= rule.skew


_apps = st.sampled_from(["x", "y"])
_terms = st.builds(
    Term,
    key=st.sampled_from(["zone", "host"]),
    app=st.sampled_from(["x", "y", "x", "y", ""]),
    is_of_other=st.sampled_from([False, False, True]),
)
_rules = st.builds(
    Rule,
    term=st.builds(Term, key=st.sampled_from(["zone", "zone", "host"]), app=_apps),
    skew=st.integers(1, 2),
    domains=st.integers(1, 3),
    honors=st.booleans(),
)


@st.composite
def _pods(draw: st.DrawFn, name: str = "") -> APod:
    """A pod with at most one kind of wish."""
    near: list[Term] = []
    apart: list[Term] = []
    rules: list[Rule] = []
    port = 0
    match draw(st.integers(0, 6)):
        case 0 | 1:
            near = draw(st.lists(_terms, min_size=1, max_size=2))
        case 2 | 3:
            apart = [draw(_terms)]
        case 4:
            rules = [draw(_rules)]
        case 5:
            port = draw(st.integers(1, 2))
        case _:
            pass
    pool = draw(st.sampled_from(["", "", "", "p"]))
    namespace = draw(st.sampled_from(["default", "other"]))
    return APod(name, namespace, draw(_apps), near, apart, rules, port, pool)


@st.composite
def _nodes(draw: st.DrawFn) -> Nodes:
    nodes: Nodes = {}
    for index in range(draw(st.integers(1, 4))):
        labels = {"host": f"n{index}"}
        if zone := draw(st.sampled_from(["a", "b", "c", ""])):
            labels["zone"] = zone
        if draw(st.booleans()):
            labels["pool"] = "p"
        nodes[f"n{index}"] = labels
    return nodes


def _node(name: str, labels: dict[str, str]) -> bytes:
    allocatable: JsonObject = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return raw("Node", name, metadata={"labels": labels}, status={"allocatable": allocatable})


class Judged:
    """A cluster under a scheduler, and all that it does judged."""

    def __init__(self, nodes: Nodes, pods: list[APod]) -> None:
        self.nodes = nodes
        self.pods = pods
        self.told = EngineHarness()
        self.told.show_all("Node", *(_node(name, labels) for name, labels in nodes.items()))
        self.told.show_all("Pod", *(pod.shown() for pod in pods))
        self.told.show_the_rest()

    def settle(self) -> None:
        """Run cycles until no pod is bound any more; then no pending pod fits a node."""
        for _ in range(20):
            self.told.cycle()
            bound = [self._judge(name, node) for name, node in self._bound()]
            if not bound:
                break
            self.told.see(*(ObjectSeen(pod.shown()) for pod in bound))
        for pod in self.pods:
            could = [one for one in self.nodes if may_go(pod, one, self.nodes, self.pods)]
            assert pod.node or not could, f"{pod.name} waits although {could} would take it"

    def lose(self, pod: APod) -> None:
        """A pod is deleted."""
        self.pods.remove(pod)
        self.told.see(DeletionSeen(pod.shown()))

    def gain(self, pod: APod) -> None:
        """A pod comes."""
        self.pods.append(pod)
        self.told.see(ObjectSeen(pod.shown()))

    def move(self, name: str, zone: str) -> None:
        """A node is put into another zone."""
        self.nodes[name]["zone"] = zone
        self.told.see(ObjectSeen(_node(name, self.nodes[name])))

    def _bound(self) -> Iterator[tuple[str, str]]:
        """Name and node of each pod bound since this was last asked, in order."""
        records, self.told.records = self.told.records, []
        for one in records:
            if one.kind.startswith("gang_bind_decided"):
                for placement in msgspec.json.decode(one.body)["placements"]:
                    yield placement["pod"].partition("/")[2], placement["node"]

    def _judge(self, name: str, node: str) -> APod:
        pod = next(one for one in self.pods if one.name == name)
        assert may_go(pod, node, self.nodes, self.pods), f"{name} may not stand on {node}"
        pod.node = node
        return pod


@settings(max_examples=examples(150), deadline=None)
@given(nodes=_nodes(), pods=st.lists(_pods(), min_size=1, max_size=8), data=st.data())
def test_every_pod_that_a_node_admits_is_placed_and_no_other(
    nodes: Nodes, pods: list[APod], data: st.DataObject
) -> None:
    named = [structs.replace(pod, name=f"p{index}") for index, pod in enumerate(pods)]
    for pod in named[: data.draw(st.integers(0, 3))]:
        pod.node = data.draw(st.sampled_from(sorted(nodes)))
    judged = Judged(nodes, named)
    judged.settle()
    for step in range(4):
        match data.draw(st.sampled_from(["pod goes", "node moves", "pod comes"])):
            case "pod goes" if judged.pods:
                judged.lose(data.draw(st.sampled_from(judged.pods)))
            case "node moves":
                name = data.draw(st.sampled_from(sorted(nodes)))
                judged.move(name, data.draw(st.sampled_from(["a", "b", "c"])))
            case _:
                judged.gain(data.draw(_pods(name=f"q{step}")))
        judged.settle()


def test_anti_affinity_holds_once_a_node_gets_the_topology_key() -> None:
    term = Term("zone", "y")
    owner = APod("p0", "default", "y", [], [term], [], 0, "")
    other = APod("p1", "default", "y", [term], [], [], 0, "")
    judged = Judged({"n0": {"host": "n0"}}, [owner, other])
    judged.settle()
    assert (owner.node, other.node) == ("n0", "")
    judged.move("n0", "a")
    judged.settle()
    assert other.node == ""
