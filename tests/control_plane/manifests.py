"""Objects for tests on an API server, whole enough for a real one to take them."""

from typing import Any, Final

from tests.control_plane.api import Object

CARD: Final = "huawei.com/Ascend910"
GPU: Final = "nvidia.com/gpu"
GPU_NAME: Final = "NVIDIA-H200"
SCHEDULER: Final = "muster"
NODE_CPU: Final = "64"


def node(name: str, cards: int = 8, labels: dict[str, str] | None = None) -> Object:
    """A node that is ready, with what it has to give: cards of two products, so many of each."""
    amounts = {"cpu": NODE_CPU, "memory": "256Gi", "pods": "110", CARD: str(cards), GPU: str(cards)}
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": GPU_NAME} | (labels or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [condition("Ready", "True", "KubeletReady")],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.0.0",
                "kernelVersion": "6.1.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.34.4",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "test",
                "systemUUID": "",
            },
        },
    }


def pod(namespace: str, name: str, *, cards: int = 0, **spec: Any) -> Object:
    """A pod with one container. `spec` adds to its spec, or replaces what is there."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": pod_spec(cards=cards, **spec),
    }


def pod_spec(*, cards: int = 0, product: str = CARD, **spec: object) -> Object:
    """As a pod or a template has it."""
    requests = {"cpu": "100m", "memory": "64Mi"} | ({product: str(cards)} if cards else {})
    limits = {"limits": {product: str(cards)}} if cards else {}
    container = {
        "name": "main",
        "image": "registry.example/image:1",
        "resources": {"requests": requests, **limits},
    }
    return {
        "schedulerName": SCHEDULER,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        **spec,
    }


def running(node_name: str = "") -> Object:
    """The status of a pod that runs and is ready."""
    return {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition(kind, "True") for kind in ("Ready", "ContainersReady")],
        "hostIP": "10.0.0.1",
        **({"nominatedNodeName": node_name} if node_name else {}),
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Object:
    """One condition."""
    told = {"reason": reason, "message": message}
    return {"type": kind, "status": status, **{key: text for key, text in told.items() if text}}


def budget(namespace: str, name: str, selector: dict[str, str], least: int) -> Object:
    """A disruption budget: at least so many of the selected pods must be healthy."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": selector}},
    }


def binding(pod: Object, node_name: str, **metadata: object) -> Object:
    """What binds a pod (rule K8). `metadata` adds to the Binding's own, or replaces what is there."""
    known = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": known["name"],
            "namespace": known["namespace"],
            "uid": known["uid"],
            **metadata,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
    }


def eviction(pod: Object, **options: object) -> Object:
    """What evicts a pod (rule K9). `options` are its delete options."""
    known = pod["metadata"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": known["name"], "namespace": known["namespace"]},
        "deleteOptions": {"preconditions": {"uid": known["uid"]}, **options},
    }
