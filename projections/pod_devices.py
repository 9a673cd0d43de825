"""The devices that a pod holds: those that were decided, and what its annotations state about them.

A scheduler writes the devices that it decided on a pod, and the device plugin of the node those that the pod really got.
But any user who may change the pod can write both, so a statement is followed as far as something else backs it:

| statement | what it does |
| --- | --- |
| of a pod that is first seen on its node | the pod holds these devices: another scheduler placed it, or the log was lost |
| by a scheduler, later | nothing: the devices are fixed (`projections/fixed_requests.py`) |
| by the device plugin, the devices that the pod holds | confirms them |
| by the device plugin, other devices | waits for the report of the node (below); the pod holds its devices as before |
| by the device plugin, after a confirmation | nothing, if it differs |

A device plugin can give a pod other devices than those that were decided: it may mix up two pods of one size. The
annotation alone does not show that. The report of the node (`projections/device_report.py`) lists the devices that no pod
uses. While a stated device is not listed, no other pod gets it. As soon as a report, made while the pod runs, lists the
devices that the pod holds and none of those that are stated instead, the statement is true: the pod holds the stated ones.

A statement that contradicts the devices of the node, or has no effect, is an error of the pod alone.
"""

from typing import Final

from events.limits import TOO_LONG, clipped, quoted
from projections.cluster import Cluster
from projections.config_errors import Pairs
from projections.device_families import DeviceFamilies
from projections.device_family import Assigned
from projections.devices import device_of, part_of
from projections.nodes import NodeFacts
from projections.pods import ASSIGNMENT_BYTES_MAX, Pod

INVALID_ASSIGNMENT: Final = "InvalidDeviceAnnotation"
"""Code of the error of a pod with an annotation that cannot be used."""

UNCONFIRMED_ASSIGNMENT: Final = "UnconfirmedDeviceAnnotation"
"""Code of the error of a pod with an annotation that states other devices than those that it holds."""

ERRORS: Final = (INVALID_ASSIGNMENT, UNCONFIRMED_ASSIGNMENT)

NAMES_MAX: Final = 8
"""Maximum number of devices that an error names."""


def assign_devices(cluster: Cluster, pod: Pod) -> Pod:
    """Return the row of a pod with the devices that its annotations state, if its node is known."""
    if not pod.facts.assignments and f"Pod/{pod.key}" not in cluster.config_errors.current:
        return pod
    node = cluster.nodes.nodes.get(pod.node)
    problem, found = "", list[Assigned]()
    if pod.facts.assignments and node is not None and node.facts is not None:
        problem, found = _stated(cluster.device_families, pod, node.facts)
    if pod.decided.stated_devices:
        pod = pod.decided_as(stated_devices=())
    faults: Pairs = ((INVALID_ASSIGNMENT, clipped(problem)),) if problem else ()
    if found and not problem:
        pod, problem = _assigned(pod, found)
        if problem:
            faults = ((UNCONFIRMED_ASSIGNMENT, clipped(problem)),)
    _set_faults(cluster, f"Pod/{pod.key}", faults)
    return pod


def _assigned(pod: Pod, found: list[Assigned]) -> tuple[Pod, str]:
    """Return the row of a pod with what its annotations state, as far as that is followed, and why not all of it is."""
    stated = tuple([name for one in found for name in one.devices])
    is_by_plugin = all(one.is_reported for one in found)
    if not pod.devices:
        pod = pod.decided_as(devices=stated, are_devices_reported=is_by_plugin)
    are_reported = pod.decided.are_devices_reported
    if not is_by_plugin or stated == pod.devices:
        if is_by_plugin and not are_reported:
            pod = pod.decided_as(are_devices_reported=True)
        return pod, ""
    held = _names(pod.devices)
    is_confirmed = are_reported and pod.facts.is_confirmed
    if not is_confirmed and _chips(stated) == _chips(pod.devices):
        return pod.decided_as(devices=stated, are_devices_reported=True), ""
    given = "its device plugin has confirmed" if is_confirmed else "it was given"
    return pod.decided_as(stated_devices=stated, are_devices_reported=is_confirmed), (
        f"its annotations name {_names(stated)}, but {given} {held}: "
        "this counts, unless a report of the node says otherwise"
    )


