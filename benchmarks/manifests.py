"""Synthetic objects as an API server would send them: raw JSON, with all that muster does not read.

Nodes have 8 cards of one of four models, 96 cpu and 1 TiB.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from events.messages import ListCompleted, ObjectSeen, WatchMessage
from events.normalize import Json, JsonObject

CARD: Final = "nvidia.com/gpu"
MODELS: Final = ("NVIDIA-A100", "NVIDIA-H100", "NVIDIA-H200", "NVIDIA-L40S")
CARDS_PER_NODE: Final = 8
QUEUES: Final = 10
NAMESPACE: Final = "training"
_AT: Final = "2026-01-05T08:00:00Z"


class PodShape(Struct, frozen=True, kw_only=True):
    """One pod, as far as the benchmarks tell pods apart."""

    name: str
    queue: int = 0
    cards: int = 1
    models: tuple[str, ...] = MODELS[:1]
    cpu: str = "4"
    memory: str = "16Gi"
    group: str = ""
    priority: int = 0
    stated: tuple[tuple[str, str], ...] = ()
    """More annotations."""


class PodLife(Struct, frozen=True):
    """How far a pod has come. `version` is its resource version, which changes with every touch."""

    node: str = ""
    phase: str = "Pending"
    version: int = 1


WAITING: Final = PodLife()


def listed(kind: str, seen: Iterable[WatchMessage]) -> Iterator[WatchMessage]:
    """Objects, and that these were all of the kind."""
    count = 0
    for count, one in enumerate(seen, 1):  # noqa: B007
        yield one
    yield ListCompleted(resource=kind, resource_version="1", count=count)


@lru_cache(maxsize=8)
def nodes(count: int) -> tuple[WatchMessage, ...]:
    """The nodes of a cluster, made once for all benchmarks."""
    return tuple(listed("Node", (node(index) for index in range(count))))


def queues(node_count: int, share: int = QUEUES, count: int = QUEUES) -> list[WatchMessage]:
    """Queues, each with the `share`-th part of the cluster as its quota."""
    cards = node_count // len(MODELS) * CARDS_PER_NODE // share
    quota = msgspec.json.encode(dict.fromkeys(MODELS, cards)).decode()
    capability: JsonObject = {
        "cpu": str(96 * node_count // share),
        "memory": f"{1024 * node_count // share}Gi",
    }
    return list(
        listed(
            "Queue",
            (
                _seen(
                    {
                        "apiVersion": "scheduling.volcano.sh/v1beta1",
                        "kind": "Queue",
                        "metadata": {
                            **_metadata(f"queue-{index}", "q"),
                            "annotations": {"volcano.sh/card.quota": quota},
                        },
                        "spec": {"weight": 1, "capability": capability},
                        "status": {"state": "Open"},
                    }
                )
                for index in range(count)
            ),
        )
    )


def pod_group(name: str, queue: int, size: int) -> WatchMessage:
    """A gang: all of its pods or none."""
    return _seen(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {**_metadata(name, "g"), "namespace": NAMESPACE},
            "spec": {"minMember": size, "queue": f"queue-{queue}"},
            "status": {"phase": "Pending"},
        }
    )


def pod(shape: PodShape, life: PodLife = WAITING) -> WatchMessage:
    """A pod of about 2 KB, as a training job's controller and the admission chain leave it."""
    annotations: JsonObject = {}
    if shape.models:
        annotations["volcano.sh/card.name"] = "|".join(shape.models)
    if shape.group:
        annotations["scheduling.k8s.io/group-name"] = shape.group
    else:
        annotations["scheduling.volcano.sh/queue-name"] = f"queue-{shape.queue}"
    annotations.update(shape.stated)
    metadata = _metadata(shape.name, "p", version=life.version)
    metadata.update(namespace=NAMESPACE, annotations=annotations, labels=_labels(shape))
    metadata["ownerReferences"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": f"{shape.name}-job",
            "uid": f"{shape.name}-owner-6f1c3c55",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    return _seen(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": _pod_spec(shape, life),
            "status": _pod_status(shape, life),
        }
    )


