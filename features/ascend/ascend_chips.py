"""Ascend chips: pods get whole chips by name, of the product that their job chooses.

Which chips a node has is read from the annotation `baseDeviceInfos` and from the report of its device plugin
(`ascend/inventory.py`), which product a job means from its labels, annotations and node selector
(`ascend/product_choice.py`); how chips are grouped, and what that is worth, is in one file for each product. The plugin
`volcano-npu` switches the family on; without it chips are counted and have no names.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from events.limits import quoted
from features.ascend.chips import (
    CHIPS_MAX,
    INVALID_ARGUMENT,
    INVALID_REQUEST,
    NO_PROBLEM,
    NONE_FIT,
    AscendOptions,
    ChipRequest,
    Chips,
    JobChips,
    Problem,
    Product,
    TaskChips,
    thousandths,
)
from features.ascend.duo_chip_310p import DuoChip310P
from features.ascend.inventory import (
    ACCELERATOR,
    BASE_DEVICES,
    DOMAIN,
    REAL,
    SERVER_INDEX,
    SUPER_POD,
    chip_number,
    label_faults,
    node_devices,
    read_base,
    resources_of,
)
from features.ascend.job_options import option_problem
from features.ascend.network_labels import (
    CLASS_LABEL,
    CLASSES,
    IS_HEALTHY,
    IS_SHARED,
)
from features.ascend.pod_annotations import (
    OPERATOR,
    is_of_super_pod,
    needs_rank,
    pod_annotations,
)
from features.ascend.product_choice import (
    ACCELERATOR_TYPE,
    DISTRIBUTED,
    DUO,
    DUO_CARD,
    INFER_CARD,
    POLICY,
    SP_BLOCK,
    STRATEGY_310,
    SUPER_POD_AFFINITY,
    TYPES,
    WHOLE_CHIPS,
    Demand,
    product_of,
)
from features.ascend.super_pod_a3 import SuperPodA3
from features.ascend.volcano_npu import NpuArguments, npu_arguments
from projections.device_family import (
    JOB_NAME,
    POD_NAME,
    Assigned,
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
    NodeLabel,
    PlacedPod,
)
from projections.devices import Device, NodeDevices
from projections.fault_options import IGNORE, STRATEGIES, SUB_HEALTHY_STRATEGY
from projections.identity_cache import IdentityCache
from projections.nodes import NodeFacts
from projections.plugin import PluginSet
from projections.pod_annotations import MIN_AVAILABLE
from projections.pod_class import Amounts, PodClass
from projections.pods import RANK

CUT_RESOURCES: Final = ("huawei.com/npu-core", "huawei.com/Ascend910-", "huawei.com/Ascend310P-")
"""Beginnings of the resources of virtual NPUs."""

PRODUCT_OPTIONS: Final = (POLICY, SP_BLOCK, STRATEGY_310, DUO, DISTRIBUTED)
"""Annotations and labels that decide the product of a job."""


class ChipState(NamedTuple):
    """What is free of the chips of a node, and what of the node decides which jobs it serves."""

    resource: str
    prefix: str
    """Type of the chips: `Ascend910` of `Ascend910-3`."""
    product: str
    """Label `accelerator-type`."""
    infer_card: str
    """Label `infer-card-type`."""
    is_in_super_pod: bool
    problem: str
    """Why no chip can be given now."""
    sub_health: str
    """Which parts of the node work with less health; empty if none does."""
    chips: Chips
    listed: int
    """Mask of the free chips that the device plugin lists as available."""
    idle: int
    """Number of allocatable chips that no pod requests."""

    def free(self, *, maintains_free_list: bool) -> int:
        """Return the mask of the free chips; of those that the device plugin lists if it keeps the list."""
        return self.chips.free if maintains_free_list else self.listed


class ChipMasks(NamedTuple):
    """The chips of a node, and those in each condition, as masks."""

    chips: dict[str, int]
    """Name to the mask of the chip alone."""
    prefix: str
    healthy: int
    """Neither faulty nor being reset."""
    listed: int
    network_unhealthy: int
    unhealthy: int
    """Number of faulty chips."""


KEPT_MAX: Final = 20_000
"""Maximum number of nodes whose masks are kept."""


def chip_masks(devices: tuple[Device, ...]) -> ChipMasks:
    """Return the masks of the chips of a node."""
    healthy = listed = network_unhealthy = unhealthy = 0
    for one in devices:
        chip = 1 << one.number
        if not one.is_healthy:
            unhealthy += 1
        elif not one.is_recovering:
            healthy |= chip
        if one.is_listed:
            listed |= chip
        if not one.is_network_healthy:
            network_unhealthy |= chip
    return ChipMasks(
        chips={one.name: 1 << one.number for one in devices},
        prefix=devices[0].name.rpartition("-")[0] if devices else "",
        healthy=healthy,
        listed=listed,
        network_unhealthy=network_unhealthy,
        unhealthy=unhealthy,
    )


class AscendChips(DeviceFamily):
    """Whole chips."""

    name = "ascend"
    node_annotations = (BASE_DEVICES, SUPER_POD, SERVER_INDEX)
    pod_options = (
        *PRODUCT_OPTIONS,
        *(MIN_AVAILABLE, CLASS_LABEL, SUPER_POD_AFFINITY, SUB_HEALTHY_STRATEGY),
    )
    group_options = pod_options
    pod_assignments = (REAL, RANK, IS_SHARED, IS_HEALTHY, *WHOLE_CHIPS)
    reported_assignments = (REAL,)
    node_marks = (ACCELERATOR,)
    pod_resources = (DOMAIN,)
    writes_annotations = True
    confirmation = REAL
    unconfirming_label = OPERATOR

    def __init__(self) -> None:
        self._masks = IdentityCache(chip_masks, KEPT_MAX)

    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the chips of a node with the label `accelerator`."""
        resources = resources_of(sources)
        if not resources:
            return Discovered()
        base = read_base(sources.annotations.get(BASE_DEVICES, ""))
        faults = label_faults(sources)
        if base.problem:
            faults.append(("InvalidBaseDevices", base.problem))
        found = {one: node_devices(one, sources, base, self.name) for one in resources}
        cards = {one: devices.card for one, devices in found.items()}
        return Discovered(cards=cards, devices=found, faults=tuple(faults))

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Return the number of whole chips."""
        return sum(request.get(one, 0) for one in WHOLE_CHIPS)

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return the free chips: healthy, not being reset, and in use by no pod."""
        there = node.devices_of(self.name)[0]
        known = self._masks.of(there.devices)
        listed = known.listed
        used = 0
        for use in uses:
            for name in use.devices:
                chip = known.chips.get(name)
                if chip is None:
                    number = chip_number(name)
                    chip = 0 if number is None else 1 << number
                used |= chip
            for name in use.stated:
                used |= known.chips.get(name, 0) & ~listed
        free = known.healthy & ~used & (-1 if there.are_all_known else listed)
        allocatable = node.allocatable.get(there.resource, 0)
        requested = sum(use.pod_class.amounts.get(there.resource, 0) for use in uses)
        return ChipState(
            resource=there.resource,
            prefix=known.prefix,
            product=there.product,
            infer_card=node.labels.get(INFER_CARD, ""),
            is_in_super_pod=there.super_pod_id >= 0,
            problem=there.problem,
            sub_health=_sub_health(there),
            chips=Chips(
                free=free,
                allocatable=allocatable,
                network_unhealthy=known.network_unhealthy,
                unhealthy=known.unhealthy,
                knows_network=there.knows_network,
            ),
            listed=free & listed,
            idle=allocatable - requested,
        )

    def admission_limit(
        self, plugins: PluginSet, resource: str
    ) -> Callable[[Hashable], int] | None:
        """Return the number of free chips; none where more are free than Kubernetes knows."""
        arguments = npu_arguments(plugins)
        if arguments is None or resource not in WHOLE_CHIPS:
            return None

        def offered(available: Hashable) -> int:
            assert isinstance(available, ChipState)
            if available.resource != resource or available.problem:
                return 0
            count = available.free(maintains_free_list=maintains).bit_count()
            return count if count <= available.idle else 0

        maintains = arguments.maintains_free_list
        return offered

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Return how nodes serve a pod that asks for whole chips."""
        arguments = npu_arguments(request.plugins)
        if arguments is None or not request.pod_class.asks_for(self.name):
            return None
        demand = _demand(request, request.pod_class, arguments)
        choice = product_of(demand, _options(arguments))
        if choice.product is None:
            return NoProduct(choice.problem.message)
        product = choice.product
        is_super_pod = isinstance(product, SuperPodA3)
        return ChipFit(
            product=product,
            request=ChipRequest(
                count=request.pod_class.amounts[demand.resource],
                is_distributed=request.job.is_distributed,
                resource=demand.resource,
                total=request.job.devices if is_super_pod else 0,
            ),
            weight=arguments.weight,
            maintains_free_list=arguments.maintains_free_list,
            is_any_type=POLICY in demand.options,
            strategy=_strategy(demand.options.get(SUB_HEALTHY_STRATEGY, IGNORE)),
        )

    def job_problem(self, request: DeviceRequest) -> tuple[str, str]:
        """Return what is wrong with the request of a pod, or with those of its job together."""
        arguments = npu_arguments(request.plugins)
        if arguments is None or not request.pod_class.asks_for(self.name):
            return NO_PROBLEM
        return self._problem(request, arguments)

    def assigned(
        self, pod_class: PodClass, annotations: Mapping[str, str], node: NodeFacts
    ) -> Assigned | None:
        """Return the chips of a pod: those that the device plugin states, else those that were decided."""
        resource = next((name for name, _ in pod_class.request if name in WHOLE_CHIPS), "")
        key = next((one for one in (REAL, resource) if one in annotations), "")
        if not key:
            return None
        count = pod_class.amounts.get(resource, 0)
        names = annotations[key].split(",", CHIPS_MAX)
        wrong = next((one for one in names if chip_number(one) is None), None)
        if wrong is not None:
            return Assigned(problem=f"annotation {key}: {quoted(wrong)} is not the name of a chip")
        if len({*names}) < len(names) or len(names) != count:
            return Assigned(problem=f"annotation {key} names {len(names)} chips, not {count}")
        return Assigned(tuple(names), is_reported=key == REAL)

    def annotations(self, placed: PlacedPod) -> dict[str, str]:
        """Return the chips of a pod under its resource, the time by which the device plugin serves pods, whether the job
        has other pods with chips, and more where nothing is left to the device plugin."""
        return pod_annotations(placed)

    def may_evict(self, request: DeviceRequest) -> bool:
        """Return whether the job is placed neither in SuperPoDs nor by leaf switches."""
        if npu_arguments(request.plugins) is None:
            return True
        options = request.options
        is_by_switches = options.get(CLASS_LABEL) in CLASSES
        return not (is_by_switches or is_of_super_pod(request.pod_class, options))

    def needs_rank(self, pod_class: PodClass, owner: str, options: Mapping[str, str]) -> bool:
        """Return whether a rank is written on a pod."""
        return pod_class.asks_for(self.name) and needs_rank(pod_class, owner, options)

    def _problem(self, request: DeviceRequest, arguments: NpuArguments) -> Problem:
        asking = [name for name, _ in request.pod_class.request if name in WHOLE_CHIPS]
        if len(asking) > 1:
            text = f"the pod requests {' and '.join(asking)}: chips of one resource can be given"
            return Problem(INVALID_REQUEST, text)
        classes = [one for one in request.job.classes if one.asks_for(self.name)]
        cut = [name for one in request.job.classes for name, _ in one.request if _is_cut(name)]
        if cut:
            text = f"the job requests whole chips ({asking[0]}) and virtual NPUs ({cut[0]})"
            return Problem(INVALID_REQUEST, text)
        problem = option_problem(self, request)
        if problem.code:
            return problem
        demand = _demand(request, request.pod_class, arguments)
        for one in classes:
            if difference := _difference(demand, _demand(request, one, arguments)):
                return Problem(INVALID_ARGUMENT, difference)
        choice = product_of(demand, _options(arguments))
        if choice.product is None:
            return choice.problem
        counts = sorted({one.amounts[demand.resource] for one in classes})
        job = JobChips(
            tasks=tuple([TaskChips(count, POD_NAME.format(count)) for count in counts]),
            task_count=request.job.tasks,
            total=request.job.devices,
            name=JOB_NAME,
        )
        return choice.product.problem(job)


@dataclass(frozen=True)
class NoProduct(DeviceFit):
    """No node serves a job of no product."""

    message: str

    @property
    def reason(self) -> str:
        """Say what is wrong with the job."""
        return f"node(s) could not be used: {self.message}"

    def points(self, available: Hashable) -> int:
        """Return that no node fits."""
        return NONE_FIT

    def obstacle(self, available: Hashable) -> str:
        """Say what is wrong with the job."""
        return self.message


@dataclass(frozen=True)
class ChipFit(DeviceFit):
    """A node serves a pod if it is of the product and has free chips in the right groups."""

    product: Product
    request: ChipRequest
    weight: int
    maintains_free_list: bool
    is_any_type: bool
    """Whether the job names its product by a policy, so that nodes of a type that is not known serve it too."""
    strategy: str = IGNORE
    """What the job does on nodes with less health; with any other value than `ignore` it uses none of them."""

    @property
    def node_label(self) -> NodeLabel | None:
        """Return the label of the nodes of the product."""
        types = self.product.node_types
        return NodeLabel(self.request.resource, ACCELERATOR_TYPE, types) if types else None

    @property
    def reason(self) -> str:
        """Name the chips and the product."""
        return (
            f"node(s) had no {self.request.count} free chips of {self.request.resource} "
            f"that a job of {self.product.title} can use"
        )

    def points(self, available: Hashable) -> int:
        """Return the score of the product, and a little more for fewer free chips."""
        state = self._state(available)
        if self._obstacle(state):
            return NONE_FIT
        chips = self._chips(state)
        score = self.product.score(self.request, chips)
        if state.sub_health and score > 0:
            score -= 1
        return thousandths(score, chips, self.weight)

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the names of the chips, ascending by number."""
        state = self._state(available)
        if self._obstacle(state):
            return ()
        picked = self.product.pick(self.request, self._chips(state))
        return tuple([f"{state.prefix}-{number}" for number in picked])

    def obstacle(self, available: Hashable) -> str:
        """Return what is wrong with the node, or with its free chips."""
        state = self._state(available)
        return self._obstacle(state) or self.product.obstacle(self.request, self._chips(state))

    @staticmethod
    def _state(available: Hashable) -> ChipState:
        assert isinstance(available, ChipState)
        return available

    def _chips(self, state: ChipState) -> Chips:
        free = state.free(maintains_free_list=self.maintains_free_list)
        return state.chips._replace(free=free)

    def _obstacle(self, state: ChipState) -> str:
        """Return why the node serves no job of this product, or none now, whatever chips are free."""
        resource, count = self.request.resource, self.request.count
        if state.resource != resource:
            return f"not have {resource}: the node has {state.resource}"
        if problem := self._type_problem(state):
            return problem
        if state.problem:
            return state.problem
        if state.sub_health and self.strategy != IGNORE:
            return (
                f"NodePredicate failed, {state.sub_health}, but sub-healthy strategy is "
                f"{self.strategy}"
            )
        free = self._chips(state).free.bit_count()
        if free > max(state.idle, 0):
            return f"{resource} not stable:device-info is {free} but k8s is {state.idle}"
        if state.idle < count:
            return (
                f"NPUResourceShortage: {resource}, task requires {count} NPU cards but node idle "
                f"is {state.idle}"
            )
        return ""

    def _type_problem(self, state: ChipState) -> str:
        """Return why the node is not of the product."""
        types = self.product.node_types
        own = _known_type(state.product)
        if types and own not in types and (own is not None or not self.is_any_type):
            has = state.product or "absent"
            return f"node label {ACCELERATOR_TYPE} is {has}, and the job needs {types[0]}"
        if isinstance(self.product, DuoChip310P) and state.infer_card != DUO_CARD:
            return f"judgeNodeLabel node card label not right, is {state.infer_card}"
        if isinstance(self.product, SuperPodA3) and not state.is_in_super_pod:
            return "node is not super-pod node or superPodID is not set"
        return ""


