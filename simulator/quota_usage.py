"""What Volcano's controllers write as `minResources` of a PodGroup (volcano A.7).

They count pods as the quota evaluator of Kubernetes does: each amount under its own name and under the names by which a
ResourceQuota limits it. Requests that a container leaves out are its limits, as the API server would fill them in.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from events.normalize import Json, JsonObject
from simulator.manifest_fields import Amounts, add, limits_of, quantity, request_of

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."


def min_resources(pods: Iterable[tuple[Mapping[str, Json], int]]) -> JsonObject:
    """Return what so many pods of each spec use of a quota, as quantities."""
    total: Amounts = {}
    resources: dict[str, str] = {}
    for spec, count in pods:
        for name, (resource, amount) in _usage(spec).items():
            add(total, {name: amount}, count)
            resources[name] = resource
    return {name: quantity(resources[name], amount) for name, amount in total.items()}


def _usage(spec: Mapping[str, Json]) -> dict[str, tuple[str, int]]:
    """Return what one pod uses of a quota: the name there, to the resource that gives its unit and the amount."""
    usage: dict[str, tuple[str, int]] = {"count/pods": ("pods", 1), "pods": ("pods", 1)}
    for name, amount in request_of(spec).items():
        if name in _COMPUTE or name.startswith("hugepages-") or _is_extended(name):
            usage[name] = usage[f"{_REQUESTS}{name}"] = (name, amount)
    for name, amount in limits_of(spec).items():
        if name in _COMPUTE:
            usage[f"{_LIMITS}{name}"] = (name, amount)
    return usage


def _is_extended(name: str) -> bool:
    """Whether a resource is one of a vendor: it has a domain that is not one of Kubernetes."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith(_REQUESTS)
