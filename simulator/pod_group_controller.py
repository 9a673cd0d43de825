"""Volcano's podgroup controller: a PodGroup for every pod of ours that names none (volcano A.6).

Pods of one controlling owner share the group `podgroup-<uid of the owner>`; a pod without one has
`podgroup-<its uid>`. The scheduler uses the same names where no such controller runs, so placements do not depend
on it. Pods that name a group by coscheduling labels have one.
"""

from typing import Final

from events.normalize import Json, JsonObject
from projections.pod_annotations import COSCHEDULING_GROUP, GROUP_NAME, MIN_MEMBER, QUEUE_NAME
from simulator.defaulting import OUR_SCHEDULER
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    is_terminating,
    list_at,
    namespace_of,
    section,
    text_at,
    uid_of,
)
from simulator.object_factory import owner_reference
from simulator.object_store import Change, Key, Store
from simulator.quota_usage import min_resources
from simulator.scenario import kind_named

_POD: Final = kind_named("Pod")
_POD_GROUP: Final = kind_named("PodGroup")
_SCHEDULERS: Final = (OUR_SCHEDULER, "volcano")
_OWNERS: Final = ("ReplicaSet", "StatefulSet", "Job")
"""Workloads whose annotations their pod groups inherit."""
_PREFIX: Final = "volcano.sh/"
_PREEMPTABLE: Final = "volcano.sh/preemptable"
_OF_PODS: Final = (_PREEMPTABLE, "volcano.sh/revocable-zone", "volcano.sh/cooldown-time")
_BUDGETS: Final = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"


class PodGroupController:
    """Watches pods and their owners, and keeps the pod groups of those that name none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def on_change(self, change: Change) -> None:
        """Create, change or delete the pod group of a changed object."""
        resource = change.key[0]
        if resource == "Pod" and change.after is not None:
            self._on_pod_change(change.after)
        elif resource == "Pod" and change.before is not None:
            if _owner_of(change.before) is None:
                self._store.remove(_group_key(change.before))
        elif resource in _OWNERS and change.after is not None:
            self._note_owner(change.after)

    def _on_pod_change(self, pod: Manifest) -> None:
        metadata = section(pod, "metadata")
        annotations, labels = section(metadata, "annotations"), section(metadata, "labels")
        is_ours = text_at(section(pod, "spec"), "schedulerName") in _SCHEDULERS
        has_group = any(annotations.get(key) for key in GROUP_NAME)
        has_group = has_group or any(labels.get(key) for key in COSCHEDULING_GROUP)
        if not is_ours or has_group or is_terminating(pod):
            return
        key = _group_key(pod)
        if self._store.find(key) is None:
            self._store.put(_POD_GROUP, self._group(key, pod))
        named: JsonObject = {**annotations, GROUP_NAME[0]: key[2]}
        self._store.put(_POD, changed(pod, "metadata", annotations=named))

    def _note_owner(self, owner: Manifest) -> None:
        """Delete the group of a workload scaled to 0; update its minimum otherwise."""
        key: Key = ("PodGroup", namespace_of(owner), f"podgroup-{uid_of(owner)}")
        group = self._store.find(key)
        if group is None:
            return
        if section(owner, "spec").get("replicas") == 0:
            self._store.remove(key)
            return
        least = _minimum(owner)
        if least == section(group, "spec").get("minMember"):
            return
        asked = section(owner, "spec", "template", "spec")
        resources = min_resources([(asked, least)])
        self._store.put(_POD_GROUP, changed(group, "spec", minMember=least, minResources=resources))

    def _group(self, key: Key, pod: Manifest) -> Manifest:
        owner = _owner_of(pod)
        kind, name = (text_at(owner, "kind"), text_at(owner, "name")) if owner else ("", "")
        above = self._store.find((kind, key[1], name)) if kind in _OWNERS else None
        least = _minimum(above or {})
        annotations = _inherited(above or {}, pod)
        pod_spec = section(pod, "spec")
        spec: JsonObject = {
            "minMember": least,
            "minResources": min_resources([(pod_spec, least)]),
            "queue": self._queue(pod),
        }
        if pod_spec.get("priorityClassName"):
            spec["priorityClassName"] = pod_spec["priorityClassName"]
        if topology := _topology(annotations):
            spec["networkTopology"] = topology
        metadata: JsonObject = {
            "name": key[2],
            "namespace": key[1],
            "annotations": annotations,
            "ownerReferences": [dict(owner) if owner else owner_reference(pod)],
        }
        labels = section(pod, "metadata", "labels")
        if _PREEMPTABLE in labels:
            metadata["labels"] = {_PREEMPTABLE: labels[_PREEMPTABLE]}
        return {
            "apiVersion": _POD_GROUP.api_version,
            "kind": _POD_GROUP.kind,
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Pending"},
        }

    def _queue(self, pod: Manifest) -> str:
        """The queue that the pod names, else that of its namespace, else the default one."""
        namespace = self._store.find(("Namespace", "", namespace_of(pod))) or {}
        named = text_at(section(pod, "metadata", "annotations"), QUEUE_NAME)
        return (
            named
            or text_at(section(namespace, "metadata", "annotations"), QUEUE_NAME)
            or ("default")
        )


def _owner_of(pod: Manifest) -> dict[str, Json] | None:
    references = list_at(section(pod, "metadata"), "ownerReferences")
    return next((dict(one) for one in references if one.get("controller") is True), None)


def _group_key(pod: Manifest) -> Key:
    owner = _owner_of(pod)
    uid = text_at(owner, "uid") if owner else uid_of(pod)
    return "PodGroup", namespace_of(pod), f"podgroup-{uid}"


def _minimum(owner: Manifest) -> int:
    value = text_at(section(owner, "metadata", "annotations"), MIN_MEMBER)
    return max(1, int(value[:9])) if value.isdecimal() else 1


def _inherited(owner: Manifest, pod: Manifest) -> JsonObject:
    """The Volcano annotations of the owner, and those of the pod."""
    above = section(owner, "metadata", "annotations")
    own = section(pod, "metadata", "annotations")
    annotations: JsonObject = {
        name: value for name, value in above.items() if name.startswith(_PREFIX)
    }
    for name in (*_OF_PODS, TOPOLOGY_MODE, TOPOLOGY_TIER):
        if name in own:
            annotations[name] = own[name]
    budget = next((name for name in _BUDGETS if name in own), None)
    if budget is not None:
        # The two annotations of a disruption budget exclude each other.
        for name in _BUDGETS:
            annotations.pop(name, None)
        annotations[budget] = own[budget]
    return annotations


def _topology(annotations: JsonObject) -> JsonObject:
    """The network topology annotations, as a PodGroup's spec."""
    topology: JsonObject = {}
    if mode := text_at(annotations, TOPOLOGY_MODE):
        topology["mode"] = mode
    tier = text_at(annotations, TOPOLOGY_TIER)
    if tier.isdecimal():
        topology["highestTierAllowed"] = int(tier)
    return topology
