"""The devices of a pod as its annotations state them.

A scheduler writes the devices that it decided on a pod, and the device plugin of the node those that the pod really
got. The second kind of statement is true whatever was decided; the first counts for pods of which no decision of
muster is known: those of other schedulers, and all pods after the log was lost. A statement that contradicts the
devices of the node is an error of the pod.
"""

from typing import Final

from events.limits import TOO_LONG, clipped, quoted
from projections.cluster import Cluster
from projections.device_family import FAMILIES, Assigned, uses_devices
from projections.devices import device_of
from projections.nodes import NodeFacts
from projections.pods import ASSIGNMENT_BYTES_MAX, Pod

INVALID_ASSIGNMENT: Final = "InvalidDeviceAnnotation"
"""Code of the error of a pod with an annotation that cannot be used."""


def assign_devices(cluster: Cluster, pod: Pod) -> None:
    """Set the devices of a pod that is not in the cluster yet from its annotations, if its node is known."""
    node = cluster.nodes.nodes.get(pod.node)
    problem, found = "", list[Assigned]()
    if pod.facts.assignments and node is not None and node.facts is not None:
        problem, found = _stated(pod, node.facts)
    _set_error(cluster, f"Pod/{pod.key}", problem)
    if problem or not found:
        return
    are_reported = all(one.is_reported for one in found)
    if are_reported or not pod.devices:
        pod.devices = tuple([name for one in found for name in one.devices])
        pod.are_devices_reported = are_reported


def reassign_devices(cluster: Cluster, node: str) -> None:
    """Set the devices of the pods on a node from their annotations, after the devices of the node have changed."""
    for uid in list(cluster.nodes.nodes[node].pods):
        old = cluster.pods[uid]
        if not old.facts.assignments:
            continue
        pod = old.copy()
        assign_devices(cluster, pod)
        if (pod.devices, pod.are_devices_reported) != (old.devices, old.are_devices_reported):
            cluster.replace_pod(old, pod)


def _stated(pod: Pod, node: NodeFacts) -> tuple[str, list[Assigned]]:
    """Return what the annotations of a pod state, family by family, or why they cannot be used."""
    for key, value in pod.facts.assignments:
        if value == TOO_LONG:
            most = ASSIGNMENT_BYTES_MAX
            return f"annotation {key} is longer than {most} bytes, or has control characters", []
    found: list[Assigned] = []
    for family in FAMILIES:
        if not uses_devices(pod.pod_class, family):
            continue
        stated = FAMILIES[family].assigned(pod.pod_class, dict(pod.facts.assignments), node)
        if stated is None:
            continue
        names = [name for one in node.devices_of(family) for name in one.names]
        if problem := stated.problem or _problem(stated, names):
            return problem, []
        found.append(stated)
    return "", found


def _set_error(cluster: Cluster, subject: str, problem: str) -> None:
    errors = cluster.config_errors
    others = [one for one in errors.current.get(subject, ()) if one[0] != INVALID_ASSIGNMENT]
    if problem:
        errors.put(subject, (*others, (INVALID_ASSIGNMENT, clipped(problem))))
    elif subject in errors.current:
        errors.put(subject, tuple(others))


def _problem(stated: Assigned, names: list[str]) -> str:
    """Return why a statement cannot be true of a node with devices of these names; empty if it can."""
    unknown = [one for one in stated.devices if device_of(one) not in names]
    if unknown:
        return f"its annotations name the device {quoted(unknown[0])}, which its node does not have"
    if len(set(stated.devices)) < len(stated.devices):
        return "its annotations name a device twice"
    return ""
