"""Nodes that stop or cannot be reached, and what the node lifecycle controller does about them.

A node that is silent for long enough is not ready: its condition `Ready` is `Unknown`, it gets the taints
`node.kubernetes.io/unreachable`, and its pods are not ready. Its pods are deleted when they have tolerated the taint for as
long as they say (300 s if they say nothing, as the admission plugin DefaultTolerationSeconds has it). They stay terminating
until the node is back, or they are deleted without a grace period.
"""

from typing import Final

from msgspec import Struct, field

from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.kubelet import Kubelets
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    is_terminal,
    is_terminating,
    list_at,
    node_of,
    section,
    text_at,
    uid_of,
)
from simulator.object_store import Key, Store
from simulator.scenario import kind_named
from simulator.timeline import ActionKind, ScheduledAction, Timeline

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TOLERATION_NS: Final = 300 * SECOND
"""Time for which a pod tolerates a node that cannot be reached, if it says nothing."""

_NODE: Final = kind_named("Node")
_POD: Final = kind_named("Pod")
_STAYING: Final = ("DaemonSet", "Node")
"""Owners of pods that tolerate everything: those of DaemonSets, and static pods."""


class _Silent(Struct):
    """A node that reports nothing."""

    causes: dict[str, bool] = field(default_factory=dict)
    """Why, and whether that has lasted long enough to be noticed."""
    has_crashed: bool = False
    """Whether its pods have ended."""


class NodeLifecycle:
    """The silent nodes of the cluster."""

    def __init__(self, store: Store, timeline: Timeline, kubelets: Kubelets) -> None:
        self._store = store
        self._timeline = timeline
        self._kubelets = kubelets
        self._silent: dict[str, _Silent] = {}

    def stop(self, node: str, cause: str, *, has_crashed: bool) -> None:
        """A node falls silent. After a crash its containers are gone when it is back."""
        if self._store.find(("Node", "", node)) is None:
            return
        silent = self._silent.setdefault(node, _Silent())
        silent.causes.setdefault(cause, False)
        silent.has_crashed |= has_crashed
        self._kubelets.stop_node(node)

    def notice(self, node: str, cause: str) -> None:
        """The controller notices that a node is silent, if it still is for this cause."""
        silent = self._silent.get(node)
        if silent is None or cause not in silent.causes:
            return
        is_known = any(silent.causes.values())
        silent.causes[cause] = True
        if not is_known:
            self._mark_unreachable(node)

    def start(self, node: str, cause: str) -> None:
        """A cause is gone; with the last one the node reports again."""
        silent = self._silent.get(node)
        if silent is None or cause not in silent.causes:
            return
        is_known = any(silent.causes.values())
        del silent.causes[cause]
        if silent.causes:
            return
        del self._silent[node]
        found = self._store.find(("Node", "", node))
        if found is None:
            return
        if is_known:
            reachable = _with_condition(found, "Ready", "True", "KubeletReady", self._now)
            taints = _other_taints(found)
            self._store.put(_NODE, changed(reachable, "spec", taints=taints))
            self._mark_pods(node, "True")
        self._kubelets.start_node(node, has_crashed=silent.has_crashed)

    def forget(self, node: str) -> None:
        """A node is gone: another one of its name is another machine."""
        self._silent.pop(node, None)

    def evict(self, key: Key, uid: str) -> None:
        """Delete a pod whose toleration is over, if its node still cannot be reached."""
        pod = self._store.find(key)
        if pod is None or uid_of(pod) != uid or is_terminating(pod) or is_terminal(pod):
            return
        silent = self._silent.get(node_of(pod))
        if silent is not None and any(silent.causes.values()):
            self._kubelets.delete(key)

    @property
    def _now(self) -> str:
        return self._store.timestamp()

    def _mark_unreachable(self, node: str) -> None:
        found = self._store.find(("Node", "", node))
        if found is None:
            return
        found = _with_condition(found, "Ready", "Unknown", "NodeStatusUnknown", self._now)
        taints = _other_taints(found)
        taints += [
            {"key": UNREACHABLE, "effect": effect, "timeAdded": self._now}
            for effect in ("NoSchedule", "NoExecute")
        ]
        self._store.put(_NODE, changed(found, "spec", taints=taints))
        self._mark_pods(node, "False")
        for key in self._kubelets.pods_on(node):
            pod = self._store.find(key)
            later_ns = None if pod is None else _toleration_ns(pod)
            if pod is not None and later_ns is not None:
                due = ScheduledAction(ActionKind.EVICT, key, uid_of(pod))
                self._timeline.push(self._store.now_ns + later_ns, due)

    def _mark_pods(self, node: str, status: str) -> None:
        """Set the condition `Ready` of the pods that have one."""
        for key in self._kubelets.pods_on(node):
            pod = self._store.find(key)
            if pod is None or is_terminal(pod):
                continue
            conditions = list_at(section(pod, "status"), "conditions")
            if any(one.get("type") == "Ready" for one in conditions):
                self._store.put(_POD, _with_condition(pod, "Ready", status, "", self._now))


def set_condition(store: Store, node: str, condition: str, status: str, reason: str) -> None:
    """Set a condition of a node, as node-problem-detector does."""
    found = store.find(("Node", "", node))
    if found is not None:
        store.put(_NODE, _with_condition(found, condition, status, reason, store.timestamp()))


def _with_condition(
    manifest: Manifest, condition: str, status: str, reason: str, at: str
) -> Manifest:
    """Return the object with a condition replaced in its place, or added."""
    entry: JsonObject = {"type": condition, "status": status, "lastTransitionTime": at}
    if reason:
        entry["reason"] = reason
    there: list[Json] = [dict(one) for one in list_at(section(manifest, "status"), "conditions")]
    for index, one in enumerate(there):
        if isinstance(one, dict) and one.get("type") == condition:
            there[index] = entry
            break
    else:
        there.append(entry)
    return changed(manifest, "status", conditions=there)


def _other_taints(node: Manifest) -> list[Json]:
    taints = list_at(section(node, "spec"), "taints")
    return [dict(one) for one in taints if one.get("key") != UNREACHABLE]


def _toleration_ns(pod: Manifest) -> int | None:
    """Return for how long a pod stays on a node that cannot be reached; None for ever."""
    owners = list_at(section(pod, "metadata"), "ownerReferences")
    if any(text_at(one, "kind") in _STAYING for one in owners):
        return None
    times: list[int | None] = []
    for one in list_at(section(pod, "spec"), "tolerations"):
        is_for_it = one.get("key") in (None, "", UNREACHABLE)
        if is_for_it and one.get("effect") in (None, "", "NoExecute"):
            seconds = one.get("tolerationSeconds")
            times.append(seconds * SECOND if isinstance(seconds, int) else None)
    if not times:
        return TOLERATION_NS
    stated = [one for one in times if one is not None]
    return max(0, min(stated)) if stated else None
