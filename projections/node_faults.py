"""Faults of nodes and their devices: what reports, conditions and taints say, and what follows for pods.

    source           seen in                                        effect
    device plugin    a chip in the list `-Unhealthy`, or separated  pods that have the chip are faulty
                     a chip in `-NetworkUnhealthy`                  none on pods that run
                     `SubHealthFault` of a chip                     pods that have the chip are sub-healthy
                     a fault of the whole node                      all pods of the node are faulty
    NodeD            `NodeStatus` UnHealthy                         all pods of the node are faulty
                     `NodeStatus` PreSeparate                       none on pods that run; no new ones
    switch           `NodeStatus` UnHealthy                         all pods of the node are faulty
                     `NodeStatus` SubHealthy                        all pods of the node are sub-healthy
    node             condition Ready is not True; the node is gone  all pods of the node are faulty
    node condition   a condition that the policy names is True      all pods of the node are faulty
    taint            a taint whose key the policy names             all pods of the node are faulty
    allocatable      fewer devices allocatable than the capacity    none: no object says which pod has them

Sources and levels: `docs/reference/ascend.md`, `docs/faults.md`.
"""

from typing import Final

from msgspec import Struct

from projections.device_report import (
    HEALTHY,
    HEALTHY_REPORT,
    PRE_SEPARATE,
    SUB_HEALTHY,
    UNHEALTHY,
    DeviceFault,
    NodeState,
)
from projections.nodes import NodeFacts

NODE_UNHEALTHY: Final = "NodeUnhealthy"
CARD_UNHEALTHY: Final = "CardUnhealthy"
CARD_NETWORK_UNHEALTHY: Final = "CardNetworkUnhealthy"
SUB_HEALTH: Final = "SubHealthFault"
CLOSED: Final = "PreSeparate"
RECORDED: Final = "Recorded"
"""Effects, the vendor's names where it has one: on all pods of the node, on pods with the device, none on running ones,
less health, no new pods, and none."""

_RANK: Final = {
    NODE_UNHEALTHY: 0,
    CARD_UNHEALTHY: 1,
    CARD_NETWORK_UNHEALTHY: 2,
    SUB_HEALTH: 3,
    CLOSED: 4,
    RECORDED: 5,
}
EFFECTS: Final = tuple(_RANK)
"""Effects, the worst first."""

SUB_HEALTH_LEVEL: Final = "SubHealthFault"
LEVELS: Final = (
    "NotHandleFault",
    SUB_HEALTH_LEVEL,
    "PreSeparateNPU",
    "FreeRestartNPU",
    "RestartRequest",
    "RestartBusiness",
    "RestartNPU",
    "SeparateNPU",
    "ManuallySeparateNPU",
)
"""Levels of chip faults (`fault_handling`), the worst last."""

_TOLERATED: Final = LEVELS[:4]
"""Levels with which a running pod goes on."""

FAULTS_MAX: Final = 256
"""Maximum faults of a node that are kept, the worst first."""


class NodeFault(Struct, frozen=True, array_like=True):
    """A fault of a node, or of a device of it."""

    source: str
    device: str
    """Name of the device; empty for the node."""
    level: str
    """What the source says: a level of `LEVELS`, a state of the node, or a reason."""
    code: str
    """Codes or the name of the condition or taint; empty without any."""
    effect: str

    @property
    def text(self) -> str:
        """Return the fault for people."""
        what = f"{self.device} " if self.device else ""
        code = f" ({self.code})" if self.code else ""
        return f"{what}{self.level}{code}, {self.source}"


class FaultRules(Struct, frozen=True):
    """Which conditions and taints of a node the policy takes for faults."""

    conditions: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()


GONE: Final = NodeFault("node", "", "the node does not exist", "", NODE_UNHEALTHY)


