"""What is free of the GPUs of a node that can be shared, and which of them a pod gets.

A GPU has 1,000 thousandths and its memory. What a pod asks for in one of the two, it takes of the other in the same
proportion: half the thousandths come with half the memory, rounded down. So a GPU is full when either is used up.

Best fit: a share goes to the GPU on which the least thousandths remain, then the least memory, then the first one. A GPU
of which a part is used is never given whole.
"""

from typing import Final, NamedTuple

from features.gpu_shares.share_request import WHOLE, Requests, ShareRequest


class GpuShare(NamedTuple):
    """What a pod takes of one GPU."""

    milli: int
    memory: int
    """MiB."""


class FreeGpu(NamedTuple):
    """What is free of one GPU."""

    milli: int
    memory: int
    """MiB."""
    slots: int
    """How many more pods may be on it."""
    capacity: int
    """Its memory, in MiB; 0 if it is not known."""
    number: int
    """Its number on the node."""
    model: str = ""


FreeGpus = tuple[FreeGpu, ...]
"""The healthy GPUs of a node, by number."""

SLOTS_MAX: Final = WHOLE
"""Number of pods on one GPU, if the node states none: each has at least one thousandth."""


def share_of(request: ShareRequest, capacity: int) -> GpuShare | None:
    """Return what a request takes of a GPU with so much memory; None if the GPU is too small or its memory unknown."""
    memory = request.memory or capacity * request.memory_milli // WHOLE
    if request.memory or request.memory_milli:
        if not capacity or memory > capacity:
            return None
        milli = request.milli or max(1, memory * WHOLE // capacity)
        return GpuShare(milli, memory)
    return GpuShare(request.milli, capacity * request.milli // WHOLE)


def has_place(gpu: FreeGpu, share: GpuShare) -> bool:
    """Return whether a share fits what is free of a GPU."""
    if share.milli == WHOLE:
        return gpu.milli == WHOLE and gpu.memory == gpu.capacity and gpu.slots > 0
    return share.milli <= gpu.milli and share.memory <= gpu.memory and gpu.slots > 0


def taken(gpu: FreeGpu, share: GpuShare) -> FreeGpu:
    """Return what remains of a GPU."""
    left = gpu.milli - share.milli, gpu.memory - share.memory, gpu.slots - 1
    return FreeGpu(*left, gpu.capacity, gpu.number, gpu.model)


def released(gpu: FreeGpu, share: GpuShare) -> FreeGpu:
    """Return what is free of a GPU when a pod has ended."""
    left = gpu.milli + share.milli, gpu.memory + share.memory, gpu.slots + 1
    return FreeGpu(*left, gpu.capacity, gpu.number, gpu.model)


def best_fit(request: ShareRequest, gpus: FreeGpus) -> tuple[int, ...]:
    """Return the numbers of the GPUs that a request gets, sorted; () if there are not enough."""
    found: list[tuple[int, int, int]] = []
    for gpu in gpus:
        if request.models and gpu.model not in request.models:
            continue
        share = share_of(request, gpu.capacity)
        if share is not None and has_place(gpu, share):
            found.append((gpu.milli - share.milli, gpu.memory - share.memory, gpu.number))
    if len(found) < request.count:
        return ()
    return tuple(sorted([number for *_, number in sorted(found)[: request.count]]))


class Placing(NamedTuple):
    """The GPUs that each container of a pod gets, and what is free afterwards."""

    numbers: tuple[tuple[int, ...], ...]
    """Numbers of GPUs, request by request."""
    left: FreeGpus


def place(requests: Requests, gpus: FreeGpus) -> Placing | None:
    """Return which GPUs the requests of a pod get, each by best fit, the largest first; None if there are not
    enough. Two containers may get shares of one GPU."""
    found: dict[int, tuple[int, ...]] = {}
    for index in sorted(range(len(requests)), key=lambda one: _size(requests[one])):
        numbers = best_fit(requests[index], gpus)
        left = take(gpus, requests[index], numbers) if numbers else None
        if left is None:
            return None
        found[index], gpus = numbers, left
    return Placing(tuple([found[index] for index in range(len(requests))]), gpus)


def _size(request: ShareRequest) -> tuple[int, int, int, int]:
    """Return what sorts requests, the largest first."""
    return -request.milli, -request.memory, -request.memory_milli, -request.count


def take(gpus: FreeGpus, request: ShareRequest, numbers: tuple[int, ...]) -> FreeGpus | None:
    """Return what is free once the GPUs with these numbers have been given; None if one of them is not there or too
    small."""
    left = list(gpus)
    slots = {gpu.number: slot for slot, gpu in enumerate(gpus)}
    for number in numbers:
        slot = slots.get(number)
        share = None if slot is None else share_of(request, left[slot].capacity)
        if slot is None or share is None:
            return None
        left[slot] = taken(left[slot], share)
    return tuple(left)
