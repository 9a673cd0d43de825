"""GPUs that several pods share (`docs/gpu-sharing.md`): each has 1,000 thousandths and its memory.

A node takes part if HAMi's device plugin lists its GPUs in an annotation, or if it has the label `muster.sh/gpu-sharing`.
On such a node every pod gets its GPUs by name, also one that asks for whole GPUs by `nvidia.com/gpu`: so whole GPUs and
shares coexist, and a GPU of which a part is used is never given whole. On other nodes nothing changes.

What is asked for in thousandths counts as the resource `muster.sh/gpu-milli`, what is asked for in memory as
`muster.sh/gpu-memory`, in MiB. Queues are charged thousandths for both, under the name `MODEL/milli`.

The GPUs of a pod are written on it before it is bound: for the device plugin of HAMi in the annotations that it reads, else
in `alibabacloud.com/gpu-index`. Both are read from pods that other schedulers placed.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from events.amount_text import fraction_text
from events.duration import SECOND
from events.limits import name_problem, quoted, whole_number
from features.gpu_shares.free_gpus import (
    SLOTS_MAX,
    FreeGpu,
    FreeGpus,
    place,
    share_of,
    take,
)
from features.gpu_shares.share_request import (
    ANNOTATIONS,
    CARD_MODEL,
    CONTAINER_RESOURCES,
    COUNT_MAX,
    FAMILY,
    GPU,
    OPTIONS,
    RESOURCES,
    WHOLE,
    Requests,
    ShareRequest,
    request_of,
    request_text,
    requests_of,
)
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
from projections.devices import Device, NodeDevices, device_of, part_of
from projections.nodes import NodeFacts
from projections.pod_class import Amounts, PodClass
from scheduling.device_points import DeviceOrder

SHARING: Final = "muster.sh/gpu-sharing"
"""Label of nodes whose GPUs are shared: `true`."""

REGISTERED: Final = "hami.io/node-nvidia-register"
"""Annotation of nodes: their GPUs, as HAMi's device plugin lists them."""

GPU_INDEX: Final = "alibabacloud.com/gpu-index"
"""Annotation of pods: the numbers of their GPUs, as `2-3`."""

ASSUME_TIME: Final = "alibabacloud.com/assume-time"
"""Annotation of pods: when they got their GPUs, in ns since the epoch."""

HAMI_NODE: Final = "hami.io/vgpu-node"
HAMI_TIME: Final = "hami.io/vgpu-time"
HAMI_TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
HAMI_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
HAMI_BIND_TIME: Final = "hami.io/bind-time"
HAMI_BIND_PHASE: Final = "hami.io/bind-phase"
HAMI_TYPE: Final = "NVIDIA"

PRODUCT: Final = "nvidia.com/gpu.product"
MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
MILLI: Final = "muster.sh/gpu-milli"
MEMORY: Final = "muster.sh/gpu-memory"

_FULL: Final = 100_000
_SLOTS: Final = "slots"
_MEMORY: Final = "memory"
_REGISTERED_FIELDS: Final = (7, 9)


