"""Gangs on Ascend nodes of a real API server: chips, annotations, and a daemon that is killed in the middle."""

import json
from collections import defaultdict
from typing import Final

from msgspec import Struct

from tests.control_plane.api import Object
from tests.control_plane.manifests import CARD
from tests.e2e.device_plugin import REAL, TIME, DevicePlugins
from tests.e2e.rig import POOL, Rig, grouped, is_running, node_of

PODS: Final = 16
POLICY: Final = {
    "actions": "enqueue, allocate",
    "quotas": "none",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
    ],
}
RANK_TABLE: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


class Servers(Struct, frozen=True):
    """Servers of one product, and the gang that asks for them."""

    gang: str
    kind: str
    """The label `accelerator-type`; empty for none."""
    chips: int
    count: int
    chips_per_pod: int
    is_collected: bool = False
    """Whether ClusterD reports their chips, instead of the plugin of each node."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the nodes, which the pods select."""
        kind = {"accelerator-type": self.kind} if self.kind else {}
        return {"accelerator": "huawei-Ascend910", "gang": self.gang, **kind}


PRODUCTS: Final = (
    Servers("910", "", chips=8, count=16, chips_per_pod=8),
    Servers("910b", "module-910b-8", chips=8, count=8, chips_per_pod=4),
    Servers("a3", "module-a3-16", chips=16, count=8, chips_per_pod=8, is_collected=True),
)


async def test_gangs_get_their_chips_although_the_daemon_is_killed(rig: Rig) -> None:
    """The device plugin serves the oldest pod of a size on its node: no pod gets the chips of another one."""
    plugins = {
        one.gang: DevicePlugins(rig.api, one.chips, is_collected=one.is_collected)
        for one in PRODUCTS
    }
    by_node: dict[str, DevicePlugins] = {}
    for servers in PRODUCTS:
        for node in await rig.add_nodes(
            servers.count, servers.chips, servers.gang, **servers.labels
        ):
            by_node[node] = plugins[servers.gang]
            await by_node[node].join(node)

    async def allocate(pod: Object) -> str:
        return await by_node[node_of(pod)].allocate(pod)

    rig.kubelet.allocate, rig.kubelet.delay = allocate, 0.05
    policy = rig.folder / "policy.yaml"
    policy.write_text(json.dumps(POLICY))
    daemon = await rig.started(policy=str(policy))
    for servers in PRODUCTS:
        await rig.group(servers.gang, PODS)
        selector = {POOL: rig.namespace, **servers.labels}
        count, annotations = servers.chips_per_pod, grouped(servers.gang)
        await rig.deployment(servers.gang, PODS, count, annotations, nodeSelector=selector)
    await rig.until(lambda found: sum(map(is_running, found)) >= PODS)
    await daemon.kill()
    await daemon.start()
    await rig.until_running(PODS * len(PRODUCTS))
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (PODS * len(PRODUCTS), {})
    assert verdict.starts == 2
    assert (rig.kubelet.rejected, [one.swapped for one in plugins.values()]) == ([], [[], [], []])
    for servers in PRODUCTS:
        pods = await rig.pods(servers.gang)
        check_chips(pods, servers)
        check_annotations(pods, servers)


def chips_of(pod: Object) -> list[int]:
    """The numbers of the chips that a pod has."""
    names = pod["metadata"]["annotations"][REAL].split(",")
    return [int(one.removeprefix("Ascend910-")) for one in names]


def check_chips(pods: list[Object], servers: Servers) -> None:
    """The pods of a node have its chips from the lowest on, in the order of their `predicate-time`."""
    by_node: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        by_node[node_of(pod)].append(pod)
    assert len(by_node) == servers.count
    for node, there in by_node.items():
        there.sort(key=lambda pod: int(pod["metadata"]["annotations"][TIME]))
        assert len({pod["metadata"]["annotations"][TIME] for pod in there}) == len(there)
        chips = [one for pod in there for one in chips_of(pod)]
        assert chips == list(range(servers.chips)), node
        assert all(len(chips_of(pod)) == servers.chips_per_pod for pod in there)


def check_annotations(pods: list[Object], servers: Servers) -> None:
    """The annotations are those that the vendor's plugin writes, and no others."""
    ranks = [int(one["metadata"]["annotations"]["hccl/rankIndex"]) for one in pods]
    assert sorted(ranks) == list(range(PODS))
    for pod in pods:
        annotations = dict(pod["metadata"]["annotations"])
        if servers.chips_per_pod == servers.chips:
            assert json.loads(annotations.pop(RANK_TABLE)) == rank_table(pod)
        assert annotations.pop(TIME).isdecimal()
        assert annotations.pop("muster.sh/decision").isdecimal()
        assert annotations.pop("hccl/rankIndex").isdecimal()
        chips = ",".join(f"Ascend910-{one}" for one in chips_of(pod))
        assert annotations == {
            CARD: chips,
            REAL: chips,
            "distributed-job": "true",
            **grouped(servers.gang),
        }


def rank_table(pod: Object) -> Object:
    """The entry of the rank table of a pod that has all chips of its node."""
    devices = [
        {"device_id": str(one), "device_ip": f"10.1.0.{one}", "super_device_id": str(one)}
        for one in chips_of(pod)
    ]
    return {
        "pod_name": pod["metadata"]["name"],
        "server_id": pod["metadata"]["uid"],
        "server_ip": "",
        "host_ip": "",
        "super_pod_id": -1,
        "rack_id": -1,
        "devices": devices,
        "server_index": "",
    }