def node_faults(facts: NodeFacts | None, rules: FaultRules) -> tuple[NodeFault, ...]:
    """Return the faults of a node, the worst first; of a node that does not exist, that it is gone."""
    if facts is None:
        return (GONE,)
    found: list[NodeFault] = []
    for condition in facts.conditions:
        if condition.type == "Ready":
            found.append(NodeFault("node", "", "NotReady", condition.reason, NODE_UNHEALTHY))
        elif condition.type in rules.conditions:
            code = f"{condition.type}: {condition.reason}" if condition.reason else condition.type
            found.append(NodeFault("node condition", "", "True", code, NODE_UNHEALTHY))
    found += [
        NodeFault("taint", "", taint.effect, taint.key, NODE_UNHEALTHY)
        for taint in facts.taints
        if taint.key in rules.taints
    ]
    found += _of_cards(facts)
    found += _of_devices(facts)
    found += _of_reports(facts)
    if not found:
        return ()
    unique = list(dict.fromkeys(found))
    return tuple(sorted(unique, key=lambda one: _RANK[one.effect]))[:FAULTS_MAX]


def _of_cards(facts: NodeFacts) -> list[NodeFault]:
    """Return the counted devices of which fewer are allocatable than the node has."""
    found: list[NodeFault] = []
    for resource, total in facts.card_totals:
        lost = total - facts.allocatable.get(resource, 0)
        if lost > 0 and resource not in facts.devices:
            level = f"{lost} of {total} not allocatable"
            found.append(NodeFault("allocatable", resource, level, "", RECORDED))
    return found


def _of_devices(facts: NodeFacts) -> list[NodeFault]:
    """Return the devices that are unhealthy or have no network."""
    found: list[NodeFault] = []
    for one in facts.devices.values():
        for device in one.devices:
            if device.is_healthy and device.is_network_healthy:
                continue
            effect = CARD_NETWORK_UNHEALTHY if device.is_healthy else CARD_UNHEALTHY
            level, code = _worst(facts.health.faults, device.name)
            level = level or effect.removeprefix("Card")
            found.append(NodeFault("device plugin", device.name, level, code, effect))
    return found


def _worst(reported: tuple[DeviceFault, ...], device: str) -> tuple[str, str]:
    """Return the worst level of the faults of a device, with its codes."""
    own = [one for one in reported if one.device == device]
    if not own:
        return "", ""
    worst = max(own, key=lambda one: LEVELS.index(one.handling) if one.handling in LEVELS else 0)
    return worst.handling, worst.codes


def _of_reports(facts: NodeFacts) -> list[NodeFault]:
    """Return the faults in reports that the health of devices does not show."""
    health = facts.health
    if health == HEALTHY_REPORT:
        return []
    found: list[NodeFault] = []
    shown = {
        device.name
        for one in (facts.devices.values() if health.faults else ())
        for device in one.devices
        if not (device.is_healthy and device.is_network_healthy)
    }
    for fault in health.faults:
        if fault.device in shown:
            continue
        if fault.handling == SUB_HEALTH_LEVEL:
            effect = SUB_HEALTH
        elif fault.device or fault.handling in _TOLERATED:
            effect = RECORDED
        else:
            effect = NODE_UNHEALTHY
        source = fault.type if fault.type == "PublicFault" else "device plugin"
        found.append(NodeFault(source, fault.device, fault.handling, fault.codes, effect))
    return [*found, *_of_state("NodeD", health.node), *_of_state("switch", health.switch)]


def _of_state(source: str, state: NodeState) -> list[NodeFault]:
    if state.status == HEALTHY:
        return []
    effect = {UNHEALTHY: NODE_UNHEALTHY, SUB_HEALTHY: SUB_HEALTH, PRE_SEPARATE: CLOSED}
    return [
        NodeFault(source, "", state.status, "; ".join(state.faults), effect[state.status]),
    ]


def health_of(faults: tuple[NodeFault, ...]) -> str:
    """Return `NodeHealthState` of the vendor's records: the worst of its faults counts."""
    for one in faults:
        if one.effect in (NODE_UNHEALTHY, CARD_UNHEALTHY, CARD_NETWORK_UNHEALTHY):
            return one.effect
    return HEALTHY
