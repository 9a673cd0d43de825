"""The device plugins of Ascend nodes, and ClusterD, as the API server sees them.

Before a pod starts, the kubelet asks the plugin of its node for so many chips, without the name of the pod. The plugin
serves the pod of that size on its node with the oldest `predicate-time` that has nothing yet, writes what it gave on that
pod as `huawei.com/AscendReal`, and reports the chips that are left (docs/reference/ascend-reports.md).
"""

import asyncio
import json
from collections import defaultdict
from typing import Final

from events.normalize import Json, JsonObject
from events.normalize_config_map import check_code, go_json
from projections.kinds.config_map import CONFIG_MAPS
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from tests.control_plane.api import STRATEGIC, Api, Object
from tests.control_plane.kubelet import cards_of, name_of
from tests.control_plane.manifests import CARD

REAL: Final = "huawei.com/AscendReal"
TIME: Final = "predicate-time"
UPDATED: Final = 1_700_000_000


class DevicePlugins:
    """The plugins of all nodes. With `is_collected` their reports are in one ConfigMap of ClusterD; without `has_reports`
    there are none."""

    def __init__(
        self, api: Api, chips: int, *, is_collected: bool, has_reports: bool = True
    ) -> None:
        self._api = api
        self._chips = chips
        self._is_collected = is_collected
        self._has_reports = has_reports
        self._given: dict[str, dict[str, Object]] = defaultdict(dict)
        """Node to chip to the pod that has it."""
        self._written = 0
        self._turn = asyncio.Lock()
        self._broken: dict[str, set[str]] = defaultdict(set)
        self.swapped: list[str] = []
        """Pods for which the kubelet asked while another one was served."""

    async def join(self, node: str) -> None:
        """The plugin starts: it lists the chips on the node, and reports all of them as available."""
        infos = {
            chip: {"IP": f"10.1.0.{number}", "SuperDeviceID": number}
            for number, chip in enumerate(self._names())
        }
        patch = {"metadata": {"annotations": {"baseDeviceInfos": json.dumps(infos)}}}
        (await self._api.patch(NODES.object_path(node), patch)).expect(200)
        self._given[node] = {}
        await self._report(node)

    async def collect(self, node: str) -> None:
        """Take back the chips of pods that are gone, and report: a plugin does so every few seconds."""
        async with self._turn:
            await self._free(node)
            await self._report(node)

    async def allocate(self, pod: Object) -> str:
        """Serve the pod whose turn it is. Return why the kubelet cannot start what it asked for; empty if it can."""
        async with self._turn:
            node = pod["spec"]["nodeName"]
            there = await self._free(node)
            waiting = [one for one in there if self._waits(one, cards_of(pod))]
            if not waiting:
                return "UnexpectedAdmissionError"
            served = min(waiting, key=lambda one: int(one["metadata"]["annotations"][TIME]))
            if served["metadata"]["uid"] != pod["metadata"]["uid"]:
                self.swapped.append(name_of(pod))
            chips = served["metadata"]["annotations"][CARD].split(",")
            held = self._given[node]
            if any(one in held for one in chips):
                return "UnexpectedAdmissionError"
            held.update(dict.fromkeys(chips, served))
            patch = {
                "metadata": {
                    "uid": served["metadata"]["uid"],
                    "annotations": {REAL: ",".join(chips)},
                }
            }
            path = PODS.object_path(served["metadata"]["name"], served["metadata"]["namespace"])
            (await self._api.patch(path, patch, STRATEGIC)).expect(200)
            await self._report(node)
            return ""

    async def break_chip(self, node: str, chip: str) -> None:
        """A chip fails for good, and the plugin reports it."""
        self._broken[node].add(chip)
        await self._report(node)

    async def _free(self, node: str) -> list[Object]:
        """Free the chips of pods that are gone; the pods that are on the node."""
        on_node = {"fieldSelector": f"spec.nodeName={node}"}
        there = await self._api.items(PODS.path, **on_node)
        uids = {one["metadata"]["uid"] for one in there}
        self._given[node] = {
            chip: holder
            for chip, holder in self._given[node].items()
            if holder["metadata"]["uid"] in uids
        }
        return there

    def _waits(self, pod: Object, chips: int) -> bool:
        annotations = pod["metadata"].get("annotations", {})
        has_chips = any(
            holder["metadata"]["uid"] == pod["metadata"]["uid"]
            for holder in self._given[pod["spec"]["nodeName"]].values()
        )
        is_pending = pod["status"]["phase"] == "Pending" and not has_chips
        return is_pending and TIME in annotations and cards_of(pod) == chips

    def _names(self) -> list[str]:
        return [f"Ascend910-{number}" for number in range(self._chips)]

    async def _report(self, node: str) -> None:
        if not self._has_reports:
            return
        self._written += 1
        if self._is_collected:
            infos: JsonObject = {
                f"mindx-dl-deviceinfo-{one}": self._info(one) for one in self._given
            }
            name, label = "cluster-info-device-0", {"mx-consumer-volcano": "true"}
            data = {name: go_json(infos).decode()}
            await self._write("mindx-dl", name, label, data)
            return
        info = self._info(node)
        cfg: JsonObject = {
            "DeviceInfo": info,
            "CheckCode": check_code(go_json(info)),
            "SuperPodID": -2,
        }
        data = {"DeviceInfoCfg": go_json(cfg).decode(), "ManuallySeparateNPU": ""}
        name = f"mindx-dl-deviceinfo-{node}"
        await self._write("kube-system", name, {"mx-consumer-cim": "true"}, data)

    def _info(self, node: str) -> JsonObject:
        broken = sorted(self._broken[node])
        used = {*self._given[node], *broken}
        free = ",".join(one for one in self._names() if one not in used)
        faults: list[Json] = [
            {
                "fault_type": "CardUnhealthy",
                "npu_name": chip,
                "fault_handling": "SeparateNPU",
                "fault_code": "80E18005",
            }
            for chip in broken
        ]
        ends = ("Fault", "NetworkUnhealthy", "Recovering", "Unhealthy")
        lists: JsonObject = {
            CARD: free,
            **{f"{CARD}-{end}": "" for end in ends},
            f"{CARD}-Unhealthy": ",".join(broken),
            f"{CARD}-Fault": json.dumps(faults, separators=(",", ":")),
        }
        return {"DeviceList": dict(sorted(lists.items())), "UpdateTime": UPDATED + self._written}

    async def _write(
        self, namespace: str, name: str, labels: dict[str, str], data: dict[str, str]
    ) -> None:
        metadata = {"namespace": namespace, "name": name, "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await self._api.apply(CONFIG_MAPS, manifest)
