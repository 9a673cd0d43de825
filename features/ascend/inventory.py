"""The Ascend devices of a node: from the annotation that lists all chips, and from the report of the device plugin."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from events.limits import NAME_BYTES_MAX, clipped, name_problem, quoted
from features.ascend.chips import CHIPS_MAX
from features.ascend.product_choice import (
    ACCELERATOR_TYPE,
    ASCEND_310,
    ASCEND_310P,
    ASCEND_910,
    NPU,
    TYPES,
    WHOLE_CHIPS,
    group_of,
)
from projections.device_family import DeviceSources
from projections.device_report import (
    PRE_SEPARATE,
    SUB_HEALTHY,
    UNHEALTHY,
    DeviceList,
    DeviceReport,
)
from projections.devices import Device, NodeDevices

DOMAIN: Final = "huawei.com/"
"""Beginning of the names of all resources of the stack."""

ACCELERATOR: Final = "accelerator"
SERVER_TYPE: Final = "servertype"
CHIP_NAME: Final = "node.kubernetes.io/npu.chip.name"
BASE_DEVICES: Final = "baseDeviceInfos"
SUPER_POD: Final = "superPodID"
SERVER_INDEX: Final = "serverIndex"
REAL: Final = "huawei.com/AscendReal"
"""Annotation in which the device plugin states the chips that a pod has."""
PREDICATE_TIME: Final = "predicate-time"
"""Annotation with the time of an assignment: a device plugin serves the pod with the oldest one first."""

OF_ACCELERATOR: Final[Mapping[str, tuple[str, ...]]] = {
    "huawei-Ascend910": (ASCEND_910, NPU),
    "huawei-Ascend310": (ASCEND_310,),
    "huawei-Ascend310P": (ASCEND_310P,),
    "huawei-npu": (NPU,),
}
"""Value of the label `accelerator` to the resources of whole chips that such a node has."""

SUB_HEALTH_FAULT: Final = "SubHealthFault"
"""What is to be done about a fault of a chip that goes on working."""

SHARED_MAX: Final = 4096
"""Maximum number of sets of devices that nodes share."""

_CHIP: Final = re.compile(r"([A-Za-z][A-Za-z0-9]{0,31})-([0-9]{1,4})")
_BASE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BASE_BYTES_MAX: Final = 1 << 16
"""Maximum length of the annotation with all chips: 64 chips have less than a quarter of that."""


class Inventory(Struct, frozen=True):
    """The chips of one resource of a node."""

    resource: str
    devices: tuple[Device, ...] = ()
    problem: str = ""
    """Why none of them can be given now."""
    knows_network: bool = True
    """Whether it is known which of them have no network. Without a report nothing is wrong with it."""
    are_all_known: bool = True
    """Whether the annotation names all of them."""


class Base(Struct, frozen=True):
    """What the annotation with all chips says."""

    names: tuple[str, ...] = ()
    """Names of chips; empty if there is no annotation, or if it lists virtual devices."""
    problem: str = ""


def read_base(text: str) -> Base:
    """Read the annotation `baseDeviceInfos`: a JSON object with the names of all chips as keys."""
    if not text:
        return Base()
    if len(text) > _BASE_BYTES_MAX:
        return Base(problem=f"annotation {BASE_DEVICES}: more than {_BASE_BYTES_MAX} bytes")
    try:
        names = tuple(_BASE.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return Base(problem=clipped(f"annotation {BASE_DEVICES}: {error}"))
    wrong = [one for one in names if len(one) > NAME_BYTES_MAX or not _is_name(one)]
    if wrong:
        text = f"annotation {BASE_DEVICES}: {quoted(wrong[0])} is not the name of a device"
        return Base(problem=text)
    return Base(names) if all(_CHIP.fullmatch(one) for one in names) else Base()


def chip_number(name: str) -> int | None:
    """Return the number of a chip, `Ascend910-3`; None if it is the name of none."""
    match = _CHIP.fullmatch(name)
    return None if match is None else int(match[2])


def resources_of(sources: DeviceSources) -> tuple[str, ...]:
    """Return the resources of whole chips that a node has, sorted; none if it is no Ascend node."""
    if sources.labels.get(ACCELERATOR) not in OF_ACCELERATOR:
        return ()
    return tuple([one for one in sorted(WHOLE_CHIPS) if sources.amounts.get(one, 0) > 0])


def label_faults(sources: DeviceSources) -> list[tuple[str, str]]:
    """Return the errors of the labels of an Ascend node: code and message."""
    found: list[tuple[str, str]] = []
    accelerator = sources.labels.get(ACCELERATOR, "")
    kind = sources.labels.get(ACCELERATOR_TYPE, "")
    has = [one for one in WHOLE_CHIPS if sources.amounts.get(one, 0) > 0]
    if other := _contradiction(accelerator, has):
        found.append(("ContradictoryLabels", other))
    if len(has) > 1:
        text = f"node has {' and '.join(has)}: chips of one resource can be given, not of two"
        found.append(("SeveralNpuResources", text))
    if ASCEND_910 in has and kind and kind not in TYPES and "card" not in kind:
        text = f"label {ACCELERATOR_TYPE}: {quoted(kind)} is no product: {', '.join(TYPES)}"
        found.append(("UnknownAcceleratorType", text))
    return found


def inventory(resource: str, sources: DeviceSources, base: Base) -> Inventory:
    """Return the chips of a resource. Without the annotation and without a report there are none, and the problem says
    so."""
    prefix = resource.rpartition("/")[2]
    report = sources.report
    listed = None if report is None else report.list_of(resource)
    named = [one for one in base.names if resource == NPU or one.startswith(f"{prefix}-")]
    problem = _problem(resource, sources, base, bool(named), listed)
    separated = () if report is None else report.separated
    known = listed or DeviceList(resource)
    broken = {*known.unhealthy, *separated}
    names = {*named} if named else _numbered(prefix, sources.amounts.get(resource, 0), known)
    names |= {
        *known.available,
        *known.unhealthy,
        *known.recovering,
        *(known.network_unhealthy or ()),
    }
    chips = sorted((number, one) for one in names if (number := chip_number(one)) is not None)
    if too_high := [one for number, one in chips if number >= CHIPS_MAX]:
        problem = problem or f"{too_high[0]}: chips have numbers from 0 to {CHIPS_MAX - 1}"
    if len({number for number, _ in chips}) < len(chips):
        problem = problem or "two chips have the same number"
    if len({_prefix(one) for _, one in chips}) > 1:
        problem = problem or f"chips of several types: {chips[0][1]} and others"
    linked = group_of(resource, sources.labels)
    devices = tuple(
        Device(
            name=name,
            number=number,
            groups=() if linked is None else (f"{linked.name} {number // linked.size}",),
            is_healthy=name not in broken,
            is_network_healthy=name not in (known.network_unhealthy or ()),
            is_recovering=name in known.recovering,
            is_listed=bool(named) if listed is None else name in known.available,
            faults=() if report is None else _faults(report, name),
        )
        for number, name in chips
    )
    knows_network = listed is None or listed.network_unhealthy is not None
    if not any(one.faults for one in devices):
        devices = _shared(devices)
    return Inventory(resource, devices, problem, knows_network, bool(named))


@lru_cache(maxsize=SHARED_MAX)
def _shared(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return the same devices, shared by all nodes that have such devices in such a state."""
    return devices


