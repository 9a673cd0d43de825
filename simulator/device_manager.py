"""Which counted devices (`nvidia.com/gpu`) a pod has, and which of them are unhealthy.

Scenarios count these devices. Only when one breaks does it matter which pod has it: then the pods of its node get their
devices in the order in which they came to it, and keep them. An unhealthy device leaves `allocatable`, not `capacity`, and
the kubelet shows it in the status of its pod (`allocatedResourcesStatus`, Kubernetes 1.31 with `ResourceHealthStatus`).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from events.normalize import Json, JsonObject
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    amounts,
    changed,
    is_terminal,
    list_at,
    request_of,
    section,
    text_at,
    uid_of,
)
from simulator.object_store import Key, Store
from simulator.scenario import kind_named

POD: Final = kind_named("Pod")
NODE: Final = kind_named("Node")


class DeviceManager:
    """The counted devices of all nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {}
        """Node and resource to the devices of each pod, by its UID."""
        self._unhealthy: dict[tuple[str, str], dict[int, None]] = {}

    def break_device(self, node: str, device: str, pods: Iterable[Key]) -> None:
        """Make a device unhealthy (`nvidia.com/gpu/3`). `pods` are those of the node, in the order of arrival."""
        self._set(node, device, pods, is_healthy=False)

    def repair_device(self, node: str, device: str, pods: Iterable[Key]) -> None:
        """Make a device healthy again."""
        self._set(node, device, pods, is_healthy=True)

    def forget(self, node: str) -> None:
        """Forget the devices of a node that is gone."""
        for place in [one for one in self._unhealthy if one[0] == node]:
            del self._unhealthy[place]
        for place in [one for one in self._held if one[0] == node]:
            del self._held[place]

    def holders(self, node: str, device: str, pods: Iterable[Key]) -> list[Key]:
        """Return the pod that has a device, if one has it."""
        resource, _, number = device.rpartition("/")
        found = self._store.find(("Node", "", node))
        if found is None:
            return []
        return self._holders((node, resource), found, int(number), pods)

    def _set(self, node: str, device: str, pods: Iterable[Key], *, is_healthy: bool) -> None:
        resource, _, number = device.rpartition("/")
        found, index = self._store.find(("Node", "", node)), int(number)
        unhealthy = self._unhealthy.setdefault((node, resource), {})
        if found is None or (index not in unhealthy) == is_healthy:
            return
        if is_healthy:
            del unhealthy[index]
        else:
            unhealthy[index] = None
        self._store.put(NODE, _with_allocatable(found, resource, 1 if is_healthy else -1))
        for key in self._holders((node, resource), found, index, pods):
            pod = self._store.find(key)
            assert pod is not None
            held = self._held[node, resource][uid_of(pod)]
            self._store.put(POD, _with_health(pod, resource, held, unhealthy))

    def _holders(
        self, place: tuple[str, str], node: Manifest, index: int, pods: Iterable[Key]
    ) -> list[Key]:
        """Return the pod that has a device, after each pod has got its devices."""
        status = section(node, "status")
        total = amounts(section(status, "capacity") or section(status, "allocatable"))
        before, now = self._held.get(place, {}), dict[str, tuple[int, ...]]()
        new: list[tuple[str, int]] = []
        keys: dict[str, Key] = {}
        for key in pods:
            pod = self._store.find(key)
            asked = 0 if pod is None or is_terminal(pod) else _asked(pod, place[1])
            if pod is None or not asked:
                continue
            uid = uid_of(pod)
            keys[uid] = key
            if uid in before:
                now[uid] = before[uid]
            else:
                new.append((uid, asked))
        taken = {one for held in now.values() for one in held}
        unhealthy = self._unhealthy.get(place, {})
        # The device that just broke was healthy when these pods got theirs.
        free = [
            one
            for one in range(total.get(place[1], 0))
            if one not in taken and (one == index or one not in unhealthy)
        ]
        for uid, asked in new:
            now[uid], free = tuple(free[:asked]), free[asked:]
        self._held[place] = now
        return [keys[uid] for uid, held in now.items() if index in held]


def _asked(pod: Manifest, resource: str) -> int:
    return request_of(section(pod, "spec")).get(resource, 0)


def _with_allocatable(node: Manifest, resource: str, more: int) -> Manifest:
    """Return the node with more or fewer allocatable devices; its capacity stays."""
    status = section(node, "status")
    allocatable = section(status, "allocatable") or section(status, "capacity")
    capacity = section(status, "capacity") or allocatable
    count = max(0, amounts(allocatable).get(resource, 0) + more)
    return changed(
        node,
        "status",
        capacity=dict(capacity),
        allocatable={**allocatable, resource: str(count)},
    )


def _with_health(
    pod: Manifest, resource: str, held: tuple[int, ...], unhealthy: Mapping[int, None]
) -> Manifest:
    """Return the pod with the health of its devices in the status of the containers that have them."""
    statuses = {
        text_at(one, "name"): dict(one)
        for one in list_at(section(pod, "status"), "containerStatuses")
    }
    left = list(held)
    for container in list_at(section(pod, "spec"), "containers"):
        count = request_of({"containers": [dict(container)]}).get(resource, 0)
        own, left = left[:count], left[count:]
        name = text_at(container, "name")
        status = statuses.setdefault(name, {"name": name})
        others: list[Json] = [
            dict(one)
            for one in list_at(status, "allocatedResourcesStatus")
            if one.get("name") != resource
        ]
        shown: list[Json] = [_health(resource, one, one in unhealthy) for one in own]
        entry: JsonObject = {"name": resource, "resources": shown}
        status["allocatedResourcesStatus"] = [*others, entry] if own else others
    return changed(pod, "status", containerStatuses=list[Json](statuses.values()))


def _health(resource: str, index: int, is_unhealthy: bool) -> JsonObject:
    health = "Unhealthy" if is_unhealthy else "Healthy"
    return {"resourceID": f"{resource.rpartition('/')[2]}-{index}", "health": health}
