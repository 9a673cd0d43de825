"""Which names of a list of resources a scheduler counts (volcano A.7).

Volcano's controllers write `minResources` of a PodGroup as the quota evaluator of Kubernetes counts a pod: beside `cpu`,
`memory` and `pods` it holds `count/pods`, `requests.cpu`, `limits.memory` and the like, which repeat the same requests
for a ResourceQuota. They are names of quotas and of no resource that a node has.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeVar

QuantityT = TypeVar("QuantityT")

_PLAIN: Final = ("cpu", "memory", "pods", "ephemeral-storage")
_OF_QUOTAS: Final = ("count/", "requests.", "limits.")
_KINDS: Final = ("hugepages-", "attachable-volumes-")
_DEVICES: Final = ("gpu", "npu", "mlu", "tpu", "xpu", "dcu")
_DEVICE_PREFIXES: Final = ("ascend", "mig-")
"""Kinds of resources that count whole accelerators."""


def is_quota_name(name: str) -> bool:
    """Return whether a name counts objects, requests or limits of a ResourceQuota: `count/pods`, `requests.cpu`."""
    return name.startswith(_OF_QUOTAS)


def is_schedulable(name: str) -> bool:
    """Return whether a scheduler counts a resource: a plain one, huge pages, attachable volumes, or one with a domain."""
    if is_quota_name(name):
        return False
    return name in _PLAIN or name.startswith(_KINDS) or "/" in name


def schedulable(quantities: Mapping[str, QuantityT]) -> dict[str, QuantityT]:
    """Return the part of a list of resources that a scheduler counts; what the other names hold is not read."""
    return {name: quantity for name, quantity in quantities.items() if is_schedulable(name)}


@lru_cache(maxsize=4096)
def counts_devices(name: str) -> bool:
    """Return whether a resource counts whole accelerators, by its name: `nvidia.com/gpu`, `huawei.com/Ascend910`."""
    _, slash, kind = name.partition("/")
    kind = kind.lower()
    return bool(slash) and (kind in _DEVICES or kind.startswith(_DEVICE_PREFIXES))