def reassign_devices(cluster: Cluster, node: str) -> None:
    """Set the devices of the pods on a node from their annotations and the report of the node, after the devices of the
    node have changed."""
    found: dict[str, Pod] = {}
    for uid in list(cluster.nodes.nodes[node].pods):
        old = cluster.pods[uid]
        if old.facts.assignments:
            found[uid] = assign_devices(cluster, old)
    waiting = [pod for pod in found.values() if pod.decided.stated_devices]
    for pod in _backed(cluster, node, waiting) if waiting else ():
        found[pod.facts.uid] = pod.decided_as(
            devices=pod.decided.stated_devices, are_devices_reported=True, stated_devices=()
        )
        _set_faults(cluster, f"Pod/{pod.key}", ())
    for uid, pod in found.items():
        old = cluster.pods[uid]
        if pod.decided != old.decided:
            cluster.replace_pod(old, pod)


def _backed(cluster: Cluster, name: str, waiting: list[Pod]) -> list[Pod]:
    """Return the pods that run and of which the report of their node says that what their annotations state is true: it lists
    what they hold as free, and not what is stated instead, which no other pod holds or states."""
    node = cluster.nodes.nodes[name]
    if node.facts is None:
        return []
    devices = {one.name: one for there in node.facts.devices.values() for one in there.devices}
    times: dict[str, int] = {}
    for pod in waiting:
        for one in _chips(pod.decided.stated_devices):
            times[one] = times.get(one, 0) + 1
    held: dict[str, None] = {}
    for uid in node.pods:
        held.update(dict.fromkeys(_chips(cluster.pods[uid].devices)))
    found: list[Pod] = []
    for pod in waiting:
        before, now = _chips(pod.devices), _chips(pod.decided.stated_devices)
        left = [one for one in before if one not in now]
        taken = [one for one in now if one not in before]
        if (
            pod.facts.phase == "Running"
            and not any(part_of(one) for one in (*pod.devices, *pod.decided.stated_devices))
            and all(one in devices and devices[one].is_listed for one in left)
            and not any(devices[one].is_listed or one in held or times[one] > 1 for one in taken)
        ):
            found.append(pod)
    return found


def _chips(names: tuple[str, ...]) -> list[str]:
    """Return the devices that names of devices or of parts of devices mean, sorted."""
    return sorted([device_of(one) for one in names])


def _names(devices: tuple[str, ...]) -> str:
    more = f" and {len(devices) - NAMES_MAX} more" if len(devices) > NAMES_MAX else ""
    return ", ".join(devices[:NAMES_MAX]) + more


def _stated(families: DeviceFamilies, pod: Pod, node: NodeFacts) -> tuple[str, list[Assigned]]:
    """Return what the annotations of a pod state, family by family, or why they cannot be used."""
    for key, value in pod.facts.assignments:
        if value == TOO_LONG:
            most = ASSIGNMENT_BYTES_MAX
            return f"annotation {key} is longer than {most} bytes, or has control characters", []
    found: list[Assigned] = []
    for family in families:
        if not family.is_used_by(pod.pod_class):
            continue
        stated = family.assigned(pod.pod_class, dict(pod.facts.assignments), node)
        if stated is None:
            continue
        names = [name for one in node.devices_of(family.name) for name in one.names]
        if problem := stated.problem or _problem(stated, names):
            return problem, []
        found.append(stated)
    return "", found


def _set_faults(cluster: Cluster, subject: str, faults: Pairs) -> None:
    errors = cluster.config_errors
    if faults or subject in errors.current:
        others = [one for one in errors.current.get(subject, ()) if one[0] not in ERRORS]
        errors.put(subject, (*others, *faults))


def _problem(stated: Assigned, names: list[str]) -> str:
    """Return why a statement cannot be true of a node with devices of these names; empty if it can."""
    unknown = [one for one in stated.devices if device_of(one) not in names]
    if unknown:
        return f"its annotations name the device {quoted(unknown[0])}, which its node does not have"
    if len(set(stated.devices)) < len(stated.devices):
        return "its annotations name a device twice"
    return ""
