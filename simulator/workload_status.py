"""The status of the workloads of a simulated cluster at the end."""

from typing import Final

from events.normalize import JsonObject
from projections.kinds.workload import REPLACING
from simulator.manifest_fields import section
from simulator.object_store import Store

_WORKLOADS: Final = (*REPLACING, "HorizontalPodAutoscaler")


def workload_statuses(store: Store) -> JsonObject:
    """Return the `status` of every workload that has one, as `Kind/namespace/name`."""
    statuses: JsonObject = {}
    for resource in _WORKLOADS:
        for key, manifest in sorted(store.objects().get(resource, {}).items()):
            if status := section(manifest, "status"):
                statuses["/".join(key)] = dict(status)
    return statuses
