"""A device family of the tests: chips that a device report lists, given lowest name first."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from events.normalize import Json, JsonObject
from projections.device_family import (
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
)
from projections.devices import Device, NodeDevices
from projections.nodes import NodeFacts
from projections.pod_class import Amounts
from tests.scheduling.builders import raw

CHIP: Final = "example.com/npu"
KIND: Final = "ConfigMap.device-info"


class ReportedChips(DeviceFamily):
    """Chips that the report of a node lists as available; a node without a report has none."""

    name = "reported-chips"

    def discover(self, sources: DeviceSources) -> Discovered:
        """Read the chips from the report."""
        listed = None if sources.report is None else sources.report.list_of(CHIP)
        if listed is None or not sources.amounts.get(CHIP):
            return Discovered()
        faults = (("Report", listed.problem),) if listed.problem else ()
        devices = tuple(Device(name, number) for number, name in enumerate(listed.available))
        found = NodeDevices(self.name, CHIP, devices, problem=listed.problem)
        return Discovered(devices={CHIP: found}, faults=faults)

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Every chip is asked for by its number."""
        return request.get(CHIP, 0)

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return the names of free chips."""
        taken = {name for use in uses for name in use.devices}
        return tuple([name for name in node.devices[CHIP].names if name not in taken])

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Pods that request no chip may be anywhere."""
        count = request.pod_class.amounts.get(CHIP, 0)
        return ChipFit(count) if count else None


@dataclass(frozen=True)
class ChipFit(DeviceFit):
    """A node serves the pod if enough chips are free."""

    count: int

    @property
    def reason(self) -> str:
        """Say how many chips are missing."""
        return f"node(s) had no {self.count} free chips"

    def points(self, available: Hashable) -> int:
        """Any node is as good as another."""
        return 0 if len(self.pick(available)) == self.count else -1

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the first chips."""
        assert isinstance(available, tuple)
        return available[: self.count]

    def obstacle(self, available: Hashable) -> str:
        """Name the free chips."""
        assert isinstance(available, tuple)
        return f"free chips: {' '.join(available) or 'none'}"


def chip_node(name: str, chips: int = 8) -> bytes:
    """A node with chips, of which only a report says the names."""
    status = {"allocatable": {"cpu": "64", "pods": "110", CHIP: str(chips)}}
    return raw("Node", name, spec={}, status=status)


def chip_pod(name: str, chips: int = 1, annotations: dict[str, str] | None = None) -> bytes:
    """A pod that asks for chips."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1", CHIP: str(chips)}}}
    return raw(
        "Pod",
        name,
        metadata={"annotations": annotations or {}},
        spec={"schedulerName": "muster", "containers": [container]},
        status={"phase": "Pending"},
    )


def report(node: str, *available: str, at: int = 1, code: str = "", **lists: str) -> bytes:
    """The ConfigMap of the device plugin of a node."""
    listed: JsonObject = {CHIP: ",".join(available)}
    listed |= {f"{CHIP}-{key}": text for key, text in lists.items()}
    info: Json = {"DeviceInfo": {"DeviceList": listed, "UpdateTime": at}, "CheckCode": code}
    return raw(
        "ConfigMap",
        f"mindx-dl-deviceinfo-{node}",
        metadata={"namespace": "kube-system", "labels": {"mx-consumer-cim": "true"}},
        data={"DeviceInfoCfg": msgspec.json.encode(info).decode()},
    )
