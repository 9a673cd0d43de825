"""Faults of a scenario: steps that break a node, a device, a link or a switch, and steps that repair it.

fail: [{node: n1, for: 10m}, {node: n2, device: Ascend910-3, level: SeparateNPU}]
repair: [{node: n2, device: Ascend910-3}]
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, structs

from events.duration import SECOND
from events.yaml_document import YamlValue
from projections.node_faults import LEVELS
from simulator.known_objects import KnownObjects

NODE: Final = "node"
CONDITION: Final = "condition"
DEVICE: Final = "device"
LINK: Final = "link"
SWITCH: Final = "switch"
FAULTS: Final = (NODE, LINK, SWITCH)
"""Keys of a fault that name what is broken; that of a pod is another step."""

CHIP: Final = "chip"
NETWORK: Final = "network"
HOSTS: Final = "hosts"
SWITCH_LEVELS: Final = ("NotHandle", "SubHealthFault", "RestartRequest", "Separate")
"""Levels of a fault of the switches of a node (`FaultLevel` of `SwitchInfoCfg`)."""

DETECTION_NS: Final = 50 * SECOND
"""Time after which a silent node is not ready: `node-monitor-grace-period` of kube-controller-manager 1.32; 40 s before."""

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    NODE: (NODE, "for", "detected_after"),
    CONDITION: (NODE, CONDITION, "status", "reason", "for"),
    DEVICE: (
        *(NODE, DEVICE, "index", "kind", "level", "code", "exit_code"),
        *("for", "detected_after"),
    ),
    LINK: (LINK, CONDITION, "level", "for", "detected_after"),
    SWITCH: (SWITCH, "kind", "for", "detected_after"),
}
_REPAIR_KEYS: Final[dict[str, tuple[str, ...]]] = {
    NODE: (NODE,),
    CONDITION: (NODE, CONDITION),
    DEVICE: (NODE, DEVICE, "index"),
    LINK: (LINK,),
    SWITCH: (SWITCH,),
}


class FaultPlace(Struct, frozen=True):
    """What is broken."""

    kind: str
    """`node`, `condition`, `device`, `link` or `switch`"""
    name: str
    """The node; of a switch its own name."""
    part: str = ""
    """The type of the condition; the device: a chip (`Ascend910-3`), or resource and index (`nvidia.com/gpu/3`)."""


class RaiseFault(Struct, frozen=True):
    """Something breaks. If it is broken already, it stays so as this step says."""

    at_ns: int
    place: FaultPlace
    duration_ns: int | None = None
    """None: until it is repaired by a step."""
    detection_ns: int = 0
    """Time until it can be seen in the API."""
    level: str = ""
    """Of a chip: one of `LEVELS`; of a link: one of `SWITCH_LEVELS`, or empty."""
    code: str = ""
    """Fault codes of a chip; the reason of a condition."""
    kind: str = ""
    """Of a chip: `chip` or `network`; of a switch: `hosts` or `network`."""
    exit_code: int | None = None
    """With which the containers of the pod that has the device end; None if they go on."""
    condition: str = ""
    """The type of the condition that shows a link which is down; of a condition: its status."""


class RepairFault(Struct, frozen=True):
    """Something works again."""

    at_ns: int
    place: FaultPlace


def read_raise(value: YamlValue, at_ns: int, known: KnownObjects) -> RaiseFault:
    """Read an entry of `fail` that names a node, a link or a switch."""
    what, fields = _read(value, _KEYS, "fail")
    place = _place(value, what, fields, known)
    duration = fields["for"].time_ns("for") if "for" in fields else None
    if duration == 0:
        raise fields["for"].error("for must be longer than nothing")
    is_silent = what in (NODE, SWITCH)
    detection = DETECTION_NS if is_silent else 0
    if "detected_after" in fields:
        detection = fields["detected_after"].time_ns("detected_after")
    step = RaiseFault(at_ns, place, duration, detection)
    if what == CONDITION:
        status = _text(fields, "status", "True", ("True", "False", "Unknown"))
        return structs.replace(step, condition=status, code=_text(fields, "reason", ""))
    if what == DEVICE:
        return structs.replace(
            step,
            kind=_text(fields, "kind", CHIP, (CHIP, NETWORK)),
            level=_text(fields, "level", "SeparateNPU", LEVELS),
            code=_text(fields, "code", ""),
            exit_code=fields["exit_code"].whole("exit_code", 1) if "exit_code" in fields else None,
        )
    if what == LINK:
        level = _text(fields, "level", "", SWITCH_LEVELS)
        if level and CONDITION in fields:
            raise fields["level"].error("level cannot stand beside condition")
        condition = _text(fields, CONDITION, "NetworkUnavailable")
        return structs.replace(step, level=level, condition=condition)
    if what == SWITCH:
        kind = _text(fields, "kind", HOSTS, (HOSTS, NETWORK))
        is_late = kind == HOSTS or "detected_after" in fields
        return structs.replace(step, kind=kind, detection_ns=detection if is_late else 0)
    return step


def read_repair(value: YamlValue, at_ns: int, known: KnownObjects) -> RepairFault:
    """Read an entry of `repair`."""
    what, fields = _read(value, _REPAIR_KEYS, "repair")
    return RepairFault(at_ns, _place(value, what, fields, known))


def _read(
    value: YamlValue, keys: dict[str, tuple[str, ...]], step: str
) -> tuple[str, dict[str, YamlValue]]:
    """Return what an entry is about, and its fields."""
    given = value.mapping(step)
    named = [one for one in FAULTS if one in given]
    if len(named) != 1:
        raise value.error(f"{step} must name one of {', '.join(FAULTS)}")
    what: str = named[0]
    if what == NODE:
        narrower = [one for one in (CONDITION, DEVICE) if one in given]
        if len(narrower) > 1:
            raise value.error(f"{step}: condition cannot stand beside device")
        what = narrower[0] if narrower else what
    return what, value.fields(f"{step} of a {what}", keys[what])


def _place(
    value: YamlValue, what: str, fields: dict[str, YamlValue], known: KnownObjects
) -> FaultPlace:
    if what == SWITCH:
        switch = fields[SWITCH].text(SWITCH)
        known.check_switch(fields[SWITCH], switch)
        return FaultPlace(SWITCH, switch)
    key = LINK if what == LINK else NODE
    node = fields[key].text(key)
    known.check(fields[key], "Node", "", node)
    if what == CONDITION:
        return FaultPlace(what, node, fields[CONDITION].text(CONDITION))
    if what != DEVICE:
        return FaultPlace(what, node)
    device = fields[DEVICE].text(DEVICE)
    if "/" in device:
        index = fields["index"].whole("index") if "index" in fields else 0
        for name in ("kind", "level", "code"):
            if name in fields:
                raise fields[name].error(f"{name} goes with a chip, not with a counted device")
        known.check_counted_device(fields[DEVICE], node, device, index)
        return FaultPlace(what, node, f"{device}/{index}")
    if "index" in fields:
        raise fields["index"].error("index goes with a counted device such as nvidia.com/gpu")
    known.check_chip(fields[DEVICE], node, device)
    return FaultPlace(what, node, device)


def _text(fields: dict[str, YamlValue], name: str, default: str, known: Iterable[str] = ()) -> str:
    if name not in fields:
        return default
    text = fields[name].text(name)
    allowed = tuple(known)
    if allowed and text not in allowed:
        raise fields[name].error(f"{name}: {text!r} is not one of {', '.join(allowed)}")
    return text
