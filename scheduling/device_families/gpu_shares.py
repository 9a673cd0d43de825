"""GPUs that several pods share (`docs/gpu-sharing.md`): each has 1,000 thousandths and its memory.

A node takes part if HAMi's device plugin lists its GPUs in an annotation, or if it has the label `muster.sh/gpu-sharing`.
On such a node every pod gets its GPUs by name, also one that asks for whole GPUs by `nvidia.com/gpu`: so whole GPUs and
shares coexist, and a GPU of which a part is used is never given whole. On other nodes nothing changes.

What is asked for in thousandths counts as the resource `muster.sh/gpu-milli`, what is asked for in memory as
`muster.sh/gpu-memory`, in MiB. Queues are charged for them under the names `MODEL/milli` and `MODEL/memory`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from events.limits import name_problem, quoted, whole_number
from projections.device_family import (
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
)
from projections.devices import Device, NodeDevices
from projections.nodes import NodeFacts
from projections.pod_class import Amounts
from scheduling.gpu_sharing.free_gpus import (
    SLOTS_MAX,
    FreeGpu,
    FreeGpus,
    best_fit,
    share_of,
    take,
)
from scheduling.gpu_sharing.share_request import (
    ANNOTATIONS,
    COUNT_MAX,
    FAMILY,
    GPU,
    RESOURCES,
    WHOLE,
    ShareRequest,
    own_options,
    request_of,
    share_request,
)
from scheduling.plugin import DeviceOrder

SHARING: Final = "muster.sh/gpu-sharing"
"""Label of nodes whose GPUs are shared: `true`."""

REGISTERED: Final = "hami.io/node-nvidia-register"
"""Annotation of nodes: their GPUs, as HAMi's device plugin lists them."""

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
    pod_options: ClassVar[tuple[str, ...]] = ANNOTATIONS
    counting_resources: ClassVar[tuple[str, ...]] = (GPU,)

    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the GPUs of a node that takes part."""
        faults: list[tuple[str, str]] = []
        product = sources.labels.get(PRODUCT, "")
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
        total = sum(dict(one.capacity)[_MEMORY] for one in healthy)
        count = min(len(healthy), sources.allocatable.get(GPU, 0))
        cards = {MILLI: f"{product}/milli", **({MEMORY: f"{product}/memory"} if total else {})}
        return Discovered(
            cards=dict(sorted(cards.items())) if is_named else {},
            devices={GPU: NodeDevices(self.name, GPU, tuple(devices), product if is_named else "")},
            faults=tuple(faults),
            amounts={MEMORY: total, MILLI: WHOLE * len(healthy), GPU: count},
        )

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Return how many GPUs a pod shares. Pods that ask for whole GPUs by their number do so on any node."""
        found = _request(request, options)
        if isinstance(found, str):
            return 1
        return 0 if found is None or not _is_stated(request, options) else found.count

    def counted(
        self, request: Amounts, options: Mapping[str, str]
    ) -> tuple[Amounts, Mapping[str, str]]:
        """Count thousandths and memory instead of GPUs; what the pod stated becomes an option."""
        if not _is_stated(request, options):
            return request, options
        stated: dict[str, str] = {
            one: str(request[one]) for one in (GPU, *RESOURCES) if one in request
        }
        rest = {one: amount for one, amount in request.items() if one not in (GPU, *RESOURCES)}
        found = _request(request, options)
        if isinstance(found, ShareRequest):
            if found.milli:
                rest[MILLI] = found.milli * found.count
            elif found.memory:
                rest[MEMORY] = found.memory * found.count
            else:
                rest[MILLI] = found.memory_milli * found.count
        return rest, {**options, **stated}

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return what is free of the GPUs; nothing as long as it is not known which ones a pod uses."""
        free = tuple([_empty(one) for one in node.devices[GPU].devices if one.is_healthy])
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
        if not isinstance(found, ShareRequest):
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

    request: ShareRequest
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
        return f"node(s) had no {self.request.text}"

    def points(self, available: Hashable) -> int:
        """Return up to 100 points: the more, the less remains of the GPUs. None for whole GPUs, of which nothing
        remains on any node."""
        free = cast("FreeGpus", available)
        numbers = best_fit(self.request, free)
        if not numbers:
            return -1
        if self.request.is_whole or not self.has_points:
            return 0
        left = 0
        for gpu in free:
            share = share_of(self.request, gpu.capacity) if gpu.number in numbers else None
            left += 0 if share is None else gpu.milli - share.milli
        return _FULL - left * _FULL // (WHOLE * len(numbers))

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the GPUs on which the least remains."""
        numbers = best_fit(self.request, cast("FreeGpus", available))
        return tuple([f"gpu-{number}" for number in numbers])

    def obstacle(self, available: Hashable) -> str:
        """Say what is free of each GPU."""
        free = cast("FreeGpus", available)
        texts = [
            f"gpu-{one.number} {one.milli} thousandths"
            + (f" and {one.memory} of {one.capacity} MiB" if one.capacity else "")
            for one in free[:_SHOWN]
        ]
        more = [f"{len(free) - _SHOWN} more"] if len(free) > _SHOWN else []
        return (
            f"free: {', '.join([*texts, *more]) or 'no healthy GPU'}; needed: {self.request.text}"
        )


_SHOWN: Final = 16
"""Number of GPUs that a message names."""


def _used(free: FreeGpus, uses: Sequence[DeviceUse]) -> FreeGpus:
    """Return what is left of GPUs that these pods use."""
    for use in uses:
        request = request_of(use.pod_class)
        if not isinstance(request, ShareRequest):
            continue
        for number in map(_number_of, use.devices):
            free = take(free, request, (number,)) or free
    return free


def _request(request: Amounts, options: Mapping[str, str]) -> ShareRequest | str | None:
    stated: dict[str, str] = {one: str(request[one]) for one in RESOURCES if one in request}
    return share_request(own_options({**options, **stated}), request.get(GPU, 0))


def _is_stated(request: Amounts, options: Mapping[str, str]) -> bool:
    """Return whether a pod uses one of the forms that ask for shares."""
    return any(one in options for one in ANNOTATIONS) or any(one in request for one in RESOURCES)


def _number_of(name: str) -> int:
    """Return the number of a GPU by its name; -1 if it has none."""
    return whole_number(name.removeprefix("gpu-")) or 0 if name.startswith("gpu-") else -1


def _empty(device: Device) -> FreeGpu:
    capacity = dict(device.capacity)
    memory = capacity[_MEMORY]
    return FreeGpu(WHOLE, memory, capacity[_SLOTS], memory, device.number)


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
    for place, entry in enumerate(entries):
        fields = [one.strip() for one in entry.split(",")]
        if len(fields) not in _REGISTERED_FIELDS:
            return f"{quoted(entry)} has {len(fields)} fields instead of 7 or 9"
        slots, memory = _number(fields[1]), _number(fields[2])
        number = _number(fields[7]) if len(fields) > 7 else place
        if slots is None or memory is None or number is None:
            return f"{quoted(entry)}: a number is missing"
        if number in devices:
            return f"two GPUs have the number {number}"
        capacity = ((_MEMORY, memory), (_SLOTS, slots))
        is_healthy = fields[6].lower() == "true" and (len(fields) < 9 or fields[8] != "mig")
        devices[number] = Device(f"gpu-{number}", number, is_healthy, capacity=capacity)
        kind = kind or fields[4]
    if not devices:
        return "no GPU is listed"
    return [devices[one] for one in sorted(devices)], kind
