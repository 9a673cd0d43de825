"""Faults that a kubelet reports in the status of a pod: a device of a container that is unhealthy, or a container whose last
run failed.

A kubelet with the feature `ResourceHealthStatus` reports the health of the devices of a container in
`allocatedResourcesStatus` (Kubernetes: "Device plugin and unhealthy devices").
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from events.limits import storable

_NAME_CHARS_MAX: Final = 128


class _ResourceHealth(Struct):
    resourceID: str = ""  # noqa: N815
    health: str = ""


class _ResourceStatus(Struct):
    name: str = ""
    resources: list[_ResourceHealth] | None = None


class _Terminated(Struct):
    exitCode: int = 0  # noqa: N815


class _State(Struct):
    terminated: _Terminated | None = None


class _ContainerStatus(Struct):
    allocatedResourcesStatus: list[_ResourceStatus] | None = None  # noqa: N815
    lastState: _State | None = None  # noqa: N815


_STATUSES: Final = msgspec.json.Decoder(list[_ContainerStatus] | None)
_UNHEALTHY: Final = b'"Unhealthy"'
_EXITED: Final = b'"exitCode"'


def container_fault(statuses: Raw) -> str:
    """Return the fault in the statuses of containers as text; "" without one, or if they cannot be read."""
    content = bytes(statuses)
    if _UNHEALTHY not in content and _EXITED not in content:
        return ""  # Most statuses need not be read.
    try:
        found = _STATUSES.decode(content) or []
    except msgspec.DecodeError:
        return ""
    for status in found:
        for resource in status.allocatedResourcesStatus or ():
            for one in resource.resources or ():
                if one.health == "Unhealthy":
                    name = f"{resource.name} {one.resourceID}"[:_NAME_CHARS_MAX]
                    return f"DeviceUnhealthy: {storable(name)}"
    for status in found:
        ended = None if status.lastState is None else status.lastState.terminated
        if ended is not None and ended.exitCode:
            return f"ContainerFailed: {ended.exitCode}"
    return ""