def _sub_health(there: NodeDevices) -> str:
    if not there.is_sub_healthy:
        return ""
    of_cards = "true" if there.has_sub_healthy_devices else "false"
    of_switches = "true" if there.has_sub_healthy_switches else "false"
    return f"cardSubHealthy={of_cards} and switchSubHealthy={of_switches}"


def _strategy(value: str) -> str:
    return value if value in STRATEGIES else IGNORE


def _known_type(product: str) -> str | None:
    """Return the label `accelerator-type` of a node; `card` for the cards that have no name of their own, and None if it
    names no product."""
    if product in TYPES or not product:
        return product
    return "card" if "card" in product else None


def _demand(request: DeviceRequest, pod_class: PodClass, arguments: NpuArguments) -> Demand:
    """Return what of a pod of a job decides its product."""
    resource = next(name for name, _ in pod_class.request if name in WHOLE_CHIPS)
    wanted = dict(pod_class.selector.pairs).get(ACCELERATOR_TYPE)
    options = {**dict(request.job.options), **dict(pod_class.device_options)}
    return Demand(resource, options, wanted, arguments.super_pod_size)


def _difference(one: Demand, other: Demand) -> str:
    """Return in what two tasks of a job choose different products; "" if they choose the same."""
    pairs = [
        ("resource", one.resource, other.resource),
        (ACCELERATOR_TYPE, one.accelerator_type, other.accelerator_type),
        *((key, one.options.get(key), other.options.get(key)) for key in PRODUCT_OPTIONS),
    ]
    unlike = [
        f"{key}: {_shown(left)} and {_shown(right)}" for key, left, right in pairs if left != right
    ]
    return f"tasks of the job name different products: {', '.join(unlike)}" if unlike else ""


def _shown(value: str | None) -> str:
    return "none" if value is None else f"{value:.64}"


def _options(arguments: NpuArguments) -> AscendOptions:
    return AscendOptions(
        strict_8n=arguments.strict_8n,
        strict_pairs=arguments.strict_pairs,
        linear=arguments.scoring == "linear",
    )


def _is_cut(resource: str) -> bool:
    return resource.startswith(CUT_RESOURCES)
