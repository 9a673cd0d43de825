"""Virtual NPUs: pods get a part of an Ascend chip.

Dynamic ones (`huawei.com/npu-core`, a number of AI cores) are cut for the pod: the family picks the chip and the template.
Static ones (`huawei.com/Ascend310P-2c`) are cut beforehand, each template is a resource of its own, and the device
plugin chooses: they are counted. `presetVirtualDevice` of the plugin `volcano-npu` says which of both a cluster has.

A part is named `CHIP:TEMPLATE`, as `Ascend310P-1:vir04`; once the device plugin has said so, with its virtual group:
`Ascend310P-1:4c@3`.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from events.limits import quoted
from features.ascend.chips import (
    CHIPS_MAX,
    INVALID_ARGUMENT,
    INVALID_REQUEST,
    NO_PROBLEM,
    NONE_FIT,
    Problem,
)
from features.ascend.inventory import (
    ACCELERATOR,
    BASE_DEVICES,
    CHIP_NAME,
    DOMAIN,
    OF_ACCELERATOR,
    PREDICATE_TIME,
    REAL,
    SERVER_TYPE,
    card_model,
    chip_number,
    node_devices,
    read_base,
)
from features.ascend.job_options import option_problem
from features.ascend.pod_annotations import OPERATOR
from features.ascend.product_choice import WHOLE_CHIPS
from features.ascend.vnpu import (
    CutNode,
    CutPlacing,
    NoPlacing,
    cut_chip,
    place_cores,
)
from features.ascend.vnpu_templates import (
    DVPP,
    HIGH,
    KINDS,
    LEVEL,
    LOW,
    NO,
    NPU_CORE,
    NULL,
    YES,
    ChipKind,
    CoreRequest,
    Segment,
    kind_of,
    reported_part,
    template_named,
)
from features.ascend.volcano_npu import NpuArguments, npu_arguments
from projections.device_family import (
    Assigned,
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
    PlacedPod,
)
from projections.devices import NodeDevices, device_of, part_of
from projections.nodes import NodeFacts
from projections.pod_class import Amounts, PodClass

_STATIC: Final = re.compile(
    r"huawei\.com/(?:Ascend910-(?:[2-6]|8|10|12|16)c(?:\.[1-9]cpu)?(?:\.[0-9]{1,3}g)?"
    r"|Ascend310P-(?:1c|2c|4c|2c\.1cpu|4c\.3cpu|4c\.3cpu\.ndvpp|4c\.4cpu\.dvpp))"
)
"""Resources of virtual NPUs that are cut beforehand."""


_PART: Final = re.compile(r"[0-9a-z][0-9a-z._]{0,31}")
"""Name of a template in an annotation."""


class CutState(NamedTuple):
    """What is free of the chips of a node that can be cut."""

    prefix: str
    """Type of the chips: `Ascend310P` of `Ascend310P-3`."""
    problem: str
    """Why nothing can be given now."""
    node: CutNode | None


class VirtualNpus(DeviceFamily):
    """Parts of chips."""

    name = "ascend-vnpu"
    node_annotations = (BASE_DEVICES,)
    pod_options = (LEVEL, DVPP)
    group_options = pod_options
    pod_assignments = (REAL, NPU_CORE)
    reported_assignments = (REAL,)
    node_marks = (ACCELERATOR,)
    pod_resources = (DOMAIN,)
    writes_annotations = True
    confirmation = REAL
    unconfirming_label = OPERATOR
    rejections = ("NPUSegmentFailed", "NoNPUResource")

    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the chips of a node that can be cut, and the virtual NPUs that were cut beforehand."""
        labels, amounts = sources.labels, sources.amounts
        resources = OF_ACCELERATOR.get(labels.get(ACCELERATOR, ""), ())
        if not resources:
            return Discovered()
        model = card_model(resources[0], labels)
        cards = {
            one: f"{model}/{one.partition('-')[2]}"
            for one in sorted(amounts)
            if amounts[one] > 0 and _STATIC.fullmatch(one)
        }
        cores = amounts.get(NPU_CORE, 0)
        if cores <= 0:
            return Discovered(cards=cards)
        there = self._chips(resources[0], sources, cores)
        cards[NPU_CORE] = there.card
        return Discovered(cards=cards, devices={NPU_CORE: there})

    def _chips(self, resource: str, sources: DeviceSources, cores: int) -> NodeDevices:
        """Return the chips of which AI cores are counted."""
        kind = _kind_of(sources.labels)
        count = 0 if kind is None else cores // kind.cores
        whole = structs.replace(sources, capacity={resource: count}, allocatable={})
        base = read_base(sources.annotations.get(BASE_DEVICES, ""))
        found = node_devices(resource, whole, base, self.name)
        problem = found.problem
        if kind is None:
            problem = f"labels {SERVER_TYPE} and {CHIP_NAME} name no chip that can be cut"
        elif any(sources.allocatable.get(one, 0) > 0 for one in WHOLE_CHIPS):
            problem = f"node has whole chips and {NPU_CORE}: one of both can be given"
        sizes = () if kind is None else (("cores", kind.cores), ("cpus", kind.cpus))
        return structs.replace(
            found,
            resource=NPU_CORE,
            devices=tuple(structs.replace(one, capacity=sizes) for one in found.devices),
            card=f"{found.card}/npu-core",
            product="" if kind is None else kind.name,
            problem=problem,
        )

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Return 1 for AI cores, however many chips these are, and the number of virtual NPUs cut beforehand."""
        static = sum(amount for name, amount in request.items() if _STATIC.fullmatch(name))
        return static + (1 if request.get(NPU_CORE, 0) else 0)

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return what is free of each healthy chip."""
        there = node.devices_of(self.name)[0]
        kind = KINDS.get(there.product)
        if there.problem or kind is None or not there.devices:
            return CutState("", there.problem or "node has no chips that can be cut", None)
        cutting = [one for one in uses if one.pod_class.amounts.get(NPU_CORE)]
        if any(not one.devices for one in cutting):
            text = "the chip of a pod on the node is not known: the device plugin has not named it"
            return CutState("", text, None)
        parts: dict[int, list[Segment]] = {}
        whole: dict[int, bool] = {}
        unconfirmed: dict[str, None] = {}
        for use in cutting:
            for name in use.devices:
                number = chip_number(device_of(name))
                if number is None:
                    continue
                part = part_of(name)
                if not part:
                    whole[number] = whole.get(number, False) or not use.is_reported
                    continue
                segment = _segment(part, kind, is_reported=use.is_reported)
                parts.setdefault(number, []).append(segment)
                if not segment.is_reported:
                    unconfirmed[segment.template.name] = None
        chips = tuple(
            cut_chip(
                one.number,
                kind,
                parts.get(one.number, ()),
                is_whole=one.number in whole,
                is_unstable=whole.get(one.number, False),
            )
            for one in there.devices
            if one.is_healthy and not one.is_recovering
        )
        prefix = there.devices[0].name.rpartition("-")[0]
        return CutState(prefix, "", CutNode(kind, chips, tuple(sorted(unconfirmed))))

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Return how nodes serve a pod that asks for AI cores."""
        arguments = npu_arguments(request.plugins)
        cores = request.pod_class.amounts.get(NPU_CORE, 0)
        if arguments is None or not cores:
            return None
        return CutFit(_core_request(request), arguments.weight)

    def assigned(
        self, pod_class: PodClass, annotations: Mapping[str, str], node: NodeFacts
    ) -> Assigned | None:
        """Return the part of a chip of a pod, or its whole chips: as the device plugin states, else as was decided."""
        key = next((one for one in (REAL, NPU_CORE) if one in annotations), "")
        if not pod_class.amounts.get(NPU_CORE) or not key:
            return None
        there = node.devices_of(self.name)
        kind = KINDS.get(there[0].product) if there else None
        chips = {str(one.number): one.name for one in there[0].devices} if there else {}
        texts = annotations[key].split(",", CHIPS_MAX)
        names: list[str] = []
        for text in texts:
            name = _reported_name(text) if key == REAL else _decided_name(text, chips)
            if not name:
                problem = f"annotation {key}: {quoted(text)} is not a chip or a part of one"
                return Assigned(problem=problem)
            names.append(name)
        cores = 0 if kind is None else sum(_cores(one, kind) for one in names)
        if len({*names}) < len(names) or cores != pod_class.amounts[NPU_CORE]:
            problem = f"annotation {key} names {cores} AI cores, not {pod_class.amounts[NPU_CORE]}"
            return Assigned(problem=problem)
        return Assigned(tuple(names), is_reported=key == REAL)

    def annotations(self, placed: PlacedPod) -> dict[str, str]:
        """Return the number of the chip and the template, as `1-vir04`, or the numbers of whole chips."""
        chips = [
            (number, part_of(one))
            for one in placed.devices
            if (number := chip_number(device_of(one))) is not None
        ]
        if not chips:
            return {}
        parts = [f"{number}-{part}" if part else f"{number}" for number, part in sorted(chips)]
        return {NPU_CORE: ",".join(parts), PREDICATE_TIME: str(placed.assigned_ns)}

    def may_evict(self, request: DeviceRequest) -> bool:
        """Return False for parts of chips that are cut for the pod."""
        return npu_arguments(request.plugins) is None or NPU_CORE not in request.pod_class.amounts

    def job_problem(self, request: DeviceRequest) -> tuple[str, str]:
        """Return what is wrong with a request of virtual NPUs."""
        arguments = npu_arguments(request.plugins)
        if arguments is None or not request.pod_class.asks_for(self.name):
            return NO_PROBLEM
        problem = option_problem(self, request)
        return problem if problem.code else _problem(request, arguments)


@dataclass(frozen=True)
class CutFit(DeviceFit):
    """A node serves the pod if a chip can be cut for it, or enough chips are whole."""

    request: CoreRequest
    weight: int

    @property
    def reason(self) -> str:
        """Name the AI cores."""
        return f"node(s) had no chip with {self.request.cores} free AI cores for a virtual NPU"

    def points(self, available: Hashable) -> int:
        """Return the score: first nodes without a downgrade, then those with few free cores."""
        placing = self._placing(available)
        return NONE_FIT if isinstance(placing, NoPlacing) else placing.score * self.weight * 1000

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the part of a chip, or whole chips."""
        placing = self._placing(available)
        if isinstance(placing, NoPlacing):
            return ()
        assert isinstance(available, CutState)
        part = f":{placing.template}" if placing.template else ""
        return tuple([f"{available.prefix}-{number}{part}" for number in placing.chips])

    def obstacle(self, available: Hashable) -> str:
        """Return what is wrong with the node, or what it lacks."""
        placing = self._placing(available)
        return placing.message if isinstance(placing, NoPlacing) else ""

    def _placing(self, available: Hashable) -> CutPlacing | NoPlacing:
        assert isinstance(available, CutState)
        if available.node is None:
            return NoPlacing(available.problem)
        return place_cores(self.request, available.node)


