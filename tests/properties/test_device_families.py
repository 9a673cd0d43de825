"""Devices of every family over any history: they are given as the product allows, never twice, and all come back.

Answers are lost, late or refusals; device plugins confirm late or never; chips break and recover; pods terminate slowly;
the daemon restarts. What holds is judged by the objects that the server has, and by sums that this module makes itself.
"""

from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import Struct

from engine.engine import Engine
from engine.pending_requests import bindings_and_evictions
from events.messages import (
    Accepted,
    AnnotateRequest,
    Answer,
    BindRequest,
    ObjectSeen,
    OutcomeUnknown,
    Rejected,
    Reply,
)
from events.normalize import JsonObject
from features.ascend.ascend_chips import ChipState
from features.ascend.chips import ids
from features.table import FEATURES
from projections import snapshot
from projections.device_family import JobShape
from projections.device_uses import uses_of
from projections.nodes import Node
from projections.pods import Pod
from tests.features.ascend.builders import T, base, npu_node, policy, report
from tests.features.ascend.test_virtual_npus import SIZES, TABLE, core_node
from tests.features.gpu_shares.test_gpu_shares import node as gpu_node
from tests.properties.reached import rarely_reached
from tests.scheduling.builders import ALL_FAMILIES, EngineHarness, gone, raw

REAL: Final = "huawei.com/AscendReal"
CORE: Final = "huawei.com/npu-core"
DELETED: Final = "2026-01-01T00:00:00Z"
NODES: Final = ("n0", "n1")
A310: Final = "huawei.com/Ascend310"
A310P: Final = "huawei.com/Ascend310P"
NPU: Final = "huawei.com/npu"
STATIC: Final = "huawei.com/Ascend910-2c"
WHOLE: Final = 1000


class Product(Struct, frozen=True):
    """Nodes of one product, and what pods ask of them."""

    name: str
    chips: int
    counts: tuple[int, ...]
    """Valid requests."""
    kind: str = ""
    """Label `accelerator-type` of the nodes, which pods select."""
    resource: str = T
    group: int = 0
    """Chips that are linked; a pod of at most so many gets them from one group. 0 for no such rule."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of nodes."""
    options: tuple[tuple[str, str], ...] = ()
    """Labels of pods."""
    plugin: tuple[tuple[str, str], ...] = ()
    """`init-params` of the policy."""

    @property
    def family(self) -> str:
        """The family whose devices these are."""
        return "ascend"

    @property
    def chip_resource(self) -> str:
        """The resource by which device plugins name the chips."""
        return self.resource

    @property
    def has_whole_chips(self) -> bool:
        """Whether pods get whole chips by name."""
        return True

    def node(self, name: str) -> bytes:
        """A node with all its chips."""
        notes = {"superPodID": "1"} if self.kind.endswith("super-pod") else {}
        return npu_node(
            name,
            self.chips,
            kind=self.kind,
            resource=self.resource,
            labels=dict(self.labels),
            annotations={"baseDeviceInfos": base(self.resource, self.chips), **notes},
        )

    def request(self, count: int) -> tuple[dict[str, str], dict[str, str]]:
        """Annotations and resources of a pod that asks for so much."""
        return {}, {self.resource: str(count)}

    def check(self, held: list[tuple[dict[str, str], int]]) -> None:
        """The pods of a node together, each with its annotations and request, have no chip twice."""
        names = [chip for one, _ in held for chip in one.get(REAL, one[self.resource]).split(",")]
        assert len(names) == len(set(names)), names

    def report(self, name: str, broken: frozenset[int], at: int) -> bytes:
        """What the device plugin says of a node."""
        resource = self.chip_resource
        prefix = resource.rpartition("/")[2]
        names = {one: f"{prefix}-{one}" for one in range(self.chips)}
        healthy = ",".join(text for one, text in names.items() if one not in broken)
        lists = {
            "Unhealthy": ",".join(names[one] for one in sorted(broken)),
            "NetworkUnhealthy": "",
            "Recovering": "",
        }
        return report(name, healthy, resource=resource, at=at, lists=lists)


class VirtualNpus(Product, frozen=True):
    """Parts of chips that are cut for the pods."""

    @property
    def family(self) -> str:
        return "ascend-vnpu"

    @property
    def chip_resource(self) -> str:
        return A310P

    @property
    def has_whole_chips(self) -> bool:
        return False

    def node(self, name: str) -> bytes:
        return core_node(name, self.chips)

    def check(self, held: list[tuple[dict[str, str], int]]) -> None:
        """Their parts need no more AI cores and AICPUs than each chip has."""
        check_parts([one[CORE] for one, _ in held], self.chips)


