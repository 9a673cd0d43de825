"""The objects that can exist at a step of a scenario: naming any other one is an error."""

from events.yaml_document import YamlValue
from simulator.manifest import COMMAND, EXPERIMENT, LocatedManifest, Manifest
from simulator.manifest_fields import amounts, section
from simulator.network_domains import MAP_KEY, leaf_switches
from simulator.node_chips import chips_of
from simulator.planned_autoscalers import PlannedAutoscalers


class KnownObjects:
    """The objects that can exist at a step: naming any other one is an error.

    Controllers create objects whose names begin with the workload's name.
    """

    def __init__(self, cluster: tuple[LocatedManifest, ...], *, is_all: bool) -> None:
        self._is_all = is_all
        """If False, a trace or workload brings other objects."""
        self.planned = PlannedAutoscalers()
        self._names: dict[tuple[str, str, str], None] = {}
        self._makers: dict[tuple[str, str], None] = {}
        self._nodes: dict[str, Manifest] = {}
        self._switch_map: Manifest | None = None
        for placed in cluster:
            self.add(placed)

    def add(self, placed: LocatedManifest, value: YamlValue | None = None) -> None:
        """Add an object; with `value`, in a step, where the target of a Command must exist."""
        if value is not None and placed.kind == COMMAND:
            target = placed.manifest["target"]
            assert isinstance(target, dict)
            kind = str(target["kind"])
            namespace = placed.namespace if kind == "Job" else ""
            self.check(value, kind, namespace, str(target["name"]))
        self.planned.add(placed, value)
        name = placed.kind.kind, placed.namespace, placed.name
        self._names[name] = None
        if placed.kind.kind == "Node":
            self._nodes[placed.name] = placed.manifest
        elif name == MAP_KEY:
            self._switch_map = placed.manifest
        makes_pods = placed.kind == EXPERIMENT
        if makes_pods or "template" in str(placed.manifest.get("spec", "")):
            self._makers[placed.namespace, placed.name + "-"] = None

    def check(self, value: YamlValue, kind: str, namespace: str, name: str) -> None:
        """Raise DocumentError if there can be no such object."""
        if not self._is_all:
            return
        made = any(
            namespace == maker_namespace and name.startswith(prefix)
            for maker_namespace, prefix in self._makers
        )
        if not made and (kind, namespace, name) not in self._names:
            raise value.error(f"there is no {kind} {shown_name(namespace, name)} by then")

    def check_switch(self, value: YamlValue, name: str) -> None:
        """Raise DocumentError if no leaf switch and no HyperNode has this name."""
        is_known = ("HyperNode", "", name) in self._names
        if self._is_all and not is_known and name not in leaf_switches(self._switch_map):
            raise value.error(f"there is no leaf switch and no HyperNode {name} by then")

    def check_counted_device(self, value: YamlValue, node: str, resource: str, index: int) -> None:
        """Raise DocumentError if the manifest of a node has no such device."""
        if node not in self._nodes:
            return
        status = section(self._nodes[node], "status")
        own = amounts(section(status, "capacity")) or amounts(section(status, "allocatable"))
        count = own.get(resource, 0)
        if index >= count:
            raise value.error(f"node {node} has {count} of {resource}, counted from 0")

    def check_chip(self, value: YamlValue, node: str, chip: str) -> None:
        """Raise DocumentError if the manifest of a node names its chips, and not this one."""
        chips = chips_of(self._nodes[node]) if node in self._nodes else []
        if chips and chip not in chips:
            raise value.error(f"node {node} has no chip {chip}")
        if node in self._nodes and not chips:
            raise value.error(f"node {node} names no chips in its annotation baseDeviceInfos")


def shown_name(namespace: str, name: str) -> str:
    """`namespace/name`, or only the name of a cluster-wide object."""
    return f"{namespace}/{name}" if namespace else name
