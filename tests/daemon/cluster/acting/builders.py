"""A cluster of a few objects, as State has it after they were shown."""

import msgspec

from engine.engine import Engine
from events.daemon import DaemonStarted
from events.messages import ListCompleted, ListStarted, ObjectSeen
from events.record import GENESIS
from features.table import FEATURES
from projections.cluster import Cluster
from projections.state import State

VOLCANO = "scheduling.volcano.sh/v1beta1"


def cluster(pods: int = 2, *, has_group: bool = True, running: int = 0) -> Cluster:
    """Queue q1 (faulty), node n1, and the pods a-0, a-1 ... of the group default/a; the first of them run."""
    shown: list[dict[str, object]] = [
        _object("Queue", "q1", "uid-q1", VOLCANO, spec={"capability": {"cpu": "much"}}),
        _object("Node", "n1", "uid-n1", "v1", status={"allocatable": {"cpu": "8"}}),
    ]
    group = {"scheduling.k8s.io/group-name": "a"}
    if has_group:
        spec = {"minMember": 1, "queue": "q1"}
        shown.append(_object("PodGroup", "a", "uid-a", VOLCANO, "default", spec=spec))
    for index in range(pods):
        name = f"a-{index}"
        one = _object("Pod", name, f"uid-{name}", "v1", "default", annotations=group)
        containers = [{"name": "c", "resources": {"requests": {"cpu": "16"}}}]
        runs = index < running
        on = {"nodeName": "n1"} if runs else {}
        one["spec"] = {"schedulerName": "muster", "containers": containers, **on}
        one["status"] = {"phase": "Running" if runs else "Pending"}
        shown.append(one)
    step = Engine(State(FEATURES), GENESIS)
    step.start(
        DaemonStarted(holder="h", version="0", period_ns=1, scheduler_names=("muster",)), None, 1, 0
    )
    for kind in ("Node", "Queue", "PodGroup", "Pod"):
        listed = [ObjectSeen(msgspec.json.encode(one)) for one in shown if one["kind"] == kind]
        step.observe([ListStarted(kind), *listed, ListCompleted(kind, "1", len(listed))], 0)
    return step.state.cluster


def _object(
    kind: str,
    name: str,
    uid: str,
    api_version: str,
    namespace: str = "",
    **more: object,
) -> dict[str, object]:
    metadata: dict[str, object] = {"name": name, "uid": uid, "resourceVersion": "1"}
    if namespace:
        metadata["namespace"] = namespace
    if annotations := more.pop("annotations", None):
        metadata["annotations"] = annotations
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}
