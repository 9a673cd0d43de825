"""What is broken in the simulated cluster: faults begin, are noticed, and end.

A fault of a thing that is broken already replaces the one before, with its duration. One that ends before it is noticed
is never seen.
"""

from typing import Final

from msgspec import Struct

from simulator.device_manager import DeviceManager
from simulator.device_plugin import ChipFault, DevicePlugins
from simulator.fault_steps import (
    NETWORK,
    NODE,
    SWITCH,
    FaultPlace,
    RaiseFault,
    RepairFault,
)
from simulator.kubelet import Kubelets
from simulator.network_domains import hosts_below
from simulator.node_lifecycle import NodeLifecycle, set_condition
from simulator.object_store import Change, Key, Store
from simulator.timeline import ActionKind, ScheduledAction, Timeline

_NO_KEY: Final[Key] = ("", "", "")


class _Fault(Struct):
    """A fault that is not over."""

    step: RaiseFault
    hosts: tuple[str, ...]
    """The nodes that it hits."""
    is_seen: bool = False


class Faults:
    """All faults of the cluster."""

    def __init__(
        self, store: Store, timeline: Timeline, kubelets: Kubelets, device_plugins: DevicePlugins
    ) -> None:
        self._store = store
        self._timeline = timeline
        self._kubelets = kubelets
        self._device_plugins = device_plugins
        self._device_manager = DeviceManager(store)
        self._lifecycle = NodeLifecycle(store, timeline, kubelets)
        self._active: dict[FaultPlace, _Fault] = {}
        self._due: dict[str, tuple[_Fault, bool]] = {}
        """What is scheduled, by number: a fault, and whether it ends."""
        self._count = 0

    def on_change(self, change: Change) -> None:
        """Forget the faults of a node that is deleted: another one of its name is another machine."""
        if change.key[0] != "Node" or change.after is not None:
            return
        name = change.key[2]
        self._lifecycle.forget(name)
        self._device_manager.forget(name)
        for place in [one for one in self._active if one.kind != SWITCH and one.name == name]:
            del self._active[place]

    def begin(self, step: RaiseFault) -> None:
        """Something breaks."""
        hosts = self._hosts(step.place)
        if not hosts:
            return
        before = self._active.get(step.place)
        fault = _Fault(step, hosts)
        if before is not None:
            fault.is_seen = before.is_seen and _shows(before.step) == _shows(step)
            if before.is_seen and not fault.is_seen:
                self._show(before, is_broken=False)
        self._active[step.place] = fault
        for host in hosts if _is_silent(step) else ():
            self._lifecycle.stop(host, _cause(step), has_crashed=step.place.kind == NODE)
        if step.exit_code is not None:
            for key in self._holders(step.place):
                self._kubelets.crash(key, step.exit_code)
        if not fault.is_seen:
            self._schedule(fault, step.detection_ns, ends=False)
        if step.duration_ns is not None:
            self._schedule(fault, step.duration_ns, ends=True)

    def repair(self, step: RepairFault) -> None:
        """Something works again, if it was broken."""
        fault = self._active.pop(step.place, None)
        if fault is None:
            return
        for host in fault.hosts if _is_silent(fault.step) else ():
            self._lifecycle.start(host, _cause(fault.step))
        if fault.is_seen and not _is_silent(fault.step):
            self._show(fault, is_broken=False)

    def run(self, due: ScheduledAction) -> None:
        """A fault is noticed or ends, or a pod has tolerated it for long enough."""
        if due.verb is ActionKind.EVICT:
            self._lifecycle.evict(due.key, due.uid)
            return
        fault, ends = self._due.pop(due.uid)
        if self._active.get(fault.step.place) is not fault:
            return
        if ends:
            self.repair(RepairFault(self._store.now_ns, fault.step.place))
        else:
            self._notice(fault)

    def _schedule(self, fault: _Fault, later_ns: int, *, ends: bool) -> None:
        if later_ns == 0:
            self._notice(fault)
            return
        self._count += 1
        number = str(self._count)
        self._due[number] = fault, ends
        due = ScheduledAction(ActionKind.FAULT, _NO_KEY, number)
        self._timeline.push(self._store.now_ns + later_ns, due)

    def _notice(self, fault: _Fault) -> None:
        fault.is_seen = True
        if _is_silent(fault.step):
            for host in fault.hosts:
                self._lifecycle.notice(host, _cause(fault.step))
        else:
            self._show(fault, is_broken=True)

    def _show(self, fault: _Fault, *, is_broken: bool) -> None:
        """Write into the API what is broken, or that it is not any more."""
        step = fault.step
        for host in fault.hosts:
            if self._store.find(("Node", "", host)) is None:
                continue
            match step.place.kind:
                case "condition":
                    healthy = "True" if step.condition == "False" else "False"
                    status = step.condition if is_broken else healthy
                    reason = step.code if is_broken else ""
                    set_condition(self._store, host, step.place.part, status, reason)
                case "device" if "/" in step.place.part:
                    change = self._device_manager.break_device
                    if not is_broken:
                        change = self._device_manager.repair_device
                    change(host, step.place.part, self._kubelets.pods_on(host))
                case "device":
                    chip = ChipFault(step.level, step.code, step.kind == NETWORK)
                    own = chip if is_broken else None
                    self._device_plugins.set_fault(host, step.place.part, own)
                case _:
                    self._show_link(host, step, is_broken=is_broken)

    def _show_link(self, host: str, step: RaiseFault, *, is_broken: bool) -> None:
        if step.level:
            self._device_plugins.set_switch_level(host, step.level if is_broken else "")
        elif self._device_plugins.has_chips(host):
            self._device_plugins.set_network(host, is_healthy=not is_broken)
        else:
            condition = step.condition or "NetworkUnavailable"
            set_condition(self._store, host, condition, "True" if is_broken else "False", "")

    def _holders(self, device: FaultPlace) -> list[Key]:
        """Return the pods that have a device."""
        if "/" not in device.part:
            return self._device_plugins.holders(device.name, device.part)
        pods = self._kubelets.pods_on(device.name)
        return self._device_manager.holders(device.name, device.part, pods)

    def _hosts(self, place: FaultPlace) -> tuple[str, ...]:
        """Return the nodes that exist and that a fault of this place hits."""
        if place.kind == SWITCH:
            return tuple(hosts_below(self._store.objects(), place.name))
        return (place.name,) if self._store.find(("Node", "", place.name)) is not None else ()


def _is_silent(step: RaiseFault) -> bool:
    """Return whether nodes stop reporting."""
    return step.place.kind == NODE or (step.place.kind == SWITCH and step.kind != NETWORK)


def _cause(step: RaiseFault) -> str:
    return f"{step.place.kind}/{step.place.name}"


def _shows(step: RaiseFault) -> tuple[str, ...]:
    """Return what a fault shows in the API; two that show the same need not be shown again."""
    return (step.level, step.code, step.kind, step.condition)