def _problem(request: DeviceRequest, arguments: NpuArguments) -> Problem:
    pod_class = request.pod_class
    static = [(name, amount) for name, amount in pod_class.request if _STATIC.fullmatch(name)]
    cores = pod_class.amounts.get(NPU_CORE, 0)
    whole = [name for one in request.job.classes for name, _ in one.request if name in WHOLE_CHIPS]
    if whole:
        mine = NPU_CORE if cores else static[0][0]
        text = f"the job requests whole chips ({whole[0]}) and virtual NPUs ({mine})"
        return Problem(INVALID_REQUEST, text)
    if static and not arguments.is_static:
        text = "volcano configuration presetVirtualDevice false, only support dynamic vnpu"
        return Problem(INVALID_REQUEST, text)
    if cores and arguments.is_static:
        text = "volcano configuration presetVirtualDevice true, only support static vnpu"
        return Problem(INVALID_REQUEST, text)
    if static:
        if len(static) == 1 and static[0][1] == 1:
            return NO_PROBLEM
        asked = ", ".join(f"{name}: {amount}" for name, amount in static)
        text = f"{asked}: a vNPU request may only be 1, of one template"
        return Problem(INVALID_REQUEST, text)
    return _core_problem(request)


def _core_problem(request: DeviceRequest) -> Problem:
    """Return why no kind of chip serves a request of AI cores."""
    options = request.options
    for key, allowed in ((LEVEL, (LOW, HIGH)), (DVPP, (YES, NO, NULL))):
        value = options.get(key, allowed[0])
        if value not in allowed:
            text = f"label {key}: {value:.64} is not {' or '.join(allowed)}"
            return Problem(INVALID_ARGUMENT, text)
    asked = _core_request(request)
    found = [kind.problem(asked) for kind in KINDS.values()]
    if not all(found):
        return NO_PROBLEM
    # A kind that has the size says what else is wrong.
    size = f"err require number:{asked.cores}"
    return Problem(INVALID_REQUEST, next((one for one in found if one != size), size))


