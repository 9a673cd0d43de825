"""A scenario that keeps a daemon busy: pods and gangs come, run for a short while and are deleted."""

import json
from pathlib import Path

from events.normalize import Json, JsonObject
from simulator.scenario import Scenario, parse_scenario

NODES = 6
CARDS = 8
GANG = 4
LIFE_SECONDS = 4.0
"""From the arrival of a pod to its deletion, whatever became of it: some are deleted while they wait."""
PERIOD = "50ms"
LAST = "last"
"""The pod that comes when all others are gone."""


def write_storm(path: Path, *, seconds: float, waves_per_second: float) -> Scenario:
    """A storm of so many seconds: two pods a wave, and a gang of four with each third."""
    timeline: list[tuple[float, str, list[Json]]] = []
    for wave in range(int(seconds * waves_per_second)):
        at = wave / waves_per_second
        pods = [f"s{wave}-{index}" for index in (1, 2)]
        come: list[Json] = [{**_pod(f"s{wave}-{{i}}", wave), "count": 2}]
        gone: list[Json] = [{"kind": "Pod", "name": name} for name in pods]
        if wave % 3 == 0:
            group = f"g{wave}"
            members = [f"{group}-{index}" for index in range(1, GANG + 1)]
            gang = {**_pod(f"{group}-{{i}}", wave, group), "count": GANG}
            come = [_pod_group(group), *come, gang]
            gone += [{"kind": "Pod", "name": name} for name in members]
            gone.append({"kind": "PodGroup", "name": group})
        timeline += [(at, "apply", come), (at + LIFE_SECONDS, "delete", gone)]
    # The end, which a daemon that lives comes to: after everything else, and it is not deleted.
    timeline.append((seconds + LIFE_SECONDS, "apply", [_pod(LAST, 0)]))
    timeline.sort(key=lambda entry: entry[0])
    steps = [{"at": f"{at:.3f}s", verb: what} for at, verb, what in timeline]
    document = {"scenario": "a storm", "period": PERIOD, "cluster": _cluster(), "steps": steps}
    text = json.dumps(document, indent=1)
    path.write_text(text)
    return parse_scenario(text, str(path))


def _cluster() -> list[Json]:
    allocatable: JsonObject = {
        "cpu": 32,
        "memory": "64Gi",
        "pods": 110,
        "nvidia.com/gpu": CARDS,
    }
    labels: JsonObject = {"nvidia.com/gpu.product": "H200"}
    quota: JsonObject = {"volcano.sh/card.quota": json.dumps({"H200": NODES * CARDS // 2})}
    return [
        {
            "kind": "Node",
            "metadata": {"name": "n{i}", "labels": labels},
            "status": {"allocatable": allocatable},
            "count": NODES,
        },
        {"kind": "Queue", "metadata": {"name": "q", "annotations": quota}},
    ]


def _pod_group(name: str) -> JsonObject:
    return {
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": GANG, "queue": "q"},
    }


def _pod(name: str, wave: int, group: str = "") -> JsonObject:
    annotations: JsonObject = {
        "muster.sh/run-seconds": str(1 + wave % 3),
        "scheduling.volcano.sh/queue-name": "q",
        "volcano.sh/card.name": "H200",
    }
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    resources: JsonObject = {"limits": {"nvidia.com/gpu": 1 + wave % 2}, "requests": {"cpu": 1}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    }