class StaticNpus(Product, frozen=True):
    """Parts of chips that were cut beforehand: they are counted, and the device plugin chooses."""

    @property
    def chip_resource(self) -> str:
        return T

    @property
    def has_whole_chips(self) -> bool:
        return False

    def node(self, name: str) -> bytes:
        labels = {"accelerator": "huawei-Ascend910"}
        return npu_node(name, self.chips, resource=self.resource, labels=labels, annotations={})

    def check(self, held: list[tuple[dict[str, str], int]]) -> None:
        """There are no more of them than were cut."""
        assert sum(count for _, count in held) <= self.chips


class SharedGpus(Product, frozen=True):
    """GPUs of which pods get thousandths, and GPUs that they get whole."""

    @property
    def family(self) -> str:
        return "gpu-shares"

    @property
    def has_whole_chips(self) -> bool:
        return False

    def node(self, name: str) -> bytes:
        return gpu_node(name, self.chips)

    def report(self, name: str, broken: frozenset[int], at: int) -> bytes:
        return self.node(name)

    def request(self, count: int) -> tuple[dict[str, str], dict[str, str]]:
        if count > WHOLE:
            return {}, {"nvidia.com/gpu": str(count // WHOLE)}
        return {"alibabacloud.com/gpu-milli": str(count)}, {}

    def check(self, held: list[tuple[dict[str, str], int]]) -> None:
        """No GPU is given beyond its thousandths, and none is given whole that others use."""
        used: Counter[str] = Counter()
        for one, count in held:
            numbers = one["alibabacloud.com/gpu-index"].split("-")
            assert len(numbers) == len(set(numbers)) == max(1, count // WHOLE), (numbers, count)
            for number in numbers:
                used[number] += min(count, WHOLE)
        assert max(used.values(), default=0) <= WHOLE, held
        assert all(0 <= int(number) < self.chips for number in used)


DUO: Final = (("infer-card-type", "card-300i-duo"),)
CARD: Final = ("npu-310-strategy", "card")
POLICY: Final = "huawei.com/schedule_policy"
PRODUCTS: Final = (
    Product("910", 8, (1, 2, 4, 8), group=4),
    Product("half 910", 4, (1, 2, 4), "half"),
    Product("910 card", 2, (1, 2), "card"),
    Product("910B", 8, (1, 2, 3, 4, 5, 6, 7, 8), "module-910b-8"),
    Product("Box16", 16, (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16), "module-910b-16", group=8),
    Product("910B card", 2, (1, 2), "card-910b-2"),
    Product("A300I A2", 2, (1, 2), "card-910b-infer"),
    Product("A3", 16, (1, 2, 4, 6, 8, 10, 12, 14, 16), "module-a3-16", group=2),
    Product("310 chip", 16, (1, 2, 4, 7), resource=A310),
    Product("310 card", 16, (1, 2, 3, 4), resource=A310, group=4, options=(CARD,)),
    Product("310P", 8, (1, 2, 5, 8), resource=A310P),
    Product("Duo chip", 8, (1, 2, 3, 8), resource=A310P, labels=DUO, options=(("duo", "true"),)),
    Product(
        "Duo card",
        8,
        (1, 2),
        resource=A310P,
        group=2,
        labels=DUO,
        options=(("duo", "true"), CARD),
    ),
    Product("mesh", 8, (1, 2, 3, 4, 8), resource=NPU, group=4, options=((POLICY, "chip4-node8"),)),
    Product(
        "mesh of 16",
        16,
        (1, 2, 3, 4, 5, 8, 12, 16),
        resource=NPU,
        group=4,
        options=((POLICY, "chip4-node16"),),
    ),
    Product("base", 8, (1, 3, 8), resource=NPU, options=((POLICY, "chip1-node8"),)),
    Product(
        "distributed Duo",
        8,
        (1, 2, 3, 5, 8),
        resource=A310P,
        labels=DUO,
        options=(("duo", "true"), ("distributed", "true")),
    ),
    Product("A3 SuperPoD", 16, (1, 2, 4, 8, 16), "module-a3-16-super-pod", group=2),
    Product("half A3 SuperPoD", 8, (1, 2, 4, 8), "module-a3-8-super-pod", group=2),
    VirtualNpus("virtual", 3, (1, 2, 4, 8, 16), resource=CORE),
    StaticNpus(
        "static virtual", 3, (1,), resource=STATIC, plugin=(("presetVirtualDevice", "true"),)
    ),
    SharedGpus("shared GPUs", 3, (200, 300, 500, 700, 1000, 2000), resource="nvidia.com/gpu"),
)


class DevicesOfNodes(RuleBasedStateMachine):
    """Two nodes of one product."""

    def __init__(self, product: Product, reached: Counter[str]) -> None:
        super().__init__()
        self.harness = EngineHarness(policy=policy(init=dict(product.plugin)))
        self.product = product
        self.reached = reached
        self.count = 0
        self.asked: dict[str, tuple[int, str]] = {}
        """Name of each pod that the server has to its request, and the level of a virtual NPU."""
        self.on: dict[str, str] = {}
        """Name of each pod that the server has bound to its node."""
        self.notes: dict[str, dict[str, str]] = {}
        """Annotations that were written on pods."""
        self.running: set[str] = set()
        self.leaving: set[str] = set()
        self.broken: dict[str, frozenset[int]] = dict.fromkeys(NODES, frozenset())
        self.reports = 0

    @initialize()
    def begin(self) -> None:
        """There are two nodes of the product, and their reports."""
        self._show_all()

    def _show_all(self) -> None:
        self.harness.show_all("Node", *(self.product.node(name) for name in NODES))
        self.harness.show_all("Pod", *(self._object(name) for name in self.asked))
        for name in NODES:
            self._report(name)
        self.harness.show_the_rest()

    def _report(self, node: str) -> None:
        self.reports += 1
        text = self.product.report(node, self.broken[node], self.reports)
        self.harness.see(ObjectSeen(text))

    def _object(self, name: str) -> bytes:
        count, level = self.asked[name]
        product = self.product
        annotations, resources = product.request(count)
        spec: JsonObject = {
            "schedulerName": "muster",
            "containers": [{"name": "main", "resources": {"requests": {**resources}}}],
        }
        if product.kind:
            spec["nodeSelector"] = {"accelerator-type": product.kind}
        status: JsonObject = {"phase": "Pending"}
        if name in self.on:
            spec["nodeName"] = self.on[name]
        if name in self.running:
            status = {"phase": "Running", "startTime": DELETED}
        metadata: JsonObject = {
            "labels": {**dict(product.options), **({"vnpu-level": level} if level else {})},
            "annotations": {**annotations, **self.notes.get(name, {})},
            **({"deletionTimestamp": DELETED} if name in self.leaving else {}),
        }
        return raw("Pod", name, metadata=metadata, spec=spec, status=status)

    @rule(
        data=st.data(),
        number=st.integers(1, 3),
        level=st.sampled_from(["", "low", "high"]),
        are_served=st.booleans(),
    )
    def create(self, data: st.DataObject, number: int, level: str, *, are_served: bool) -> None:
        """Pods come, and a cycle is held."""
        names = [f"p{self.count + one}" for one in range(number)]
        self.count += number
        for name in names:
            count = data.draw(st.sampled_from(self.product.counts))
            self.asked[name] = (count, level if self.product.resource == CORE else "")
        self.harness.see(*(ObjectSeen(self._object(name)) for name in names))
        self.harness.cycle(61)
        if are_served:
            self.serve()

    @rule()
    def serve(self) -> None:
        """The server does all that it is asked, and shows it; the device plugins confirm."""
        for _ in range(2 * len(NODES)):
            for request in list(bindings_and_evictions(self.harness.state)):
                if isinstance(request, AnnotateRequest | BindRequest):
                    reply = self._reply(request, "accepted")
                    self.harness.engine.report([Answer(request, reply)], self.harness.now_ns)
            self.running.update(self.on)
            self.harness.see(*(ObjectSeen(self._object(name)) for name in self.asked))
        self.harness.cycle(61)

    @rule()
    def cycle(self) -> None:
        """A cycle is held if one is due."""
        self.harness.cycle(61)

    @rule(data=st.data(), is_shown=st.booleans())
    def answer(self, data: st.DataObject, *, is_shown: bool) -> None:
        """The server answers all requests, or answers are lost; watch events may follow."""
        for request in list(bindings_and_evictions(self.harness.state)):
            if not isinstance(request, AnnotateRequest | BindRequest):
                continue
            what = data.draw(
                st.sampled_from(["accepted", "accepted", "refused", "lost", "lost but done"])
            )
            reply = self._reply(request, what)
            self.harness.engine.report([Answer(request, reply)], self.harness.now_ns)
            if is_shown and request.name in self.asked:
                self.harness.see(ObjectSeen(self._object(request.name)))

    def _reply(self, request: AnnotateRequest | BindRequest, what: str) -> Reply:
        """Carry out a request, or not, and return what the scheduler is told."""
        name = request.name
        if name not in self.asked:
            return Rejected("NotFound", "no such pod")
        if isinstance(request, BindRequest) and name in self.on:
            return Accepted()  # An earlier one was carried out, and its answer was lost.
        if what in ("accepted", "lost but done"):
            self.notes.setdefault(name, {}).update(request.annotations)
            if isinstance(request, BindRequest):
                self.on[name] = request.node
                self.reached["bound"] += 1
        if what == "accepted":
            return Accepted()
        return Rejected("Forbidden", "no") if what == "refused" else OutcomeUnknown("no answer")

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def observe(self, data: st.DataObject) -> None:
        """A watch event shows a pod as it is."""
        self.harness.see(ObjectSeen(self._object(data.draw(st.sampled_from(sorted(self.asked))))))

    @precondition(lambda self: self.on)
    @rule(data=st.data(), is_gone=st.booleans())
    def end(self, data: st.DataObject, *, is_gone: bool) -> None:
        """A pod begins to terminate, or is gone."""
        name = data.draw(st.sampled_from(sorted(self.on)))
        self.leaving.add(name)
        last = self._object(name)
        self.reached["gone" if is_gone else "terminating"] += 1
        if is_gone:
            self.leaving.discard(name)
            self.running.discard(name)
            del self.asked[name], self.on[name]
            self.notes.pop(name, None)
        self.harness.see(gone(last) if is_gone else ObjectSeen(last))

    @precondition(lambda self: self.on)
    @rule(data=st.data(), states_chips=st.booleans())
    def confirm(self, data: st.DataObject, *, states_chips: bool) -> None:
        """The device plugin gives a pod its chips, and the pod starts."""
        name = data.draw(st.sampled_from(sorted(self.on)))
        if states_chips and self.product.has_whole_chips:
            self.notes[name][REAL] = self.notes[name][self.product.resource]
        self.running.add(name)
        self.harness.see(ObjectSeen(self._object(name)))

    @rule(node=st.sampled_from(NODES), chips=st.frozensets(st.integers(0, 15), max_size=2))
    def break_chips(self, node: str, chips: frozenset[int]) -> None:
        """Chips of a node break, and others are whole again."""
        self.broken[node] = frozenset(one for one in chips if one < self.product.chips)
        self._report(node)

    @rule()
    def restart(self) -> None:
        """The daemon ends, and starts from a snapshot."""
        restored = snapshot.restore(snapshot.take(self.harness.state), FEATURES)
        self.harness.engine = Engine(restored, self.harness.engine.head)
        self.harness.start()
        self._show_all()

    def _placed(self) -> dict[str, list[Pod]]:
        """The pods that occupy each node in State."""
        found: dict[str, list[Pod]] = {name: [] for name in NODES}
        for pod in self.harness.state.cluster.pods.values():
            if pod.occupies and pod.node:
                found[pod.node].append(pod)
        return found

    @invariant()
    def no_chip_has_two_pods(self) -> None:
        """The server's pods together have no chip twice, nor more of a chip than it has."""
        assert self.harness.state.cluster.device_holders.errors == {}
        for node in NODES:
            names = [name for name, on in self.on.items() if on == node]
            self.product.check([(self.notes[name], self.asked[name][0]) for name in names])

    @invariant()
    def pods_have_what_they_asked_for(self) -> None:
        """So many chips, and linked ones where the product says so."""
        for pods in self._placed().values():
            for pod in pods:
                if not self.product.has_whole_chips:
                    continue
                numbers = [int(one.rpartition("-")[2]) for one in pod.devices]
                assert len(numbers) == pod.pod_class.amounts[self.product.resource], pod.key
                assert numbers == sorted(numbers)
                size = self.product.group
                if size and len(numbers) <= size:
                    assert len({one // size for one in numbers}) == 1, (pod.key, numbers)

    @invariant()
    def free_used_and_broken_chips_are_all(self) -> None:
        """Each chip of a node is free, broken, used, or kept for a pod that waits for others to end. What pods had is free
        when they are gone."""
        if isinstance(self.product, SharedGpus):
            self._check_free_gpus()
        if not self.product.has_whole_chips:
            return
        everything = set(range(self.product.chips))
        for name, pods in self._placed().items():
            node = self._node(name)
            if node is None:
                continue
            held = [*(pod.devices for pod in pods), *node.nominated_pods.values()]
            used = {int(one.rpartition("-")[2]) for devices in held for one in devices}
            free = set(ids(self._available(node).chips.free))
            assert free == everything - used - self.broken[name], (name, free, used)

    def _check_free_gpus(self) -> None:
        """What is free of each GPU and what pods have of it are all of it."""
        for name, pods in self._placed().items():
            node = self._node(name)
            if node is None or node.nominated_pods:
                continue
            left = dict.fromkeys(range(self.product.chips), WHOLE)
            for pod in pods:
                for device in pod.devices:
                    left[int(device.rpartition("-")[2])] -= min(
                        WHOLE, self.asked[pod.facts.name][0]
                    )
            family = ALL_FAMILIES[self.product.family]
            uses = uses_of(node, self.harness.state.cluster.pods, family)
            assert node.facts is not None
            available = family.available(node.facts, uses)
            assert {one.number: one.milli for one in available} == left  # type: ignore[attr-defined]  # free GPUs

    @invariant()
    def a_node_passes_if_and_only_if_it_has_a_pick_and_points(self) -> None:
        """For each valid request, as the chips are now. What is picked is free."""
        if isinstance(self.product, StaticNpus):
            return  # The device plugin picks them.
        cluster = self.harness.state.cluster
        classes = {pod.pod_class.index: pod.pod_class for pod in cluster.pods.values()}
        for name in NODES:
            node = self._node(name)
            for one in list(classes.values())[:4] if node is not None else ():
                assert node is not None
                family = ALL_FAMILIES[self.product.family]
                uses = uses_of(node, cluster.pods, family)
                available = family.available(node.facts, uses)  # type: ignore[arg-type]  # it has facts
                count = one.amounts.get(self.product.resource, 0)
                job = JobShape(tasks=1, devices=count, classes=(one,))
                asking = self.harness.engine.decider.session.rankings
                fit = family.fit(asking.device_request(one, None, job))
                assert fit is not None
                points, picked = fit.points(available), fit.pick(available)
                obstacle = fit.obstacle(available) if points < 0 else ""
                assert (points >= 0) == bool(picked) == (not obstacle), (points, picked, obstacle)
                if isinstance(available, ChipState) and picked:
                    numbers = {int(chip.rpartition("-")[2]) for chip in picked}
                    assert numbers <= set(ids(available.chips.free))

    def _node(self, name: str) -> Node | None:
        node = self.harness.state.cluster.nodes.nodes.get(name)
        return node if node is not None and node.facts is not None else None

    def _available(self, node: Node) -> ChipState:
        assert node.facts is not None
        pods = self.harness.state.cluster.pods
        family = ALL_FAMILIES["ascend"]
        found = family.available(node.facts, uses_of(node, pods, family))
        assert isinstance(found, ChipState)
        return found


def check_parts(parts: list[str], chips: int) -> None:
    """The parts of the chips of a node need no more AI cores and AICPUs than each chip has."""
    cores, cpus = Counter[int](), Counter[int]()
    for text in parts:
        chip, _, template = text.partition("-")
        if template:
            cut = TABLE["310P-8"][template]
            cores[int(chip)] += cut[0]
            cpus[int(chip)] += cut[1]
        else:
            cores.update(dict.fromkeys(map(int, text.split(",")), SIZES["310P-8"][0]))
    assert all(0 <= one < chips for one in cores)
    assert max(cores.values(), default=0) <= SIZES["310P-8"][0], parts
    assert max(cpus.values(), default=0) <= SIZES["310P-8"][1], parts


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_chips_of_every_product_are_accounted_for_in_any_history(product: Product) -> None:
    play(product, histories=8, steps=25)


@pytest.mark.soak
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_chips_of_every_product_are_accounted_for_in_many_histories(product: Product) -> None:
    play(product, histories=500, steps=50)


def play(product: Product, histories: int, steps: int) -> None:
    """Run the machine on nodes of a product; pods are bound there."""
    reached: Counter[str] = Counter()

    class OfProduct(DevicesOfNodes):
        def __init__(self) -> None:
            super().__init__(product, reached)

    profile = settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(OfProduct, settings=profile)
    assert not rarely_reached(reached, ("bound",), 5), reached
