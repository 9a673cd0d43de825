"""Many pods on many nodes: a scenario, and pods that are created on demand."""

from typing import Final

import msgspec

from events.normalize import JsonObject
from simulator.api_server.api import Api
from simulator.api_server.http_message import Request
from simulator.manifest_fields import node_of
from simulator.scenario import Scenario, parse_scenario
from tests.storm.over_http.changes import CARD, MODEL, PODS, node_named

GANG: Final = 4
"""Of so many pods that come one after the other, each second lot is a gang, by its labels."""


def cluster_of(nodes: int) -> Scenario:
    """Return the given number of nodes with eight cards each, without pods."""
    cluster = [node_named(f"n{index}") for index in range(nodes)]
    document = {"scenario": "a crowd", "start_delay": "50ms", "cluster": cluster}
    return parse_scenario(msgspec.json.encode(document).decode(), "crowd")


class Crowd:
    """Pods that come to a server."""

    def __init__(self, api: Api) -> None:
        self.made = 0
        self._api = api

    def come(self, pods: int) -> None:
        """So many pods more, of one card each."""
        for _ in range(pods):
            pod = _pod(f"p{self.made:05}", self.made // GANG)
            self.made += 1
            request = Request(method="POST", path=PODS, body=msgspec.json.encode(pod))
            answer = self._api.handle(request)
            assert answer.status == 201, answer.body

    def waiting(self) -> int:
        """How many have no node."""
        pods = self._api.simulated.store.objects()["Pod"].values()
        return sum(not node_of(pod) for pod in pods)


def _pod(name: str, lot: int) -> JsonObject:
    labels: JsonObject = {}
    if lot % 2:
        group = "pod-group.scheduling.sigs.k8s.io"
        labels = {f"{group}/name": f"gang-{lot}", f"{group}/min-available": str(GANG)}
    marks: JsonObject = {"volcano.sh/card.name": MODEL}
    resources: JsonObject = {"limits": {CARD: "1"}, "requests": {"cpu": "1"}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": marks},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "main", "image": "image", "resources": resources}],
        },
    }