def _labels(shape: PodShape) -> JsonObject:
    return {
        "app.kubernetes.io/name": "trainer",
        "app.kubernetes.io/instance": shape.group or shape.name,
        "batch.kubernetes.io/job-name": f"{shape.name}-job",
        "team": f"team-{shape.queue}",
    }


def _pod_spec(shape: PodShape, life: PodLife) -> JsonObject:
    amounts: JsonObject = {"cpu": shape.cpu, "memory": shape.memory}
    if shape.cards:
        amounts[CARD] = str(shape.cards)
    unready: Json = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        | {"tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    container: JsonObject = {
        "name": "main",
        "image": f"registry.example/team-{shape.queue}/trainer:2026.1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "train", "--config", f"/etc/{shape.name}.yaml"],
        "env": [
            {"name": "RUN", "value": shape.name},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "token", "mountPath": "/var/run/secrets/token", "readOnly": True},
        ],
    }
    spec: JsonObject = {
        "schedulerName": "muster",
        "restartPolicy": "Never",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "trainer",
        "terminationGracePeriodSeconds": 30,
        "priority": shape.priority,
        "preemptionPolicy": "PreemptLowerPriority",
        "securityContext": {"runAsUser": 1000},
        "tolerations": unready,
        "containers": [container],
        "volumes": [
            {"name": "data", "hostPath": {"path": "/mnt/data", "type": "Directory"}},
            {"name": "token", "secret": {"secretName": "trainer-token", "defaultMode": 420}},
        ],
    }
    if life.node:
        spec["nodeName"] = life.node
    return spec


def _pod_status(shape: PodShape, life: PodLife) -> JsonObject:
    status: JsonObject = {"phase": life.phase, "qosClass": "Guaranteed"}
    if not life.node:
        return status
    names = ["PodScheduled"]
    if life.phase != "Pending":
        names += ["Initialized", "ContainersReady", "Ready"]
        address = f"10.{len(shape.name)}.0.{life.version % 250}"
        status.update(hostIP="10.0.0.1", podIP=address, startTime=_AT)
        status["containerStatuses"] = [
            {
                "name": "main",
                "containerID": f"containerd://{shape.name}-9b1d5c0a7e",
                "imageID": "registry.example/trainer@sha256:1f0a",
                "ready": life.phase == "Running",
                "restartCount": 0,
                "state": {"running": {"startedAt": _AT}},
            }
        ]
    status["conditions"] = [
        {"type": name, "status": "True", "lastTransitionTime": _AT} for name in names
    ]
    return status


def node(index: int) -> WatchMessage:
    """A node; the models of cards take turns."""
    name = f"node-{index:05}"
    amounts: JsonObject = {
        "cpu": "96",
        "memory": "1Ti",
        "pods": "110",
        "ephemeral-storage": "3Ti",
        CARD: str(CARDS_PER_NODE),
    }
    labels: JsonObject = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        f"{CARD}.product": MODELS[index % len(MODELS)],
        f"{CARD}.count": str(CARDS_PER_NODE),
        "topology.kubernetes.io/zone": f"zone-{index % 3}",
    }
    conditions: Json = [
        {"type": kind, "status": "False", "lastHeartbeatTime": _AT, "lastTransitionTime": _AT}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    return _seen(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {**_metadata(name, "n"), "labels": labels},
            "spec": {"podCIDR": f"10.{index // 250}.{index % 250}.0/24"},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": conditions,
                "nodeInfo": {"kernelVersion": "6.8.0", "kubeletVersion": "v1.34.2"},
            },
        }
    )


def _metadata(name: str, kind: str, *, version: int = 1) -> JsonObject:
    return {
        "name": name,
        "uid": f"{kind}-{name}-3d0c-4c2e-9f6d",
        "resourceVersion": str(version),
        "creationTimestamp": _AT,
    }


def _seen(manifest: JsonObject) -> WatchMessage:
    return ObjectSeen(raw=msgspec.json.encode(manifest))