class GpuShares(DeviceFamily):
    """GPUs of which pods get thousandths and memory."""

    name = FAMILY
    node_annotations: ClassVar[tuple[str, ...]] = (REGISTERED,)
    pod_options: ClassVar[tuple[str, ...]] = OPTIONS
    pod_assignments: ClassVar[tuple[str, ...]] = (GPU_INDEX, HAMI_ALLOCATED)
    annotated_requests: ClassVar[tuple[str, ...]] = ANNOTATIONS
    container_resources: ClassVar[tuple[str, ...]] = CONTAINER_RESOURCES
    counting_resources: ClassVar[tuple[str, ...]] = (GPU,)
    node_marks: ClassVar[tuple[str, ...]] = (REGISTERED, SHARING)
    pod_resources: ClassVar[tuple[str, ...]] = (*CONTAINER_RESOURCES, MILLI, MEMORY)
    writes_annotations = True
    confirmation = HAMI_BIND_PHASE
    confirmed_value = "success"

    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the GPUs of a node that takes part."""
        faults: list[tuple[str, str]] = []
        product = sources.labels.get(PRODUCT) or sources.labels.get(CARD_MODEL, "")
        if REGISTERED in sources.annotations:
            found = _registered(sources.annotations[REGISTERED])
            if isinstance(found, str):
                return Discovered(faults=(("InvalidGpuSharing", f"{REGISTERED}: {found}"),))
            devices, listed = found
            product = product or listed
        elif sources.labels.get(SHARING) == "true":
            count = sources.allocatable.get(GPU, 0)
            if not 0 < count <= COUNT_MAX:
                if count:
                    text = f"{GPU}: {count} GPUs are more than {COUNT_MAX}"
                    faults.append(("InvalidGpuSharing", text))
                return Discovered(faults=tuple(faults))
            memory, problem = _memory_label(sources.labels)
            faults += [("InvalidGpuSharing", problem)] if problem else []
            capacity = ((_MEMORY, memory), (_SLOTS, SLOTS_MAX))
            devices = [Device(f"gpu-{one}", one, capacity=capacity) for one in range(count)]
        else:
            return Discovered()
        is_named = bool(product) and not name_problem(product)
        healthy = [one for one in devices if one.is_healthy]
        sizes = [dict(one.capacity)[_MEMORY] for one in healthy]
        total, least = sum(sizes), min(sizes, default=0)
        count = min(len(healthy), sources.allocatable.get(GPU, 0))
        there = NodeDevices(
            self.name,
            GPU,
            tuple(devices),
            card=product if is_named else "",
            product=sources.labels.get(CARD_MODEL, ""),
        )
        return Discovered(
            cards={MILLI: f"{product}/milli"} if is_named else {},
            devices={GPU: there},
            faults=tuple(faults),
            amounts={MEMORY: total, MILLI: WHOLE * len(healthy), GPU: count},
            converted={MEMORY: (f"{product}/milli", least)} if is_named and least else {},
        )

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Return how many GPUs a pod shares. Pods that ask for whole GPUs by their number do so on any node."""
        found = _requests(request, options)
        if isinstance(found, str):
            return 1
        return sum(one.count for one in found) if _is_stated(request, options) else 0

    def counted(
        self, request: Amounts, options: Mapping[str, str]
    ) -> tuple[Amounts, Mapping[str, str]]:
        """Count thousandths and memory instead of GPUs; what the pod stated becomes an option."""
        if not _is_stated(request, options):
            return request, options
        rest = {one: amount for one, amount in request.items() if one not in CONTAINER_RESOURCES}
        found = _requests(request, options)
        for one in () if isinstance(found, str) else found:
            name = MILLI if one.milli or not one.memory else MEMORY
            amount = one.milli or one.memory or one.memory_milli
            rest[name] = rest.get(name, 0) + amount * one.count
        return rest, _stated(request, options)

    def assigned(
        self, pod_class: PodClass, annotations: Mapping[str, str], node: NodeFacts
    ) -> Assigned | None:
        """Return the GPUs of a pod, as a scheduler has written them on it."""
        requests = request_of(pod_class)
        if isinstance(requests, str) or not requests or GPU not in node.devices:
            return None
        devices = node.devices[GPU].devices
        if HAMI_ALLOCATED in annotations and _is_for_hami(pod_class, node):
            key, given = HAMI_ALLOCATED, _listed_by_hami(annotations[HAMI_ALLOCATED], devices)
            numbers = [given.get(int(one.container or "0"), ()) for one in requests]
        elif GPU_INDEX in annotations:
            key, texts = GPU_INDEX, annotations[GPU_INDEX].split("-", COUNT_MAX)
            found = [_number(one) for one in texts]
            rest = [-1 if one is None else one for one in found]
            numbers = []
            for one in requests:
                numbers.append(tuple(rest[: one.count]))
                rest = rest[one.count :]
            if rest:
                numbers = [()]
        else:
            return None
        is_right = [len(found) for found in numbers] == [one.count for one in requests]
        if not is_right or any(one < 0 for found in numbers for one in found):
            problem = f"annotation {key}: {quoted(annotations[key])} does not name"
            return Assigned(problem=f"{problem} {request_text(requests)}")
        return Assigned(_names(requests, numbers))

    def waits_for_confirmation(self, pod_class: PodClass, node: NodeFacts) -> bool:
        """Return whether the device plugin of HAMi gives the pod its GPUs: it looks for the one pod of the node that is
        being bound."""
        return _is_for_hami(pod_class, node)

    def annotations(self, placed: PlacedPod) -> dict[str, str]:
        """Return the GPUs of a pod, for the device plugin of HAMi by container and UUID, else by number."""
        requests = request_of(placed.pod_class)
        assert not isinstance(requests, str)
        at = str(placed.assigned_ns)
        if placed.node is None or not _is_for_hami(placed.pod_class, placed.node):
            numbers = [str(_number_of(one)) for one in placed.devices]
            return {GPU_INDEX: "-".join(numbers), ASSUME_TIME: at}
        seconds = str(placed.assigned_ns // SECOND)
        devices = _for_hami(requests, placed.devices, placed.node.devices[GPU].devices)
        return {
            HAMI_NODE: placed.node_name,
            HAMI_TIME: seconds,
            HAMI_TO_ALLOCATE: devices,
            HAMI_ALLOCATED: devices,
            HAMI_BIND_PHASE: "allocating",
            HAMI_BIND_TIME: seconds,
        }

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return what is free of the GPUs; nothing as long as it is not known which ones a pod uses."""
        there = node.devices[GPU]
        model = there.product or there.card
        free = tuple([_empty(one, model) for one in there.devices if one.is_healthy])
        if any(not use.devices for use in uses):
            return tuple([one._replace(milli=0, memory=0, slots=0) for one in free])
        return _used(free, uses)

    def overcommitted(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> tuple[str, ...]:
        """Return the GPUs of which pods have more thousandths or memory than there is."""
        if GPU not in node.devices:
            return ()
        left = _used(tuple([_empty(one) for one in node.devices[GPU].devices]), uses)
        return tuple([f"gpu-{one.number}" for one in left if one.milli < 0 or one.memory < 0])

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Return how nodes serve a pod that asks for GPUs or shares of them."""
        found = request_of(request.pod_class)
        if isinstance(found, str) or not found:
            return None
        scoring = [one for one in request.plugins.of(DeviceOrder) if one.family == self.name]
        return ShareFit(
            found,
            without_sharing=-1 if request.pod_class.asks_for(self.name) else 0,
            has_points=not any(one.replaces_points for one in scoring),
        )

    def job_problem(self, request: DeviceRequest) -> tuple[str, str]:
        """Return why the request for shares is not valid."""
        found = request_of(request.pod_class)
        return ("InvalidResourceRequest", found) if isinstance(found, str) else ("", "")


@dataclass(frozen=True)
class ShareFit(DeviceFit):
    """A node serves the pod if enough GPUs have enough free; the less remains on them, the better."""

    requests: Requests
    without_sharing: int
    """Points of nodes that do not share their GPUs: -1 for pods that ask for shares."""
    has_points: bool
    """Whether nodes are scored by best fit, and not by a plugin."""

    @property
    def elsewhere(self) -> int:
        """Pods that ask for whole GPUs may be on any node."""
        return self.without_sharing

    @property
    def reason(self) -> str:
        """Say what is missing."""
        return f"node(s) did not have {request_text(self.requests)} free"

    def points(self, available: Hashable) -> int:
        """Return up to 100 points: the more, the less remains of the GPUs. None for whole GPUs, of which nothing
        remains on any node."""
        found = place(self.requests, cast("FreeGpus", available))
        if found is None:
            return -1
        if all(one.is_whole for one in self.requests) or not self.has_points:
            return 0
        given = {number for numbers in found.numbers for number in numbers}
        left = sum(gpu.milli for gpu in found.left if gpu.number in given)
        return _FULL - left * _FULL // (WHOLE * len(given))

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the GPUs on which the least remains, container by container."""
        found = place(self.requests, cast("FreeGpus", available))
        return () if found is None else _names(self.requests, found.numbers)

    def obstacle(self, available: Hashable) -> str:
        """Say what is free of each GPU."""
        free = cast("FreeGpus", available)
        texts = [_free_text(one) for one in free[:_SHOWN]]
        more = [f"{len(free) - _SHOWN} more"] if len(free) > _SHOWN else []
        shown = ", ".join([*texts, *more]) or "no healthy GPU"
        models = [one for request in self.requests for one in request.models]
        if models and free and free[0].model not in models:
            shown = f"{free[0].model or 'no known model'}; {shown}"
        return f"free: {shown}; needed: {request_text(self.requests)}"


_SHOWN: Final = 16
"""Number of GPUs that a message names."""


def _free_text(gpu: FreeGpu) -> str:
    """Return what is free of a GPU."""
    memory = f" and {gpu.memory} of {gpu.capacity} MiB" if gpu.capacity else ""
    return f"{fraction_text(gpu.milli)} of gpu-{gpu.number}{memory}"


def _names(requests: Requests, numbers: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Return the names of the GPUs of a pod: `gpu-0`, or `gpu-0:1` of container 1."""
    return tuple(
        [
            f"gpu-{number}:{request.container}" if request.container else f"gpu-{number}"
            for request, given in zip(requests, numbers, strict=True)
            for number in given
        ]
    )


def _given(requests: Requests, devices: Sequence[str]) -> list[tuple[ShareRequest, list[int]]]:
    """Return the numbers of the GPUs of a pod, request by request."""
    return [
        (one, [_number_of(name) for name in devices if part_of(name) == one.container])
        for one in requests
    ]


def _used(free: FreeGpus, uses: Sequence[DeviceUse]) -> FreeGpus:
    """Return what is left of GPUs that these pods use."""
    for use in uses:
        requests = request_of(use.pod_class)
        for request, numbers in () if isinstance(requests, str) else _given(requests, use.devices):
            for number in numbers:
                free = take(free, request, (number,)) or free
    return free


def _requests(request: Amounts, options: Mapping[str, str]) -> Requests | str:
    stated = _stated(request, options) if _is_stated(request, options) else options
    return requests_of(tuple(sorted(stated.items())), request.get(GPU, 0))


def _stated(request: Amounts, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a pod with what its containers request together, unless each of them has options."""
    if any("@" in key for key in options):
        return options
    return {
        **options,
        **{one: str(request[one]) for one in CONTAINER_RESOURCES if one in request},
    }


def _is_stated(request: Amounts, options: Mapping[str, str]) -> bool:
    """Return whether a pod uses one of the forms that ask for shares."""
    return any(one in options for one in ANNOTATIONS) or any(one in request for one in RESOURCES)


def _is_for_hami(pod_class: PodClass, node: NodeFacts) -> bool:
    """Return whether the device plugin of HAMi gives pods of a class their GPUs on a node."""
    if REGISTERED not in node.annotations or GPU not in node.devices:
        return False
    options = [key.partition("@")[0] for key, _ in pod_class.device_options]
    return any(one in CONTAINER_RESOURCES for one in options) or GPU in pod_class.amounts


def _for_hami(requests: Requests, names: Sequence[str], devices: Sequence[Device]) -> str:
    """Return the GPUs of each container as the device plugin of HAMi reads them: UUID, type, MiB and percent of the
    compute of each, `:` after each GPU, `;` after each container."""
    by_number = {one.number: one for one in devices}
    of_container: dict[int, str] = {}
    for request, numbers in _given(requests, names):
        texts: list[str] = []
        for number in numbers:
            device = by_number.get(number)
            capacity = 0 if device is None else dict(device.capacity)[_MEMORY]
            share = share_of(request, capacity)
            memory = 0 if share is None else share.memory
            uuid = "" if device is None else device.uuid
            texts.append(f"{uuid},{HAMI_TYPE},{memory},{request.cores}:")
        of_container[int(request.container or "0")] = "".join(texts)
    return "".join(f"{of_container.get(one, '')};" for one in range(max(of_container) + 1))


def _listed_by_hami(text: str, devices: Sequence[Device]) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the GPUs of each container; -1 for a GPU that the node does not have."""
    numbers = {one.uuid: one.number for one in devices}
    return {
        container: tuple(
            [numbers.get(one.partition(",")[0], -1) for one in entry.split(":") if one]
        )
        for container, entry in enumerate(text.split(";"))
    }


def _number_of(name: str) -> int:
    """Return the number of a GPU by its name or that of a part; -1 if it has none."""
    text = device_of(name)
    return whole_number(text.removeprefix("gpu-")) or 0 if text.startswith("gpu-") else -1


def _empty(device: Device, model: str = "") -> FreeGpu:
    capacity = dict(device.capacity)
    memory = capacity[_MEMORY]
    return FreeGpu(WHOLE, memory, capacity[_SLOTS], memory, device.number, model)


def _memory_label(labels: Mapping[str, str]) -> tuple[int, str]:
    """Return the memory of each GPU in MiB; 0 if it is not stated, with the reason if it cannot be read."""
    text = labels.get(MEMORY_LABEL, "")
    if not text:
        return 0, ""
    number = _number(text)
    if number is None:
        return (
            0,
            f"label {MEMORY_LABEL}: {quoted(text)} is not a number: no memory can be asked for",
        )
    return number, ""


def _number(text: str) -> int | None:
    number = whole_number(text) if text.isascii() and text.isdigit() else None
    return None if number is None or number > 1 << 40 else number


def _registered(text: str) -> tuple[list[Device], str] | str:
    """Return the GPUs in HAMi's annotation and the type of the first, or why it cannot be read."""
    entries = [one for one in text.split(":") if one.strip()]
    if len(entries) > COUNT_MAX:
        return f"{len(entries)} GPUs are more than {COUNT_MAX}"
    devices: dict[int, Device] = {}
    kind = ""
    for position, entry in enumerate(entries):
        fields = [one.strip() for one in entry.split(",")]
        if len(fields) not in _REGISTERED_FIELDS:
            return f"{quoted(entry)} has {len(fields)} fields instead of 7 or 9"
        slots, memory = _number(fields[1]), _number(fields[2])
        number = _number(fields[7]) if len(fields) > 7 else position
        if slots is None or memory is None or number is None:
            return f"{quoted(entry)}: a number is missing"
        if number in devices:
            return f"two GPUs have the number {number}"
        capacity = ((_MEMORY, memory), (_SLOTS, slots))
        is_healthy = fields[6].lower() == "true" and (len(fields) < 9 or fields[8] != "mig")
        devices[number] = Device(
            f"gpu-{number}", number, is_healthy, capacity=capacity, uuid=fields[0]
        )
        kind = kind or fields[4]
    if not devices:
        return "no GPU is listed"
    return [devices[one] for one in sorted(devices)], kind
