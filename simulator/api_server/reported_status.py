"""The parts of a status that the simulated cluster leaves out because no decision depends on them.

Kubelets and controllers of a real cluster report conditions, times and container statuses; `kubectl describe`
and `kubectl wait` show and use them. They follow from what the simulated cluster reports, so they are added to
each version of an object as the API shows it.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from events.normalize import Json, JsonObject
from simulator.api_server.admission import quality_of_service
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    list_at,
    name_of,
    node_of,
    phase_of,
    section,
    text_at,
    whole_at,
)

_Conditions: TypeAlias = dict[str, JsonObject]
"""By type."""

KUBELET_VERSION: Final = "v1.34.4"
_NODE_INFO: Final[JsonObject] = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "",
    "osImage": "simulated",
    "containerRuntimeVersion": "simulated://1",
    "kubeletVersion": KUBELET_VERSION,
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}
_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_PRESSURE_KINDS: Final = tuple(kind for kind, _, _ in _PRESSURES)
_NOT_KNOWN: Final = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
_READY: Final[Mapping[Json, tuple[str, str]]] = {
    "True": ("KubeletReady", "kubelet is posting ready status"),
    "False": ("KubeletNotReady", "the kubelet is not ready"),
}
"""Reason and message of the condition `Ready` of a node."""
_ENDED: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
DEFAULT_UNAVAILABLE: Final = "25%"


class ReportedStatus:
    """Completes the status of nodes, pods and workloads."""

    def __init__(self, timestamp: Callable[[], str]) -> None:
        """`timestamp` returns the current time as in Kubernetes objects."""
        self._timestamp = timestamp
        self._completions: Mapping[tuple[Json, Json], Callable[[Manifest, Manifest], Manifest]] = {
            ("v1", "Node"): self._node,
            ("v1", "Pod"): self._pod,
            ("batch/v1", "Job"): self._job,
            ("apps/v1", "Deployment"): self._deployment,
            ("apps/v1", "ReplicaSet"): _with_observed_generation,
            ("apps/v1", "StatefulSet"): _with_observed_generation,
        }

    def complete(self, manifest: Manifest, before: Manifest | None) -> Manifest:
        """Return an object with its whole status. `before`: its last version, as returned by this function."""
        completion = self._completions.get((manifest["apiVersion"], manifest["kind"]))
        return manifest if completion is None else completion(manifest, before or {})

    def _pod(self, pod: Manifest, before: Manifest) -> Manifest:
        spec = section(pod, "spec")
        quality = text_at(section(pod, "status"), "qosClass") or quality_of_service(dict(spec))
        pod = changed(pod, "status", qosClass=quality)
        if not node_of(pod):
            return pod
        stated = _by_type(pod)
        conditions: _Conditions = {}
        if phase_of(pod) != "Failed" or list_at(section(pod, "status"), "containerStatuses"):
            # A pod that its kubelet rejected has no containers.
            statuses = self._container_statuses(pod, before)
            pod = changed(pod, "status", containerStatuses=statuses)
            conditions = _kubelet_conditions(pod)
            if phase_of(pod) == "Running" and "Ready" in stated:
                # The node controller marks the pods of a silent node; their containers stay ready.
                conditions["Ready"] = stated["Ready"]
        others = {kind: one for kind, one in stated.items() if kind not in conditions}
        conditions = {**conditions, "PodScheduled": {"status": "True"}, **others}
        return self._with_conditions(pod, before, conditions)

    def _container_statuses(self, pod: Manifest, before: Manifest) -> list[Json]:
        known = _container_status_by_name(pod)
        earlier = _container_status_by_name(before)
        return [
            self._container_status(pod, container, known.get(name, {}), earlier.get(name, {}))
            for container in list_at(section(pod, "spec"), "containers")
            for name in (text_at(container, "name"),)
        ]

    def _container_status(
        self,
        pod: Manifest,
        container: Mapping[str, Json],
        known: Mapping[str, Json],
        earlier: Mapping[str, Json],
    ) -> JsonObject:
        restarts = whole_at(known, "restartCount", 0)
        is_same = restarts == whole_at(earlier, "restartCount", 0)
        begun = text_at(section(earlier, "state", "running"), "startedAt")
        begun = begun or text_at(section(earlier, "state", "terminated"), "startedAt")
        state: JsonObject
        match phase_of(pod):
            case "Pending":
                state = {"waiting": {"reason": "ContainerCreating"}}
            case "Running":
                started = text_at(section(pod, "status"), "startTime")
                fresh = self._timestamp() if restarts else started or self._timestamp()
                state = {"running": {"startedAt": begun if is_same and begun else fresh}}
            case _:
                state = self._ended(
                    section(known, "state", "terminated"),
                    section(earlier, "state", "terminated"),
                    begun,
                )
        last = section(known, "lastState", "terminated")
        last_state: JsonObject = {}
        if last:
            last_earlier = section(earlier, "lastState", "terminated") if is_same else {}
            run_before = begun if not is_same else ""
            last_state = self._ended(last, last_earlier, run_before)
        return {
            **known,
            "name": container.get("name"),
            "image": text_at(container, "image"),
            "imageID": "",
            "ready": phase_of(pod) == "Running",
            "started": phase_of(pod) == "Running",
            "restartCount": restarts,
            "state": state,
            "lastState": last_state,
        }

    def _ended(
        self, terminated: Mapping[str, Json], earlier: Mapping[str, Json], begun: str
    ) -> JsonObject:
        times = {
            "startedAt": text_at(earlier, "startedAt") or begun,
            "finishedAt": text_at(earlier, "finishedAt") or self._timestamp(),
        }
        return {
            "terminated": {
                "exitCode": 0,
                **{key: value for key, value in times.items() if value},
                **terminated,
            }
        }

    def _node(self, node: Manifest, before: Manifest) -> Manifest:
        status, stated = section(node, "status"), _by_type(node)
        ready = stated.pop("Ready", {"status": "True"})
        reason, message = _READY.get(ready.get("status"), _NOT_KNOWN)
        conditions: _Conditions = {
            **{one[0]: _pressure(*one, stated, ready) for one in _PRESSURES},
            **{kind: one for kind, one in stated.items() if kind not in _PRESSURE_KINDS},
            "Ready": {"reason": reason, "message": message, **ready},
        }
        labels = section(node, "metadata", "labels")
        hostname = text_at(labels, "kubernetes.io/hostname") or name_of(node)
        amounts = status.get("allocatable") or status.get("capacity") or {}
        node = changed(
            node,
            "status",
            capacity=status.get("capacity") or amounts,
            allocatable=amounts,
            nodeInfo={**_NODE_INFO, **section(status, "nodeInfo")},
            addresses=status.get("addresses") or [{"type": "Hostname", "address": hostname}],
        )
        return self._with_conditions(node, before, conditions, time="lastHeartbeatTime")

    def _job(self, job: Manifest, before: Manifest) -> Manifest:
        status, earlier = section(job, "status"), section(before, "status")
        times: JsonObject = {}
        if section(job, "spec").get("suspend") is not True:
            times["startTime"] = earlier.get("startTime") or self._timestamp()
        stated = _by_type(job)
        if stated.get("Complete", {}).get("status") == "True":
            times["completionTime"] = earlier.get("completionTime") or self._timestamp()
        job = {**job, "status": {**times, **status}}
        return self._with_conditions(job, before, stated)

    def _deployment(self, deployment: Manifest, before: Manifest) -> Manifest:
        deployment = _with_observed_generation(deployment, before)
        spec, status = section(deployment, "spec"), section(deployment, "status")
        wanted = whole_at(spec, "replicas", 1)
        available = whole_at(status, "availableReplicas", 0)
        is_available = available >= wanted - _unavailable_max(spec, wanted)
        is_complete = available >= wanted == whole_at(status, "updatedReplicas", 0)
        has = "has" if is_available else "does not have"
        conditions: _Conditions = {
            **_by_type(deployment),
            "Available": {
                "status": "True" if is_available else "False",
                "reason": f"MinimumReplicas{'Available' if is_available else 'Unavailable'}",
                "message": f"Deployment {has} minimum availability.",
            },
            "Progressing": {
                "status": "True",
                "reason": "NewReplicaSetAvailable" if is_complete else "ReplicaSetUpdated",
                "message": "Deployment has successfully progressed."
                if is_complete
                else "Deployment is progressing.",
            },
        }
        return self._with_conditions(deployment, before, conditions, time="lastUpdateTime")

    def _with_conditions(
        self, manifest: Manifest, before: Manifest, conditions: _Conditions, time: str = ""
    ) -> Manifest:
        """Return the object with these conditions and their times.

        `time` names the field of the last report; `lastProbeTime` is null, as the kubelet writes it.
        """
        if not conditions:
            return manifest
        earlier, found = _by_type(before), []
        for kind, condition in conditions.items():
            last = earlier.get(kind, {})
            is_same = last.get("status") == condition.get("status")
            since = last.get("lastTransitionTime") if is_same else None
            since = since or condition.get("lastTransitionTime") or self._timestamp()
            reported: JsonObject = {time: self._timestamp()} if time else {"lastProbeTime": None}
            if time and {**last, **condition} == last and is_same:
                reported = {time: last.get(time)}
            shown: JsonObject = {"type": kind, **reported, **condition}
            found.append({**shown, "lastTransitionTime": since})
        listed: list[Json] = [*found]
        return changed(manifest, "status", conditions=listed)


def _pressure(
    kind: str, reason: str, message: str, stated: _Conditions, ready: JsonObject
) -> JsonObject:
    """A condition of a node that its kubelet reports: no pressure, unless the scenario says otherwise."""
    own = stated.get(kind, {})
    if own and own.get("reason") not in (reason, _NOT_KNOWN[0]):
        return own
    if ready.get("status") == "Unknown":
        return {"status": "Unknown", "reason": _NOT_KNOWN[0], "message": _NOT_KNOWN[1]}
    return {"status": "False", "reason": reason, "message": message}


def _kubelet_conditions(pod: Manifest) -> _Conditions:
    phase = phase_of(pod)
    unready: JsonObject = {"status": "False", "reason": _ENDED.get(phase, "ContainersNotReady")}
    if phase not in _ENDED:
        containers = list_at(section(pod, "spec"), "containers")
        names = " ".join(text_at(one, "name") for one in containers)
        unready["message"] = f"containers with unready status: [{names}]"
    ready: JsonObject = {"status": "True"} if phase == "Running" else unready
    initialized: JsonObject = {"status": "True"}
    if phase == "Succeeded":
        initialized["reason"] = _ENDED[phase]
    has_sandbox = "True" if phase == "Running" else "False"
    return {
        "PodReadyToStartContainers": {"status": has_sandbox},
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": dict(ready),
    }


def _with_observed_generation(manifest: Manifest, _before: Manifest) -> Manifest:
    generation = section(manifest, "metadata").get("generation")
    if generation is None:
        return manifest
    return changed(manifest, "status", observedGeneration=generation)


def _unavailable_max(spec: Mapping[str, Json], wanted: int) -> int:
    strategy = section(spec, "strategy")
    if wanted == 0 or text_at(strategy, "type") == "Recreate":
        return 0
    value = section(strategy, "rollingUpdate").get("maxUnavailable", DEFAULT_UNAVAILABLE)
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        return wanted * int(value[:-1]) // 100
    return value if isinstance(value, int) else 0


def _by_type(manifest: Mapping[str, Json]) -> _Conditions:
    """The conditions of an object; of two of the same type the later one counts."""
    conditions: _Conditions = {}
    for one in list_at(section(manifest, "status"), "conditions"):
        kind = text_at(one, "type")
        conditions.pop(kind, None)
        conditions[kind] = {key: value for key, value in one.items() if key != "type"}
    return conditions


def _container_status_by_name(pod: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    statuses = list_at(section(pod, "status"), "containerStatuses")
    return {text_at(one, "name"): one for one in statuses}
