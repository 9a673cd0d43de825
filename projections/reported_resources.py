"""The resources that a kubelet reports for the containers of a pod, and for the pod, while a resize in place is under way.

A container has three amounts of each resource: what its spec requests (desired), what the kubelet has allocated to it, and
what it actually has. It counts as the largest of them (Kubernetes: "Resize CPU and Memory Resources assigned to
Containers"): growing takes room at once, shrinking gives it back when the kubelet has done it. A resize that the kubelet
calls infeasible never happens, so that what the spec requests does not count. Only cpu and memory can change; a status
without `resources`, or one that cannot be read, leaves the spec.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from projections.objects import PodCondition, PodSpec, PodStatus, Quantities

RESIZED: Final = ("cpu", "memory")
"""The resources that can be resized in place."""

_MARK: Final = b'"resources"'
"""A text without which no container status has amounts: most statuses of older kubelets need not be read."""

_PENDING: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


class _Stated(Struct):
    requests: Raw = Raw(b"")


class _ContainerStatus(Struct):
    name: str = ""
    resources: _Stated | None = None
    allocatedResources: Raw = Raw(b"")  # noqa: N815


class Reported(Struct, frozen=True):
    """What a kubelet reports of a container or a pod."""

    actual: Quantities
    allocated: Quantities


class ReportedResources(Struct, frozen=True):
    """What a kubelet reports of a pod."""

    containers: Mapping[str, Reported] = {}
    """By name, sidecars included."""
    pod: Reported | None = None
    is_infeasible: bool = False
    """Whether the kubelet can never do the resize: the spec does not count."""


NOT_REPORTED: Final = ReportedResources()

_STATUSES: Final = msgspec.json.Decoder(list[_ContainerStatus] | None)
_QUANTITIES: Final = msgspec.json.Decoder(Quantities | None)
_STATED: Final = msgspec.json.Decoder(_Stated | None)


def stated_requests(spec: PodSpec) -> dict[str, bytes]:
    """Return the requests of each container that may be resized as they stand in the spec, by name."""
    found: dict[str, bytes] = {}
    sidecars = [one for one in spec.initContainers or () if one.restartPolicy == "Always"]
    for container in (*sidecars, *(spec.containers or ())):
        if container.name is not None:
            found[container.name] = _requests_of(container.resources)
    return found


def reported_resources(
    spec: PodSpec, stated: Mapping[str, bytes], status: PodStatus
) -> ReportedResources:
    """Return what the kubelet reports of a pod on a node, as far as it may differ from what the spec states; else
    NOT_REPORTED. `stated` are the `stated_requests` of the spec."""
    found: dict[str, Reported] = {}
    for raw in (status.containerStatuses, status.initContainerStatuses):
        if _MARK in bytes(raw):
            found |= _of_containers(bytes(raw), stated)
    pod = _of_pod(spec, status)
    if not found and pod is None:
        return NOT_REPORTED
    return ReportedResources(found, pod, any(map(_is_infeasible, status.conditions or ())))


def _of_containers(raw: bytes, stated: Mapping[str, bytes]) -> dict[str, Reported]:
    found: dict[str, Reported] = {}
    try:
        for one in _STATUSES.decode(raw) or ():
            requests = stated.get(one.name)
            if requests is None or one.resources is None:
                continue
            actual, allocated = bytes(one.resources.requests), bytes(one.allocatedResources)
            if actual == requests and allocated in (b"", requests):
                continue  # The objects of the log are canonical: equal amounts are equal bytes.
            found[one.name] = Reported(_quantities(actual), _quantities(allocated))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found


def _of_pod(spec: PodSpec, status: PodStatus) -> Reported | None:
    if not bytes(spec.resources) or not bytes(status.resources):
        return None
    try:
        stated = _STATED.decode(status.resources)
        if stated is None:
            return None
        return Reported(
            _quantities(bytes(stated.requests)), _quantities(bytes(status.allocatedResources))
        )
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _quantities(raw: bytes) -> Quantities:
    return (_QUANTITIES.decode(raw) if raw else None) or {}


def _requests_of(resources: Raw) -> bytes:
    try:
        stated = _STATED.decode(resources) if bytes(resources) else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    return b"" if stated is None else bytes(stated.requests)


def _is_infeasible(condition: PodCondition) -> bool:
    return (condition.type, condition.status, condition.reason) == (_PENDING, "True", _INFEASIBLE)
