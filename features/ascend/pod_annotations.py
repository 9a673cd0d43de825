"""What is written on a pod with whole chips, for the device plugin and for the operator that makes the rank table of a job.

As a rule the device plugin writes which chips a pod has got (`huawei.com/AscendReal`) and its entry of the rank table
(`ascend.kubectl.kubernetes.io/ascend-910-configuration`). The scheduler writes both where nothing is left to choose, because
the pod takes all chips of its node, and for jobs of the Kubeflow training operator.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from features.ascend.inventory import (
    BASE_DEVICES,
    PREDICATE_TIME,
    REAL,
    chip_number,
)
from features.ascend.product_choice import (
    ACCELERATOR_TYPE,
    NPU,
    POLICY,
    SP_BLOCK,
    WHOLE_CHIPS,
)
from projections.device_family import PlacedPod
from projections.devices import NodeDevices
from projections.nodes import NodeFacts
from projections.pod_annotations import MIN_AVAILABLE
from projections.pod_class import PodClass
from projections.pods import RANK

DISTRIBUTED_JOB: Final = "distributed-job"
CONFIGURATION: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
OPERATOR: Final = "training.kubeflow.org/operator-name"
"""Label of pods of the Kubeflow training operator."""

_ADDRESS_CHARS_MAX: Final = 64


class _Base(Struct):
    """What `baseDeviceInfos` says of a chip."""

    IP: str = ""
    SuperDeviceID: int = 0


_BASES: Final = msgspec.json.Decoder(dict[str, _Base])


def needs_rank(pod_class: PodClass, owner: str, options: Mapping[str, str]) -> bool:
    """Return whether a pod gets its rank: pods of a ReplicaSet, of a job with a minimum in an annotation, or of a SuperPoD."""
    return owner == "ReplicaSet" or MIN_AVAILABLE in options or is_of_super_pod(pod_class, options)


def is_of_super_pod(pod_class: PodClass, options: Mapping[str, str]) -> bool:
    """Return whether a job is to be placed in SuperPoDs."""
    if policy := options.get(POLICY):
        return policy.endswith("-sp")
    wanted = dict(pod_class.selector.pairs).get(ACCELERATOR_TYPE, "")
    return SP_BLOCK in options or wanted.endswith("super-pod")


def pod_annotations(placed: PlacedPod) -> dict[str, str]:
    """Return the annotations of a pod before it is bound."""
    resource = next(name for name, _ in placed.pod_class.request if name in WHOLE_CHIPS)
    found = {
        resource: ",".join(placed.devices),
        PREDICATE_TIME: str(placed.assigned_ns),
        DISTRIBUTED_JOB: str(placed.is_distributed).lower(),
    }
    there = None if placed.node is None else placed.node.devices.get(resource)
    if placed.node is None or there is None:
        return found
    if placed.rank >= 0:
        found[RANK] = str(placed.rank)
    if resource != NPU:
        found |= _real(placed, placed.node, there)
    return found


def _real(placed: PlacedPod, node: NodeFacts, there: NodeDevices) -> dict[str, str]:
    """Return the chips as the device plugin states them, and the entry of the rank table; nothing if the device plugin is
    to write them."""
    try:
        bases = _BASES.decode(node.annotations.get(BASE_DEVICES, "") or "{}")
    except msgspec.DecodeError:
        return {}
    count, has_it = len(placed.devices), REAL in dict(placed.assignments)
    is_whole = count == node.allocatable.get(there.resource, 0) == len(bases)
    # A pod that was annotated for another node must not keep what was true there.
    if not (is_whole or has_it or OPERATOR in dict(placed.labels)):
        return {}
    devices = [(chip_number(name), bases.get(name, _Base())) for name in placed.devices]
    configuration = {
        "pod_name": placed.name,
        "server_id": placed.uid,
        "server_ip": node.address,
        "host_ip": node.address,
        "super_pod_id": there.super_pod_id,
        "rack_id": there.rack_id,
        "devices": [
            {
                "device_id": str(number),
                "device_ip": base.IP if len(base.IP) <= _ADDRESS_CHARS_MAX else "",
                "super_device_id": str(base.SuperDeviceID),
            }
            for number, base in devices
        ],
        "server_index": "" if there.server_index < 0 else str(there.server_index),
    }
    return {
        REAL: ",".join(placed.devices),
        CONFIGURATION: msgspec.json.encode(configuration).decode(),
    }
