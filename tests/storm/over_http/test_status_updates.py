"""Status updates under load: a tenant whose pods come and go faster than their conditions can be written delays no others."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from daemon.cluster.server.simulated_api_server import running_server
from daemon.log.memory import Memory
from simulator.api_server.api import Api
from simulator.api_server.faults import Fault, FaultKind, ScriptedFaults
from simulator.api_server.http_message import Request
from simulator.scenario import parse_scenario
from tests.storm.over_http.hurry import hurriedly
from tests.storm.over_http.in_process_daemon import InProcessDaemon

CLUSTER: Final = """
scenario: one full node
cluster:
  - {kind: Namespace, metadata: {name: crowd}}
  - {kind: Namespace, metadata: {name: other}}
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1, pods: 110}}}
"""
LOT: Final = 120
"""Pods that the crowd makes each second, and deletes three seconds later; 4 patches take 0.3 s."""
SECONDS: Final = 12
LATE: Final = 10
"""Tries, each 0.5 s after the one before, until a condition is late: time runs ahead where the machine is loaded (`hurry.py`)."""


def ask(api: Api, method: str, namespace: str, name: str, cpu: str = "") -> None:
    """Create a pod, or delete it."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "main", "image": "image", "resources": {"requests": {"cpu": cpu}}}]
    pod = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "muster", "containers": containers},
    }
    if method == "DELETE":
        path, pod = f"{path}/{name}", {"gracePeriodSeconds": 0}
    answer = api.handle(Request(method=method, path=path, body=msgspec.json.encode(pod)))
    assert answer.status in (200, 201), answer.body


def is_told(api: Api, name: str) -> bool:
    """Return whether the pod of this name has the condition PodScheduled."""
    pods = api.simulated.store.objects()["Pod"].values()
    found = [msgspec.json.encode(one) for one in pods]
    return any(b'"PodScheduled"' in one for one in found if f'"{name}"'.encode() in one)


@hurriedly
async def test_a_crowd_of_short_lived_pods_keeps_no_pod_of_others_from_its_condition(
    tmp_path: Path,
) -> None:
    faults = ScriptedFaults()
    faults.add(Fault(FaultKind.DELAY, 30), "patch", "pods/status", times=100_000)
    scenario = parse_scenario(CLUSTER, "test.yaml")
    async with running_server(scenario, faults=faults) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        daemon = InProcessDaemon(scenario, kubeconfig, Memory(), lambda: 0.5)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(daemon.run())
            api = server.shell.api
            for second in range(SECONDS):
                for index in range(LOT):
                    ask(api, "POST", "crowd", f"p{second}-{index}", f"{2000 + index}m")
                    if second > 2:
                        ask(api, "DELETE", "crowd", f"p{second - 3}-{index}")
                ask(api, "POST", "other", f"canary-{second}", "3")
                await asyncio.sleep(1.5)
                for _ in range(LATE):
                    await asyncio.sleep(0.5)
                    if is_told(api, f"canary-{second}"):
                        break
                else:
                    raise AssertionError(f"canary-{second} has no condition")
            running.cancel()
        entries = [one for one in server.shell.journal.entries if one.verb == "patch"]
        gone = sum(one.status == 404 for one in entries if one.resource == "pods/status")
        assert gone * 4 < len(entries)
