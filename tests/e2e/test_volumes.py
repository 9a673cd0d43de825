"""Pods with claims on a real API server, whose volume controller binds them: where their volumes are, pods go."""

from collections.abc import AsyncIterator

import pytest

from daemon.cluster.client.calls import EVENTS
from projections.api_resource import Resource
from projections.kinds.volumes import CLAIMS, DRIVERS, STORAGE_CLASSES, VOLUMES
from tests.control_plane.api import Object
from tests.e2e.rig import Rig, is_running, node_of

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Storage:
    """Claims with their volumes, drivers and classes of a test, gone when it ends: most are the whole cluster's."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._made: list[tuple[Resource, str]] = []

    async def _create(self, resource: Resource, name: str, **fields: object) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}  # type: ignore[dict-item]  # a mapping
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        await self._rig.api.create(resource, head | fields)
        if not resource.is_namespaced:
            self._made.append((resource, name))

    async def driver(self, name: str, *, attaches: bool) -> str:
        """A CSI driver; its full name."""
        name = f"{name}.{self._rig.namespace}"
        spec = {"attachRequired": attaches}
        await self._create(DRIVERS, name, spec=spec)
        return name

    async def storage_class(self, name: str, mode: str) -> str:
        """A class that no provisioner serves; its full name."""
        name = f"{self._rig.namespace}-{name}"
        await self._create(
            STORAGE_CLASSES, name, provisioner="test.example", volumeBindingMode=mode
        )
        return name

    async def claim(self, name: str, mode: str, storage_class: str = "", volume: str = "") -> None:
        """A claim; with a volume's name, one that the volume controller binds to it."""
        spec: Object = {
            "accessModes": [mode],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        if volume:
            spec["volumeName"] = volume
        await self._create(CLAIMS, name, metadata={"namespace": self._rig.namespace}, spec=spec)

    async def bound(
        self, name: str, mode: str, labels: dict[str, str] | None = None, **source: object
    ) -> None:
        """A claim and the volume to which it is bound."""
        volume = f"{self._rig.namespace}-{name}"
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": self._rig.namespace, "name": name},
            **source,
        }
        await self._create(VOLUMES, volume, metadata={"labels": labels or {}}, spec=spec)
        await self.claim(name, mode, volume=volume)

    async def close(self) -> None:
        """Delete them; a volume is held by its claim, which goes with the namespace."""
        for resource, name in self._made:
            await self._rig.api.delete(resource.object_path(name))
            if resource == VOLUMES:
                await self._rig.api.patch(
                    resource.object_path(name), {"metadata": {"finalizers": None}}
                )


@pytest.fixture
async def storage(rig: Rig) -> AsyncIterator[Storage]:
    made = Storage(rig)
    yield made
    await made.close()


def affinity(key: str, value: str) -> Object:
    """The node affinity of a volume."""
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def using(*claims: str) -> list[Object]:
    """The volumes of a pod."""
    return [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]


async def test_pods_and_a_gang_with_bound_claims_go_where_their_volumes_are(
    rig: Rig, storage: Storage
) -> None:
    first, second, third = await rig.add_nodes(3)
    for name, zone in ((first, "a"), (second, "b"), (third, "b")):
        await rig.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE: zone}}})
    network = await storage.driver("network", attaches=False)
    disks = await storage.driver("disks", attaches=True)

    def csi(driver: str, name: str) -> Object:
        return {"driver": driver, "volumeHandle": f"{rig.namespace}-{name}"}

    await storage.bound("shared", "ReadWriteMany", csi=csi(network, "shared"))
    await storage.bound("home", "ReadWriteOnce", csi=csi(network, "home"))
    await storage.bound("disk", "ReadWriteOnce", csi=csi(disks, "disk"))
    await storage.bound(
        "zonal",
        "ReadWriteMany",
        {ZONE: "b"},
        csi=csi(network, "zonal"),
        nodeAffinity=affinity(ZONE, "b"),
    )
    await storage.bound(
        "local",
        "ReadWriteOnce",
        local={"path": "/mnt/disk"},
        nodeAffinity=affinity(HOST, third),
    )
    at_once = await storage.storage_class("at-once", "Immediate")
    await storage.claim("unbound", "ReadWriteMany", at_once)
    daemon = await rig.started()

    await rig.pod("plain", cards=1)
    # On two nodes: nothing attaches this ReadWriteOnce volume.
    await rig.pod("home-0", cards=1, volumes=using("home"), nodeSelector={HOST: first})
    await rig.pod("zonal", cards=1, volumes=using("shared", "zonal"))
    await rig.pod("local", cards=1, volumes=using("local"))
    await rig.until(lambda found: sum(map(is_running, found)) == 4)
    await rig.pod("disk-0", cards=1, volumes=using("disk"))
    await rig.until(lambda found: sum(map(is_running, found)) == 5)
    await rig.pod("disk-1", cards=1, volumes=using("disk"))
    await rig.pod("home-1", cards=1, volumes=using("home"), nodeSelector={HOST: second})
    await rig.group("g", least=2)
    await rig.pod("g-0", cards=1, group="g", volumes=using("shared", "zonal"))
    await rig.pod("g-1", cards=1, group="g", volumes=using("shared", "zonal"))
    await rig.pod("unbound", cards=1, volumes=using("unbound"))
    await rig.pod("missing", cards=1, volumes=using("nowhere"))
    found = await rig.until(lambda found: sum(map(is_running, found)) == 9)

    where = {one["metadata"]["name"]: node_of(one) for one in found}
    assert (where["home-0"], where["home-1"]) == (first, second)
    assert where["zonal"] in (second, third)
    assert where["local"] == third
    assert where["disk-0"] == where["disk-1"]
    assert {where["g-0"], where["g-1"]} <= {second, third}
    assert where["unbound"] == where["missing"] == ""
    reasons = {
        one["metadata"]["name"]: condition
        for one in await rig.until(has_reasons)
        for condition in one["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    }
    assert reasons["missing"]["reason"] == reasons["unbound"]["reason"] == "NotReadyForScheduling"
    missing = f"claim {rig.namespace}/nowhere does not exist"
    assert missing in reasons["missing"]["message"]
    assert f"claim {rig.namespace}/unbound waits for a volume" in reasons["unbound"]["message"]
    events = await rig.api.items(EVENTS.collection_path(rig.namespace))
    assert any(missing in str(one.get("note")) for one in events)

    await storage.bound("nowhere", "ReadWriteMany", csi=csi(network, "nowhere"))
    await rig.until(lambda found: sum(map(is_running, found)) == 10)
    await rig.judged(daemon)


def has_reasons(found: list[Object]) -> bool:
    """Whether both pods that wait have a condition with a message."""
    waits = [one for one in found if one["metadata"]["name"] in ("missing", "unbound")]
    return all(
        any(
            condition["type"] == "PodScheduled" and "claim" in condition.get("message", "")
            for condition in one["status"].get("conditions", ())
        )
        for one in waits
    )
