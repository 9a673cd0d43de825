"""Jobs of three classes under leaf switches of a real API server, and a daemon that is killed in the middle."""

import json
from collections import Counter
from typing import Final

from projections.kinds.config_map import CONFIG_MAPS
from projections.kinds.node import NODES
from projections.kinds.pod_group import POD_GROUPS
from tests.control_plane.api import Object
from tests.e2e.device_plugin import DevicePlugins
from tests.e2e.rig import POOL, Rig, grouped, is_running, node_of

SWITCHES: Final = 3
SERVERS: Final = 4
CHIPS: Final = 8
POLICY: Final = {
    "actions": "enqueue, allocate",
    "configurations": [{"name": "init-params", "arguments": {"nslb-version": "2.0"}}],
    "quotas": "none",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
    ],
}
JOBS: Final = (("foundation", 6), ("common", 4), ("padding", 2))
MAP: Final = CONFIG_MAPS.object_path("basic-tor-node-cm", "kube-system")


SHARED: Final = CONFIG_MAPS.object_path("tor-share-cm", "volcano-system")


async def test_jobs_of_three_classes_go_under_leaf_switches(rig: Rig) -> None:
    """A foundation job crosses two switches; the others are under one each, by the order of their class."""
    plugins = DevicePlugins(rig.api, CHIPS, is_collected=False)
    switch_of: dict[str, str] = {}
    labels = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
    nodes = await rig.add_nodes(SWITCHES * SERVERS, CHIPS, "server", **labels)
    listed: list[Object] = []
    for number in range(SWITCHES):
        servers = nodes[number * SERVERS : (number + 1) * SERVERS]
        address = f"10.7.{number}.0"
        listed.append({"tor_id": number, "tor_ip": address, "server": []})
        for at, node in enumerate(servers):
            switch_of[node] = address
            own = f"10.7.{number}.{at + 1}"
            listed[-1]["server"].append({"server_ip": own, "npu_count": CHIPS, "slice_id": at})
            status = {"status": {"addresses": [{"type": "InternalIP", "address": own}]}}
            (await rig.api.patch(NODES.object_path(node, "", "status"), status)).expect(200)
            await plugins.join(node)
    info = {"version": "1.0", "tor_count": SERVERS, "server_list": listed}
    rig.kubelet.allocate = plugins.allocate
    policy = rig.folder / "policy.yaml"
    policy.write_text(json.dumps(POLICY))
    await rig.api.delete(MAP)
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "basic-tor-node-cm", "namespace": "kube-system"},
        "data": {"tor_info": json.dumps(info)},
    }
    await rig.api.create(CONFIG_MAPS, manifest)
    try:
        daemon = await rig.started(policy=str(policy))
        for index, (name, count) in enumerate(JOBS):
            await job(rig, name, count, labels)
            if index == 0:
                await rig.until(lambda found: sum(map(is_running, found)) >= 1)
                await daemon.kill()
                await daemon.start()
            await rig.until_running(count, name)
        verdict = await rig.judged(daemon)
        shown = (await rig.api.get(SHARED)).expect(200)
    finally:
        await rig.api.delete(MAP)
        await rig.api.delete(SHARED)
    assert (verdict.bound, verdict.refused, verdict.starts) == (12, {}, 2)
    found = {name: await rig.pods(name) for name, _ in JOBS}
    for pods in found.values():
        assert len({node_of(one) for one in pods}) == len(pods), "one pod a node"
    under = {name: Counter(switch_of[node_of(one)] for one in pods) for name, pods in found.items()}
    assert sorted(under["foundation"].values()) == [2, 4]
    (whole,), (shared,) = (
        [switch for switch, count in under["foundation"].items() if count == wanted]
        for wanted in (4, 2)
    )
    assert under["common"] == {({*switch_of.values()} - {whole, shared}).pop(): 4}
    assert under["padding"] == {shared: 2}
    for name, pods in found.items():
        for pod in pods:
            is_shared = 0
            if name == "foundation":
                is_shared = 2 if switch_of[node_of(pod)] == whole else 1
            annotations = pod["metadata"]["annotations"]
            assert (annotations["isSharedTor"], annotations["isHealthy"]) == (str(is_shared), "0")
            assert annotations.get("sharedTorIp") == (shared if is_shared == 1 else None)

    states = json.loads(shown["data"]["global-tor-info"])
    assert {switch: one["IsSharedTor"] for switch, one in states.items()} == {
        **dict.fromkeys(switch_of.values(), 0),
        whole: 2,
        shared: 1,
    }
    jobs = {
        (switch, one["NodeName"], *one["JobName"])
        for switch, state in states.items()
        for one in state["nodes"]
    }
    assert jobs == {
        (switch_of[node_of(pod)], node_of(pod), name)
        for name, pods in found.items()
        for pod in pods
    }


async def job(rig: Rig, name: str, pods: int, labels: dict[str, str]) -> None:
    """A gang whose PodGroup says its class."""
    group: Object = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": rig.namespace,
            "labels": {
                "tor-affinity": "normal-schema" if name == "common" else "large-model-schema"
            },
        },
        "spec": {"minMember": pods, "queue": "default"},
    }
    await rig.api.create(POD_GROUPS, group)
    selector = {POOL: rig.namespace, **labels}
    await rig.deployment(name, pods, CHIPS, grouped(name), nodeSelector=selector)
