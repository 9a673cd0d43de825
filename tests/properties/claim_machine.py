"""Histories in which pods have claims, and claims, volumes, classes and drivers come, change and go."""

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from events.normalize import JsonObject
from projections.volumes.facts import BOUND, CLAIM, DRIVER, STORAGE_CLASS, VOLUME, VOLUME_KINDS
from tests.properties import shapes
from tests.properties.machine import History, lives

NAMES: Final = ("c1", "c2")
CLASSES: Final = ("fast", "late")

STAGES: Final = ("missing", "unbound", "without its volume", "bound", "bound for one pod")

names = st.sampled_from(NAMES)
modes = st.sampled_from(["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"])


class ClaimHistory(History):
    """A history of a daemon that reads volumes. Claim `c1` is to be bound to volume `c1`, and so on."""

    volume_kinds = VOLUME_KINDS

    @initialize(stages=st.lists(st.sampled_from(STAGES), min_size=2, max_size=2))
    def pods_with_claims_wait(self, stages: list[str]) -> None:
        """There are two pods for each claim, and the claims have come to any stage."""
        amounts: JsonObject = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        self.api.put("Node", "n4", {"spec": {}, "status": {"allocatable": amounts}})
        for index, (name, stage) in enumerate(zip(NAMES, stages, strict=True)):
            mode = "ReadWriteOncePod" if stage == "bound for one pod" else "ReadWriteMany"
            if stage.startswith("bound"):
                self.volume_comes_or_changes(name, "", "", "", mode)
            if stage != "missing":
                self.claim_comes_or_changes(name, stage != "unbound", "", mode, [])
            self._put_user(f"p-{index}", (name,))
            self._put_user(f"p-{index + 2}", (name,))
        self._live(["done"])

    @rule(
        name=names,
        volume=st.booleans(),
        storage_class=st.sampled_from(["", *CLASSES]),
        mode=modes,
        life=lives,
    )
    def claim_comes_or_changes(
        self, name: str, volume: bool, storage_class: str, mode: str, life: list[str]
    ) -> None:
        """A claim waits, or is bound to its volume, be it there or not."""
        bound: JsonObject = {BOUND: "yes"} if volume else {}
        spec: JsonObject = {"accessModes": [mode], "storageClassName": storage_class}
        if volume:
            spec["volumeName"] = name
        self.api.put(CLAIM, name, {"spec": spec}, {"annotations": bound})
        self._live(life)

    @rule(
        name=names,
        zone=st.sampled_from(["", "a", "b", "a__b"]),
        node=st.sampled_from(["", "", "n1", "n2"]),
        driver=st.sampled_from(["", "disk.csi"]),
        mode=modes,
    )
    def volume_comes_or_changes(
        self, name: str, zone: str, node: str, driver: str, mode: str
    ) -> None:
        """A volume that all nodes can reach, or those of a zone, or one."""
        spec: JsonObject = {
            "accessModes": [mode],
            "claimRef": {"namespace": "default", "name": name},
        }
        if driver:
            spec["csi"] = {"driver": driver}
        if node:
            field: JsonObject = {"key": "metadata.name", "operator": "In", "values": [node]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
        labels: JsonObject = {"topology.kubernetes.io/zone": zone} if zone else {}
        self.api.put(VOLUME, name, {"spec": spec}, {"labels": labels})

    @rule(name=names, mode=modes, life=lives)
    def claim_is_bound_by_the_volume_controller(
        self, name: str, mode: str, life: list[str]
    ) -> None:
        self.volume_comes_or_changes(name, "", "", "", mode)
        self.claim_comes_or_changes(name, volume=True, storage_class="", mode=mode, life=life)

    @rule(name=st.sampled_from(CLASSES), binding=st.sampled_from(["Immediate", ""]))
    def storage_class_comes_or_changes(self, name: str, binding: str) -> None:
        self.api.put(STORAGE_CLASS, name, {"volumeBindingMode": binding})

    @rule(attaches=st.booleans())
    def driver_comes_or_changes(self, attaches: bool) -> None:
        self.api.put(DRIVER, "disk.csi", {"spec": {"attachRequired": attaches}})

    @rule(data=st.data())
    def what_claims_depend_on_goes(self, data: st.DataObject) -> None:
        there = [(kind, name) for kind in VOLUME_KINDS for name in self.api.names(kind)]
        if there:
            self.api.remove(*data.draw(st.sampled_from(there)))

    @rule(
        name=shapes.pod_names,
        claims=st.sampled_from([NAMES, *[(one,) for one in NAMES]]),
        life=lives,
    )
    def pod_with_claims_comes(self, name: str, claims: tuple[str, ...], life: list[str]) -> None:
        if name not in self.api.names("Pod"):
            self._put_user(name, claims)
        self._live(life)

    def _put_user(self, name: str, claims: tuple[str, ...]) -> None:
        spec: JsonObject = {
            "schedulerName": "muster",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "volumes": [
                {"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims
            ],
        }
        meta: JsonObject = {"annotations": {shapes.QUEUE: "default"}, "labels": {"app": "x"}}
        self.api.put("Pod", name, {"spec": spec, "status": {"phase": "Pending"}}, meta)