def node_devices(resource: str, sources: DeviceSources, base: Base, family: str) -> NodeDevices:
    """Return the chips of a resource as a fact about the node."""
    found, labels, report = inventory(resource, sources, base), sources.labels, sources.report
    return NodeDevices(
        family=family,
        resource=resource,
        devices=found.devices,
        card=card_model(resource, labels),
        product=labels.get(ACCELERATOR_TYPE, ""),
        problem=found.problem,
        knows_network=found.knows_network,
        are_all_known=found.are_all_known,
        super_pod_id=super_pod_of(sources),
        server_index=_place(-1 if report is None else report.server_index, sources, SERVER_INDEX),
        rack_id=-1 if report is None else report.rack_id,
        has_sub_healthy_devices=report is not None
        and any(one.handling == SUB_HEALTH_FAULT for one in report.faults),
        has_sub_healthy_switches=report is not None and report.switch.status == SUB_HEALTHY,
    )


def super_pod_of(sources: DeviceSources) -> int:
    """Return the SuperPoD of a node: as its report says, else its annotation; -1 for none."""
    report = sources.report
    return _place(-1 if report is None else report.super_pod_id, sources, SUPER_POD)


def _place(reported: int, sources: DeviceSources, annotation: str) -> int:
    """Return a place of a node: as its report says, else its annotation; -1 for none."""
    if reported >= 0:
        return reported
    text = sources.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def card_model(resource: str, labels: Mapping[str, str]) -> str:
    """Return the model of the chips as quotas name it: `Ascend910B3` by the label of the chip, else `Ascend910`."""
    chip = labels.get(CHIP_NAME, "")
    if chip and not name_problem(chip):
        return f"Ascend{chip.removeprefix('Ascend')}"
    prefix = resource.rpartition("/")[2]
    return labels.get(ACCELERATOR, "").removeprefix("huawei-") if prefix == "npu" else prefix


def _problem(
    resource: str,
    sources: DeviceSources,
    base: Base,
    is_named: bool,
    listed: DeviceList | None,
) -> str:
    """Return why no chip of a node can be given, whichever it is; "" if they can."""
    report = sources.report
    if faults := label_faults(sources):
        return faults[0][1]
    if report is not None:
        if UNHEALTHY in (report.node.status, report.switch.status):
            return "node is unhealthy"
        if PRE_SEPARATE in (report.node.status, report.switch.status):
            return "node health status is PreSeparate"
        if report.problem and (report.lists or not is_named):
            return report.problem
        if listed is not None and listed.problem:
            return listed.problem
    if base.problem and listed is None:
        return base.problem
    if not is_named and listed is None:
        return (
            f"the chips of {resource} are not known: the node has no annotation {BASE_DEVICES}, and no "
            "report of its device plugin names them"
        )
    return ""


def _numbered(prefix: str, count: int, listed: DeviceList) -> set[str]:
    """Return the names of the chips of a node that only a report names: chips in use are in no list."""
    if not (listed.available or listed.unhealthy or listed.recovering):
        return set()
    return {f"{prefix}-{number}" for number in range(min(count, CHIPS_MAX))}


def _contradiction(accelerator: str, has: Iterable[str]) -> str:
    known = OF_ACCELERATOR.get(accelerator, ())
    other = [one for one in has if one not in known]
    if not other:
        return ""
    return f"label {ACCELERATOR} is {accelerator}, but the node has {other[0]}"


def _faults(report: DeviceReport, name: str) -> tuple[str, ...]:
    return tuple(
        [f"{one.handling} {one.codes}".strip() for one in report.faults if one.device == name]
    )


def _prefix(name: str) -> str:
    return name.rpartition("-")[0]


def _is_name(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))
