"""What a pod asks of GPUs that can be shared: so many GPUs, and of each so many thousandths and so much memory.

The forms that are read, and where they are defined, are listed in `docs/reference/gpu-sharing.md`. A pod uses one of
them. Fractions become whole thousandths, rounded up, so that a pod never gets less than it asks for.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from events.limits import DIGITS_MAX, quoted, whole_number
from projections.pod_class import PodClass
from projections.pod_terms import Labels

FAMILY: Final = "gpu-shares"
"""Name of the device family."""

WHOLE: Final = 1000
"""Thousandths of a GPU."""

GPU: Final = "nvidia.com/gpu"
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
GPU_COUNT: Final = "alibabacloud.com/gpu-count"
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_COUNT: Final = "gpu-fraction-num-devices"
MEMORY: Final = "nvidia.com/gpumem"
MEMORY_PERCENTAGE: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"

ANNOTATIONS: Final = (GPU_MILLI, GPU_COUNT, GPU_FRACTION, GPU_MEMORY, GPU_FRACTION_COUNT)
"""Annotations that ask for a share."""

RESOURCES: Final = (MEMORY, MEMORY_PERCENTAGE, CORES)
"""Resources of pods that nodes do not count: they say what a pod needs of each GPU."""

COUNT_MAX: Final = 1024
"""Maximum number of GPUs of a pod in a form that shares them."""

MEMORY_MAX: Final = 1 << 40
"""Maximum amount of memory, in MiB."""


class ShareRequest(Struct, frozen=True):
    """What a pod asks for. Of thousandths and memory, what is not asked for is 0: it follows from the other."""

    count: int
    milli: int = 0
    """Thousandths of each GPU."""
    memory: int = 0
    """MiB of each GPU."""
    memory_milli: int = 0
    """Thousandths of the memory of each GPU."""

    @property
    def is_whole(self) -> bool:
        """Return whether it takes each GPU whole."""
        return self.milli == WHOLE

    @property
    def text(self) -> str:
        """Return what is asked for, as messages name it."""
        parts = [f"{self.milli} thousandths"] if self.milli else []
        if self.memory:
            parts.append(f"{self.memory} MiB")
        if self.memory_milli:
            parts.append(f"{self.memory_milli} thousandths of the memory")
        return f"{self.count} GPU(s) with {' and '.join(parts)} each"


@lru_cache(maxsize=1 << 12)
def share_request(options: tuple[tuple[str, str], ...], gpus: int) -> ShareRequest | str | None:
    """Return what a pod with these annotations and resources asks for, and so many of `nvidia.com/gpu`; None if it asks
    for no GPU, or the reason why the request is not valid."""
    given = dict(options)
    forms = [
        one for one in (_milli, _fraction, _memory, _resources) if one(given, gpus) is not None
    ]
    if len(forms) > 1 or (forms and gpus and forms != [_resources]):
        keys: list[str] = [key for key in (*ANNOTATIONS, *RESOURCES) if key in given]
        if forms != [_resources] and gpus:
            keys.append(GPU)
        return f"{' and '.join(keys)} are different ways to ask for GPUs: use one of them"
    if forms:
        return forms[0](given, gpus)
    if GPU_FRACTION_COUNT in given:
        return f"{GPU_FRACTION_COUNT} needs {GPU_FRACTION} or {GPU_MEMORY}"
    return ShareRequest(gpus, WHOLE) if gpus else None


Found = ShareRequest | str | None


def _milli(given: Mapping[str, str], _gpus: int) -> Found:
    """Return a request in the form of the openb trace."""
    if GPU_MILLI not in given and GPU_COUNT not in given:
        return None
    count = _whole(given, GPU_COUNT, 1, COUNT_MAX, default=1)
    milli = _whole(given, GPU_MILLI, 1, WHOLE, default=WHOLE)
    for one in (count, milli):
        if isinstance(one, str):
            return one
    assert isinstance(count, int)
    assert isinstance(milli, int)
    if count > 1 and milli < WHOLE:
        return f"{GPU_MILLI}: {milli} of each of {count} GPUs: a share is of one GPU only"
    return ShareRequest(count, milli)


def _fraction(given: Mapping[str, str], _gpus: int) -> Found:
    """Return a request for a fraction, in the form of KAI."""
    if GPU_FRACTION not in given:
        return None
    milli = _thousandths(given[GPU_FRACTION])
    if isinstance(milli, str):
        return f"{GPU_FRACTION}: {milli}"
    count = _whole(given, GPU_FRACTION_COUNT, 1, COUNT_MAX, default=1)
    return count if isinstance(count, str) else ShareRequest(count, milli)


def _memory(given: Mapping[str, str], _gpus: int) -> Found:
    """Return a request for memory, in the form of KAI."""
    if GPU_MEMORY not in given:
        return None
    memory = _whole(given, GPU_MEMORY, 1, MEMORY_MAX)
    count = _whole(given, GPU_FRACTION_COUNT, 1, COUNT_MAX, default=1)
    for one in (memory, count):
        if isinstance(one, str):
            return one
    assert isinstance(memory, int)
    assert isinstance(count, int)
    return ShareRequest(count, memory=memory)


def _resources(given: Mapping[str, str], gpus: int) -> Found:
    """Return a request in the form of HAMi: what is stated counts for each GPU. Without GPUs it is for one."""
    if not any(key in given for key in RESOURCES):
        return None
    if gpus > COUNT_MAX:
        return f"{GPU}: {gpus} is not between 1 and {COUNT_MAX}"
    if MEMORY in given and MEMORY_PERCENTAGE in given:
        return f"{MEMORY} and {MEMORY_PERCENTAGE} are different ways to ask for memory: use one"
    cores = _whole(given, CORES, 0, 100, default=0)
    memory = _whole(given, MEMORY, 1, MEMORY_MAX) if MEMORY in given else 0
    percentage = _whole(given, MEMORY_PERCENTAGE, 1, 100, default=0)
    for one in (cores, memory, percentage):
        if isinstance(one, str):
            return one
    assert isinstance(cores, int)
    assert isinstance(memory, int)
    assert isinstance(percentage, int)
    if not memory and not percentage:
        # Without a stated amount a pod gets all the memory, so that no other pod can share the GPU.
        return ShareRequest(max(1, gpus), WHOLE)
    return ShareRequest(max(1, gpus), cores * 10, memory, percentage * 10)


def _whole(
    given: Mapping[str, str], key: str, least: int, most: int, default: int | None = None
) -> int | str:
    """Return a whole number within bounds, or why there is none."""
    if key not in given and default is not None:
        return default
    text = given.get(key, "")
    number = whole_number(text) if text.isascii() and text.isdigit() else None
    if number is None or not least <= number <= most:
        return f"{key}: {quoted(text)} is not a whole number from {least} to {most}"
    return number


def _thousandths(text: str) -> int | str:
    """Return a decimal fraction in thousandths, rounded up, or why it is none."""
    whole, point, rest = text.partition(".")
    digits = f"{whole}{rest}"
    is_number = digits.isascii() and digits.isdigit() and len(text) <= DIGITS_MAX
    if not is_number or (point and not rest):
        return f"{quoted(text)} is not a decimal number above 0 and up to 1"
    scale: int = 10 ** len(rest)
    milli = -(-int(digits) * WHOLE // scale)
    if not 0 < milli <= WHOLE:
        return f"{quoted(text)} is not a decimal number above 0 and up to 1"
    return milli


def request_of(pod_class: PodClass) -> ShareRequest | str | None:
    """Return what pods of a class ask for, why it is not valid, or None if they use no GPU."""
    options = dict(pod_class.device_options)
    gpus = next((amount for name, amount in pod_class.request if name == GPU), 0)
    return share_request(own_options(options), int(options.get(GPU, gpus)))


def own_options(options: Mapping[str, str]) -> Labels:
    """Return the options that ask for shares."""
    keys = (*ANNOTATIONS, *RESOURCES)
    return tuple([(key, options[key]) for key in keys if key in options])
