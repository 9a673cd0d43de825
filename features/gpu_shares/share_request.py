"""What a pod asks of GPUs that can be shared: so many GPUs, and of each so many thousandths and so much memory.

The forms that are read, and where they are defined, are listed in `docs/reference/gpu-sharing.md`. A pod uses one of
them. Fractions become whole thousandths, rounded up, so that a pod never gets less than it asks for. In the form of HAMi
each container asks for GPUs of its own.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct, structs

from events.amount_text import fraction_text
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

CARD_MODEL: Final = "alibabacloud.com/gpu-card-model"
"""Annotation of pods: the models of GPUs that they accept, as `T4|P100`. Label of nodes: the model of their GPUs."""

NOT_SUPPORTED: Final = {
    "nvidia.com/use-gputype": "name models by node affinity",
    "nvidia.com/nouse-gputype": "name models by node affinity",
    "nvidia.com/use-gpuuuid": "GPUs cannot be chosen",
    "nvidia.com/nouse-gpuuuid": "GPUs cannot be chosen",
    "nvidia.com/numa-bind": "GPUs are given without regard to NUMA nodes",
    "nvidia.com/vgpu-mode": "GPUs in MIG or MPS mode are not given in parts",
}
"""Annotations in which pods ask HAMi for more than muster does, and what to say of each. Values that ask for nothing
(`numa-bind: "false"`, `vgpu-mode: hami-core`) are accepted."""

OPTIONS: Final = (*ANNOTATIONS, CARD_MODEL, *NOT_SUPPORTED)
"""All annotations that say which GPUs a pod needs."""

CONTAINER_RESOURCES: Final = (GPU, *RESOURCES)
"""Resources of which each container gets its own."""

INIT: Final = "init"
"""Stands for the number of a container where an init container asks for a share."""

CONTAINERS_MAX: Final = 16
"""Maximum number of containers of a pod that ask for GPUs."""

COUNT_MAX: Final = 1024
"""Maximum number of GPUs of a pod in a form that shares them."""

MODELS_MAX: Final = 64
"""Maximum number of models of GPUs that a pod names."""

_ASKS_NOTHING: Final = ("", "false", "hami-core")

MEMORY_MAX: Final = (1 << 31) - 1
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

    cores: int = 0
    """Percent of the compute of each GPU that the node is to grant; 0 if nothing is said."""
    models: tuple[str, ...] = ()
    """The models of GPUs that will do; empty if any will."""
    container: str = ""
    """Number of the container that asks for it, if not the first one asks for all."""

    @property
    def is_whole(self) -> bool:
        """Return whether it takes each GPU whole."""
        return self.milli == WHOLE

    @property
    def text(self) -> str:
        """Return what is asked for, as messages name it."""
        parts = [] if self.is_whole else [fraction_text(self.milli)] if self.milli else []
        if self.memory:
            parts.append(f"{self.memory} MiB")
        if self.memory_milli:
            parts.append(f"{fraction_text(self.memory_milli)} of the memory")
        if parts:
            each = "a GPU" if self.count == 1 else f"each of {self.count} GPUs"
            asked = f"{' and '.join(parts)} of {each}"
        else:
            asked = "1 whole GPU" if self.count == 1 else f"{self.count} whole GPUs"
        return f"{asked} of model {' or '.join(self.models)}" if self.models else asked


Found: TypeAlias = ShareRequest | str | None
Requests: TypeAlias = tuple[ShareRequest, ...]

_OF: Final = "@"


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
    if not forms and GPU_FRACTION_COUNT in given:
        return f"{GPU_FRACTION_COUNT} needs {GPU_FRACTION} or {GPU_MEMORY}"
    if not forms and not gpus:
        return None
    found = forms[0](given, gpus) if forms else ShareRequest(gpus, WHOLE)
    if not isinstance(found, ShareRequest):
        return found
    return _with_models(found, given, is_openb=forms == [_milli])


def _with_models(found: ShareRequest, given: Mapping[str, str], *, is_openb: bool) -> Found:
    """Return a request with the models of GPUs that it names, or why it is refused."""
    for key, text in NOT_SUPPORTED.items():
        if key in given and given[key] not in _ASKS_NOTHING:
            return f"annotation {key} is not supported: {text}"
    models = tuple(dict.fromkeys(one for one in given.get(CARD_MODEL, "").split("|") if one))
    if models and not is_openb:
        return f"{CARD_MODEL} needs {GPU_MILLI} or {GPU_COUNT}: name models by node affinity"
    if len(models) > MODELS_MAX:
        return f"{CARD_MODEL}: {len(models)} models are more than {MODELS_MAX}"
    return structs.replace(found, models=models) if models else found


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
        return ShareRequest(max(1, gpus), WHOLE, cores=cores)
    return ShareRequest(max(1, gpus), cores * 10, memory, percentage * 10, cores)


def _whole(
    given: Mapping[str, str], key: str, least: int, most: int, default: int | None = None
) -> int | str:
    """Return a whole number within bounds, or why there is none."""
    if key not in given and default is not None:
        return default
    text = given.get(key, "")
    number = whole_number(text, most + 1) if text.isascii() and text.isdigit() else None
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


@lru_cache(maxsize=1 << 12)
def requests_of(options: Labels, gpus: int) -> Requests | str:
    """Return what the containers of a pod with these options and so many of `nvidia.com/gpu` ask for, or why it is not
    valid; () if they use no GPU. A request without the number of a container is that of the first one, or of the pod."""
    given = dict(options)
    own = {key: given[key] for key in (*OPTIONS, *RESOURCES) if key in given}
    of_container: dict[str, dict[str, str]] = {}
    for key, value in options:
        resource, _, number = key.partition(_OF)
        if number and resource in CONTAINER_RESOURCES:
            of_container.setdefault(number, {})[resource] = value
    of_container = {one: stated for one, stated in of_container.items() if stated != {GPU: "0"}}
    init = of_container.pop(INIT, {})
    is_shared = any(one in stated for stated in of_container.values() for one in RESOURCES)
    if init and (is_shared or any(one in init for one in RESOURCES)):
        return "init containers cannot ask for GPUs if any container asks for a share of one"
    if not is_shared and sum(int(stated[GPU]) for stated in of_container.values()) != gpus:
        of_container = {}  # Init containers ask for more than the others.
    if len(of_container) > CONTAINERS_MAX:
        return f"{len(of_container)} containers that ask for GPUs are more than {CONTAINERS_MAX}"
    if not of_container:
        found = share_request(tuple(own.items()), int(given.get(GPU, gpus)))
        return found if isinstance(found, str) else () if found is None else (found,)
    requests: list[ShareRequest] = []
    for number in sorted(of_container, key=int):
        stated = of_container[number]
        count = int(stated.pop(GPU, "0"))
        found = share_request((*own.items(), *stated.items()), count)
        if isinstance(found, str):
            return found
        if found is not None:
            number = "" if len(of_container) == 1 and number == "0" else number
            requests.append(structs.replace(found, container=number))
    return tuple(requests)


def request_of(pod_class: PodClass) -> Requests | str:
    """Return what pods of a class ask for, or why it is not valid; () if they use no GPU."""
    gpus = next((amount for name, amount in pod_class.request if name == GPU), 0)
    return requests_of(pod_class.device_options, gpus)


def request_text(requests: Requests) -> str:
    """Return what is asked for, as messages name it."""
    return ", and ".join(one.text for one in requests)