def _core_request(request: DeviceRequest) -> CoreRequest:
    options, cores = request.options, request.pod_class.amounts[NPU_CORE]
    return CoreRequest(cores, options.get(LEVEL, LOW), options.get(DVPP, NULL))


def _kind_of(labels: Mapping[str, str]) -> ChipKind | None:
    return kind_of(
        labels.get(ACCELERATOR, ""), labels.get(SERVER_TYPE, ""), labels.get(CHIP_NAME, "")
    )


def _reported_name(name: str) -> str:
    """Return the name of a chip, or of a part of one, that a device plugin states; "" if it cannot be read."""
    if chip_number(name) is not None:
        return name
    found = reported_part(name)
    return "" if found is None else f"{found[0]}:{found[1]}"


def _decided_name(text: str, chips: Mapping[str, str]) -> str:
    """Return the name of `1-vir04` or `1`, given the names of the chips by number; "" if it cannot be read."""
    number, dash, template = text.partition("-")
    if number not in chips or (dash and not _PART.fullmatch(template)):
        return ""
    return f"{chips[number]}:{template}" if dash else chips[number]


def _cores(name: str, kind: ChipKind) -> int:
    """Return the AI cores of a chip or of a part of one."""
    part = part_of(name).partition("@")[0]
    return template_named(part, kind).cores if part else kind.cores


def _segment(part: str, kind: ChipKind, *, is_reported: bool) -> Segment:
    """Return the part of a chip that the name of a device ends in; all of the chip if there is no such template."""
    text, _, group = part.partition("@")
    template = template_named(text, kind)
    return Segment(template, int(group) if group.isdecimal() else None, is_reported)
