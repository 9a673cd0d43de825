"""A device family for tests: slots in a row, of which a pod gets neighbours."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from events.normalize import JsonObject
from projections.device_family import (
    Assigned,
    DeviceFamily,
    DeviceFit,
    DeviceRequest,
    DeviceSources,
    DeviceUse,
    Discovered,
)
from projections.devices import Device, NodeDevices
from projections.nodes import NodeFacts
from projections.pod_class import Amounts, PodClass
from tests.scheduling.builders import features_with, raw

SLOT: Final = "example.com/slot"
LABEL: Final = "example.com/slots"
BROKEN: Final = "example.com/broken-slots"
DECIDED: Final = "example.com/decided-slots"
REAL: Final = "example.com/real-slots"
FREE: Final = "example.com/free-slots"
"""Label of nodes: the slots that their device plugin lists as free; all if it lists none."""


class Slots(DeviceFamily):
    """Slots in a row. A pod gets neighbours: the shortest free row that is long enough, and there the first ones."""

    name = "slots"
    pod_assignments = (DECIDED, REAL)
    reported_assignments = (REAL,)

    def discover(self, sources: DeviceSources) -> Discovered:
        """Read the names of the slots from a label."""
        if LABEL not in sources.labels or not sources.amounts.get(SLOT):
            return Discovered()
        names = sources.labels[LABEL].split("-")
        broken = sources.labels.get(BROKEN, "").split("-")
        free = sources.labels[FREE].split("-") if FREE in sources.labels else names
        devices = tuple(
            Device(name, number, is_healthy=name not in broken, is_listed=name in free)
            for number, name in enumerate(names)
        )
        return Discovered(devices={SLOT: NodeDevices(self.name, SLOT, devices)})

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Every slot is asked for by its number."""
        return request.get(SLOT, 0)

    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return the rows of free slots."""
        if any(not use.devices for use in uses):
            return ()  # It is not known which slots a pod has.
        taken = [name for use in uses for name in use.devices]
        rows: list[list[str]] = [[]]
        for one in node.devices[SLOT].devices:
            if one.name in taken or not one.is_healthy:
                rows.append([])
            else:
                rows[-1].append(one.name)
        return tuple([tuple(row) for row in rows if row])

    def assigned(
        self, pod_class: PodClass, annotations: Mapping[str, str], node: NodeFacts
    ) -> Assigned | None:
        """Read the names of the slots from an annotation: one of the scheduler, or one that is true."""
        key = next((key for key in (REAL, DECIDED) if key in annotations), None)
        if key is None:
            return None
        names = tuple(annotations[key].split("-"))
        count = pod_class.amounts[SLOT]
        if len(names) != count:
            problem = f"annotation {key} names {len(names)} slots of {count}"
            return Assigned(problem=problem)
        return Assigned(names, is_reported=key == REAL)

    def job_problem(self, request: DeviceRequest) -> tuple[str, str]:
        """Several pods of a job may ask for pairs only."""
        count = request.pod_class.amounts[SLOT]
        if request.job.is_distributed and count % 2:
            return "InvalidResourceRequest", f"{count} slots are no pairs, in a job of several pods"
        return "", ""

    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Pods that request no slot may be anywhere."""
        count = request.pod_class.amounts.get(SLOT, 0)
        return SlotFit(count) if count else None


@dataclass(frozen=True)
class SlotFit(DeviceFit):
    """A node serves the pod if enough neighbours are free there; the fewer remain beside them, the better."""

    count: int

    @property
    def reason(self) -> str:
        """Say how many neighbours are missing."""
        return f"node(s) had no {self.count} slots in a row"

    def points(self, available: Hashable) -> int:
        """Return a hundred points for each slot that does not remain beside those of the pod."""
        row = self._shortest(available)
        return 100_000 * (100 - len(row)) if row else -1

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the first slots of the shortest row."""
        return self._shortest(available)[: self.count]

    def obstacle(self, available: Hashable) -> str:
        """Name the free slots."""
        assert isinstance(available, tuple)
        return f"free slots: {' '.join(name for row in available for name in row) or 'none'}"

    def _shortest(self, rows: Hashable) -> tuple[str, ...]:
        """Return the shortest row of free slots that is long enough, the first of equals; () if there is none."""
        assert isinstance(rows, tuple)
        return min([row for row in rows if len(row) >= self.count], key=len, default=())


WITH_SLOTS: Final = features_with(Slots())


def slot_node(name: str, slots: str, broken: str = "", *, free: str | None = None) -> bytes:
    """A node with these slots; it can give those that are not broken. Its device plugin lists some as free, or none."""
    count = len(slots.split("-")) - len(broken.split("-") if broken else ())
    amounts = {"cpu": "64", "pods": "110", SLOT: str(count)}
    labels = {LABEL: slots, **({BROKEN: broken} if broken else {})}
    metadata = {"labels": labels if free is None else {**labels, FREE: free}}
    return raw("Node", name, metadata=metadata, spec={}, status={"allocatable": amounts})


def slot_pod(
    name: str,
    slots: int,
    *,
    on: str = "",
    phase: str = "Pending",
    group: str = "",
    priority: int = 0,
    scheduler: str = "muster",
    annotations: dict[str, str] | None = None,
    **metadata: object,
) -> bytes:
    """A pod that requests slots, perhaps of a gang."""
    requests: JsonObject = {"cpu": "1", **({SLOT: str(slots)} if slots else {})}
    in_group = {"scheduling.k8s.io/group-name": group} if group else {}
    found = {**metadata, "annotations": {**in_group, **(annotations or {})}}
    spec: JsonObject = {
        "schedulerName": scheduler,
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        **({"nodeName": on} if on else {}),
    }
    return raw("Pod", name, metadata=found, spec=spec, status={"phase": phase})
