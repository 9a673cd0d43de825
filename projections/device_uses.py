"""Which pods use devices of a node, which devices these are, and which families write them on pods."""

from collections.abc import Iterable, Mapping

from projections.device_family import DeviceFamily, DeviceUse
from projections.nodes import Node
from projections.pod_class import PodClass
from projections.pods import Pod


def writing_families(families: Iterable[DeviceFamily], pod_class: PodClass) -> list[DeviceFamily]:
    """Return those of device families that write annotations on pods of a class that have devices with names."""
    return [one for one in families if one.writes_annotations and one.is_used_by(pod_class)]


def uses_of(
    node: Node, pods: Mapping[str, Pod], family: DeviceFamily, *, later: bool = False
) -> list[DeviceUse]:
    """Return the uses of devices of one family on a node: by the pods on it (with `later` without those that are
    terminating), by pods that a node trial has added, and by pods that are nominated to it. `pods` are all pods by
    UID."""
    found: list[DeviceUse] = []
    for uid in node.pods:
        pod = pods[uid]
        if not family.is_used_by(pod.pod_class):
            continue
        if not (later and (uid in node.trial_victims or pod.is_leaving)):
            stated = () if pod.decided.are_devices_reported else pod.decided.stated_devices
            found.append(
                DeviceUse(pod.pod_class, pod.devices, pod.decided.are_devices_reported, stated)
            )
    for held in (node.trial_pods, node.nominated_pods):
        for uid, devices in held.items():
            # A pod that another scheduler has nominated holds room by its request only.
            if devices and uid in pods and family.is_used_by(pods[uid].pod_class):
                found.append(DeviceUse(pods[uid].pod_class, devices))
    return found
