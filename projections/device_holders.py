"""Which pods hold named devices of each node, and which devices are held twice.

muster never gives a device twice. But another scheduler may, a binding that was recorded as failed may turn out to have
happened, and a device plugin may have given a pod other devices than those that were decided. The device then counts
as taken once, and is an error of its node until one of the pods is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from events.limits import clipped
from projections.device_family import DeviceUse
from projections.devices import device_of
from projections.index import Index

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.deltas import NodeChanged, PodChanged, RecordApplied
    from projections.pods import Pod

HELD_TWICE: Final = "DeviceHeldTwice"
"""Code of the error of a node with such a device."""

DEVICES_MAX: Final = 16
"""Maximum devices that the error of a node names."""


class DeviceHolders(Index):
    """The pods with named devices, by node, and the errors of nodes of which devices are held twice."""

    name = "holders of devices"
    COMPARED: ClassVar[tuple[str, ...]] = ("pods", "errors")
    follows_status = False

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, tuple[str, ...]]] = {}
        """Node to UID of a pod to the names of its devices."""
        self.errors: dict[str, tuple[tuple[str, str], ...]] = {}
        """Node to code and message, for nodes of which devices are held twice."""
        self._changed: dict[str, None] = {}

    def rebuilt(self, cluster: Cluster, /) -> DeviceHolders:
        """Find the holders of devices again."""
        twin = DeviceHolders()
        for uid, pod in cluster.pods.items():
            if _holds(pod):
                twin.pods.setdefault(pod.node, {})[uid] = pod.devices
        for node in twin.pods:
            if errors := twin._errors_of(cluster, node):
                twin.errors[node] = errors
        return twin

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Update the devices of pods. If a pod on its node has other devices than before, some may be free now."""
        for one in changes:
            old, new = one.old, one.new
            if (old is not None and old.devices) or (new is not None and new.devices):
                cluster.position = one.position
                self._update(cluster, old, new)

    def _update(self, cluster: Cluster, old: Pod | None, new: Pod | None) -> None:
        before = old if old is not None and _holds(old) else None
        after = new if new is not None and _holds(new) else None
        if before is not None:
            left = self.pods[before.node]
            del left[before.facts.uid]
            if not left:
                del self.pods[before.node]
            self._changed[before.node] = None
        if after is not None:
            self.pods.setdefault(after.node, {})[after.facts.uid] = after.devices
            self._changed[after.node] = None
        if old is None or new is None or old.node != new.node:
            return
        if (old.devices, old.decided.are_devices_reported, old.decided.stated_devices) != (
            new.devices,
            new.decided.are_devices_reported,
            new.decided.stated_devices,
        ):
            cluster.nodes.invalidate(new.node)
            cluster.mark_node_freed(new.node)
            cluster.changed_rows.nodes[new.node] = None

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:
        """Compare the holders with the devices that the node has now."""
        facts = delta.new or delta.old
        assert facts is not None
        if facts.name in self.pods or facts.name in self.errors:
            self._changed[facts.name] = None

    def on_record(self, cluster: Cluster, delta: RecordApplied) -> None:
        """Find the devices of changed nodes that are held twice."""
        for name in self._changed:
            errors = self._errors_of(cluster, name)
            if errors:
                self.errors[name] = errors
            else:
                self.errors.pop(name, None)
            node = cluster.nodes.nodes.get(name)
            if node is not None and node.facts is not None:
                cluster.config_errors.put(f"Node//{name}", (*node.facts.faults, *errors))
        self._changed = {}

    def _errors_of(self, cluster: Cluster, name: str) -> tuple[tuple[str, str], ...]:
        """Return the error of a node of which devices are held twice."""
        holders = self.pods.get(name, {})
        node = cluster.nodes.nodes.get(name)
        if len(holders) < 2 or node is None or node.facts is None:
            return ()
        pods = sorted([cluster.pods[uid] for uid in holders], key=lambda one: one.key)
        texts: list[str] = []
        for family in cluster.device_families:
            uses = [DeviceUse(one.pod_class, one.devices) for one in pods]
            for device in family.overcommitted(node.facts, uses) if family.names_devices else ():
                keys = [one.key for one in pods if device in _devices(one)]
                texts.append(f"{device} is held by pods {', '.join(keys)}")
        if not texts:
            return ()
        more = [f"and {len(texts) - DEVICES_MAX} more devices"] if len(texts) > DEVICES_MAX else []
        return ((HELD_TWICE, clipped("; ".join([*texts[:DEVICES_MAX], *more]))),)


def _holds(pod: Pod) -> bool:
    return bool(pod.devices) and pod.occupies


def _devices(pod: Pod) -> tuple[str, ...]:
    return tuple([device_of(one) for one in pod.devices])
