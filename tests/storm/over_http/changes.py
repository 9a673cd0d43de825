"""Someone else who uses the cluster: makes, changes and deletes what he likes, by a seed."""

from collections.abc import Callable
from typing import Final

import msgspec

from events.normalize import Json, JsonObject
from simulator.api_server.api import Api
from simulator.api_server.http_message import JSON, Request
from simulator.manifest import Manifest
from simulator.manifest_fields import name_of, node_of, phase_of, section
from tests.storm.daemon_process import chance

NAMESPACE: Final = "default"
CORE: Final = "/api/v1"
PODS: Final = f"{CORE}/namespaces/{NAMESPACE}/pods"
NODES: Final = f"{CORE}/nodes"
QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
MERGE: Final = "application/merge-patch+json"
CARD: Final = "nvidia.com/gpu"
MODEL: Final = "H200"
GANG: Final = 3
PODS_MAX: Final = 90
"""More are not made before some are deleted."""
PITY: Final = 0.7
"""How many of the pods that are not over are deleted where nothing else is left to delete."""


class Changer:
    """Makes one change after the other. `changes` counts those that the server carried out."""

    def __init__(self, api: Api, seed: int) -> None:
        self.changes = 0
        self._api = api
        self._seed = seed
        self._turn = 0
        self._made = 0
        self._actions: tuple[tuple[int, Callable[[], None]], ...] = (
            (22, self._make_pods),
            (8, self._make_gang),
            (4, self._make_foreign_pod),
            (26, self._delete_pod),
            (8, self._fail_pod),
            (14, self._mark_pod),
            (12, self._mark_node),
            (4, self._cordon),
            (3, self._renew_node),
            (6, self._change_quota),
            (1, self._delete_group),
            (1, self._compact),
        )

    def change(self) -> None:
        """The next change. Some find nothing to change."""
        self._turn += 1
        point = self._chance("what") * sum(weight for weight, _ in self._actions)
        for weight, action in self._actions:
            point -= weight
            if point < 0:
                action()
                return

    def all_of(self, resource: str) -> list[Manifest]:
        """What there is of a kind, in the order of names."""
        objects = self._api.simulated.store.objects()[resource]
        return [objects[key] for key in sorted(objects)]

    def clear_up(self) -> None:
        """Uncordon all nodes and delete finished pods, so that all pods can be placed."""
        for node in self.all_of("Node"):
            self._ask("PATCH", f"{NODES}/{name_of(node)}", {"spec": {"unschedulable": None}}, MERGE)

    def _make_pods(self) -> None:
        if len(self.all_of("Pod")) < PODS_MAX:
            self._made += 1
            self._ask("POST", PODS, self._pod(f"p{self._made}"))

    def _make_gang(self) -> None:
        if len(self.all_of("Pod")) >= PODS_MAX:
            return
        self._made += 1
        name = f"g{self._made}"
        spec: JsonObject = {"minMember": GANG, "queue": self._queue()}
        metadata: JsonObject = {"name": name, "namespace": NAMESPACE}
        self._ask("POST", GROUPS, {"metadata": metadata, "spec": spec})
        for index in range(GANG):
            self._ask("POST", PODS, self._pod(f"{name}-{index}", name))

    def _make_foreign_pod(self) -> None:
        """One that another scheduler has placed, whatever room there is (rule K5.2)."""
        if len(self.all_of("Pod")) < PODS_MAX and (node := self._one_of("Node")):
            self._made += 1
            pod = self._pod(f"f{self._made}")
            spec = {**section(pod, "spec"), "schedulerName": "other", "nodeName": name_of(node)}
            self._ask("POST", PODS, {**pod, "spec": spec})

    def _delete_pod(self) -> None:
        """One that is over, if there is one; else seldom one that is not."""
        over = [pod for pod in self.all_of("Pod") if phase_of(pod) in ("Succeeded", "Failed")]
        pod = over[0] if over else self._one_of("Pod")
        if pod and (over or self._chance("pity") < PITY):
            self._ask("DELETE", f"{PODS}/{name_of(pod)}", {"gracePeriodSeconds": 1})

    def _fail_pod(self) -> None:
        pod = self._one_of("Pod")
        if pod and node_of(pod) and phase_of(pod) == "Running":
            status: JsonObject = {"phase": "Failed", "reason": "Evicted"}
            self._ask("PATCH", f"{PODS}/{name_of(pod)}/status", {"status": status}, MERGE)

    def _mark_pod(self) -> None:
        if pod := self._one_of("Pod"):
            marks: JsonObject = {"example.com/turn": str(self._turn)}
            body: JsonObject = {"metadata": {"annotations": marks}}
            self._ask("PATCH", f"{PODS}/{name_of(pod)}", body, MERGE)

    def _mark_node(self) -> None:
        if node := self._one_of("Node"):
            body: JsonObject = {"metadata": {"labels": {"turn": str(self._turn)}}}
            self._ask("PATCH", f"{NODES}/{name_of(node)}", body, MERGE)

    def _cordon(self) -> None:
        if node := self._one_of("Node"):
            is_off = section(node, "spec").get("unschedulable") is True
            body: JsonObject = {"spec": {"unschedulable": None if is_off else True}}
            self._ask("PATCH", f"{NODES}/{name_of(node)}", body, MERGE)

    def _renew_node(self) -> None:
        """A node that returns under its name is another (rule K6.8)."""
        if node := self._one_of("Node"):
            name = name_of(node)
            self._ask("DELETE", f"{NODES}/{name}")
            self._ask("POST", NODES, node_named(name))

    def _change_quota(self) -> None:
        limit = 8 + int(self._chance("quota") * 16)
        quota: JsonObject = {"volcano.sh/card.quota": msgspec.json.encode({MODEL: limit}).decode()}
        body: JsonObject = {"metadata": {"annotations": quota}}
        self._ask("PATCH", f"{QUEUES}/{self._queue()}", body, MERGE)

    def _delete_group(self) -> None:
        if group := self._one_of("PodGroup"):
            self._ask("DELETE", f"{GROUPS}/{name_of(group)}")

    def _compact(self) -> None:
        self._api.compact()
        self.changes += 1

    def _pod(self, name: str, group: str = "") -> JsonObject:
        annotations: JsonObject = {
            "muster.sh/run-seconds": str(1 + int(self._chance(name) * 3)),
            "scheduling.volcano.sh/queue-name": self._queue(),
            "volcano.sh/card.name": MODEL,
        }
        if group:
            annotations["scheduling.k8s.io/group-name"] = group
        cards = 1 + int(self._chance(name, "cards") * 2)
        resources: JsonObject = {"limits": {CARD: str(cards)}, "requests": {"cpu": "1"}}
        container: JsonObject = {"name": "main", "image": "image", "resources": resources}
        return {
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
            "spec": {"schedulerName": "muster", "containers": [container]},
        }

    def _queue(self) -> str:
        return "one" if self._chance("queue") < 0.5 else "two"

    def _one_of(self, resource: str) -> Manifest | None:
        found = self.all_of(resource)
        return found[int(self._chance(resource) * len(found))] if found else None

    def _chance(self, *which: object) -> float:
        return chance(self._seed, self._turn, *which)

    def _ask(self, method: str, path: str, body: Json = None, content_type: str = JSON) -> None:
        sent = b"" if body is None else msgspec.json.encode(body)
        request = Request(method=method, path=path, body=sent, content_type=content_type)
        answer = self._api.handle(request)
        assert answer.status in (200, 201, 404, 409), (method, path, answer.body)
        self.changes += answer.status < 300


def node_named(name: str) -> JsonObject:
    """A node with eight cards."""
    amounts: JsonObject = {"cpu": "32", "memory": "64Gi", "pods": "30", CARD: "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {f"{CARD}.product": MODEL}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def queue_named(name: str) -> JsonObject:
    """A queue with room for a dozen cards."""
    quota: JsonObject = {"volcano.sh/card.quota": f'{{"{MODEL}": 12}}'}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "annotations": quota},
    }
