"""Which pods use devices of a node, and which devices these are."""

from collections.abc import Mapping

from projections.device_family import DeviceUse, uses_devices
from projections.nodes import Node
from projections.pods import Pod


def uses_of(
    node: Node, pods: Mapping[str, Pod], family: str, *, later: bool = False
) -> list[DeviceUse]:
    """Return the uses of devices of one family on a node: by the pods on it (with `later` without those that are
    terminating), by pods that a node trial has added, and by pods that are nominated to it. `pods` are all pods by
    UID."""
    found: list[DeviceUse] = []
    for uid in node.pods:
        pod = pods[uid]
        if not uses_devices(pod.pod_class, family):
            continue
        if not (later and (uid in node.trial_victims or pod.is_leaving)):
            stated = () if pod.decided.are_devices_reported else pod.decided.stated_devices
            found.append(
                DeviceUse(pod.pod_class, pod.devices, pod.decided.are_devices_reported, stated)
            )
    for held in (node.trial_pods, node.nominated_pods):
        for uid, devices in held.items():
            # A pod that another scheduler has nominated holds room by its request only.
            if devices and uid in pods and uses_devices(pods[uid].pod_class, family):
                found.append(DeviceUse(pods[uid].pod_class, devices))
    return found
