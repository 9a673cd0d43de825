"""A gang on a real API server: a chip fails, a node stops, a node flaps, a whole switch is lost while the daemon is
killed."""

import asyncio
import json
from typing import Final

from events.decisions.reschedule import RescheduleDecided, RestartEnded
from projections.kinds.pod_group import POD_GROUPS
from tests.control_plane.api import Object
from tests.e2e.device_plugin import DevicePlugins
from tests.e2e.judge import events_of
from tests.e2e.rig import POOL, Pods, Rig, grouped, is_running, node_of

PODS: Final = 16
CHIPS: Final = 8
SPARE: Final = 6
"""Nodes beside those of the gang: one for the chip, one for the node, four for the switch."""
UNDER_SWITCH: Final = 4
FLAP_SECONDS: Final = 1.0
"""Less than the tolerance of the policy."""
POLICY: Final = {
    "actions": "enqueue, reschedule, allocate",
    "configurations": [
        {"name": "reschedule", "arguments": {"tolerance": "2s", "graceOverTime": "3s"}}
    ],
    "quotas": "none",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
    ],
}
LABELS: Final = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
RANK: Final = "hccl/rankIndex"


async def test_a_gang_runs_again_after_each_fault(rig: Rig) -> None:
    """Only faulty pods move, each new one with the rank of the one that it replaces; a node that flaps moves nothing."""
    plugins = DevicePlugins(rig.api, CHIPS, is_collected=False)
    nodes = await rig.add_nodes(PODS + SPARE, CHIPS, "server", **LABELS)
    for node in nodes:
        await plugins.join(node)
    rig.kubelet.allocate = plugins.allocate
    policy = rig.folder / "policy.yaml"
    policy.write_text(json.dumps(POLICY))
    daemon = await rig.started(policy=str(policy))
    await group(rig, "train")
    selector = {POOL: rig.namespace, **LABELS}
    await rig.deployment("train", PODS, CHIPS, grouped("train"), nodeSelector=selector)
    before = await rig.until_running(PODS, "train")

    struck = one_of(before, rank=5)
    took = {"chip": asyncio.get_running_loop().time()}
    await plugins.break_chip(node_of(struck), "Ascend910-3")
    before = await moved(rig, before, {node_of(struck)})
    took["chip"] = asyncio.get_running_loop().time() - took["chip"]

    struck = one_of(before, rank=7)
    took["node"] = asyncio.get_running_loop().time()
    rig.kubelet.stopped.add(node_of(struck))
    await rig.kubelet.condition(node_of(struck), "Unknown")
    before = await moved(rig, before, {node_of(struck)})
    took["node"] = asyncio.get_running_loop().time() - took["node"]

    flapping = node_of(one_of(before, rank=9))
    await rig.kubelet.condition(flapping, "Unknown")
    await asyncio.sleep(FLAP_SECONDS)
    await rig.kubelet.condition(flapping, "True")

    lost = {node_of(one_of(before, rank)) for rank in range(10, 10 + UNDER_SWITCH)}
    took["switch"] = asyncio.get_running_loop().time()
    rig.kubelet.stopped |= lost
    for node in sorted(lost):
        await rig.kubelet.condition(node, "Unknown")
    await daemon.kill()
    await daemon.start()
    await moved(rig, before, lost)
    took["switch"] = asyncio.get_running_loop().time() - took["switch"]

    print({what: f"{seconds:.1f} s" for what, seconds in took.items()})  # noqa: T201 - time to running again
    await rig.judged(daemon)
    decided = [one for one in await events_of(daemon.log) if isinstance(one, RescheduleDecided)]
    faulty = [one.node for each in decided for one in each.members if one.fault]
    assert flapping not in faulty
    first = [one for one in decided if not one.is_escalation]
    assert {one.scope for one in first} == {"pod"}
    ended = [one.code for one in await events_of(daemon.log) if isinstance(one, RestartEnded)]
    assert set(ended) == {"Restarted"}


async def moved(rig: Rig, before: Pods, lost: set[str]) -> Pods:
    """The pods once all run again: those of other nodes where they were, the others elsewhere with the same ranks."""
    stayed = {name_of(one): node_of(one) for one in before if node_of(one) not in lost}

    def run_elsewhere(found: Pods) -> bool:
        there = [one for one in found if node_of(one) not in lost]
        return len(there) == PODS and all(is_running(one) for one in there)

    found = await rig.until(run_elsewhere, "train", seconds=90)
    after = {name_of(one): node_of(one) for one in found if node_of(one) not in lost}
    assert stayed.items() <= after.items(), "healthy pods stay where they are"
    assert len(set(after.values())) == PODS
    living = [one for one in found if node_of(one) not in lost]
    assert sorted(map(rank_of, living)) == sorted(map(rank_of, before))
    return living


def one_of(pods: Pods, rank: int) -> Object:
    """The pod of a rank."""
    return next(one for one in pods if rank_of(one) == rank)


def rank_of(pod: Object) -> int:
    """The rank that a pod has."""
    return int(pod["metadata"]["annotations"][RANK])


def name_of(pod: Object) -> str:
    """The name of a pod."""
    return str(pod["metadata"]["name"])


async def group(rig: Rig, name: str) -> None:
    """A PodGroup whose faulty pods are evicted."""
    labels = {"fault-scheduling": "grace", "pod-rescheduling": "on"}
    manifest: Object = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": rig.namespace, "labels": labels},
        "spec": {"minMember": PODS, "queue": "default"},
    }
    await rig.api.create(POD_GROUPS, manifest)
