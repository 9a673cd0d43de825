"""The devices of a node, as facts: what there is of each resource, and its health."""

from msgspec import Struct


class Device(Struct, frozen=True):
    """An accelerator, or another unit that pods are given by name."""

    name: str
    """Unique on its node, such as `Ascend910-3`."""
    number: int = 0
    is_healthy: bool = True
    is_network_healthy: bool = True
    is_recovering: bool = False
    """Whether it is being reset: neither available nor faulty."""
    is_listed: bool = True
    """Whether a device plugin that says which devices are free says so of this one; True if it does not say."""
    capacity: tuple[tuple[str, int], ...] = ()
    """What parts of it can be given; empty if it is given whole only."""
    faults: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """The groups of devices that it belongs to, such as `ring 0` or `card 3`, for people and views."""
    uuid: str = ""
    """How its device plugin identifies it, if not by its name."""


class NodeDevices(Struct, frozen=True):
    """The devices of one resource of a node."""

    family: str
    resource: str
    devices: tuple[Device, ...]
    """Sorted by number."""
    card: str = ""
    """Their model, as quotas name it."""
    product: str = ""
    """The form in which they are built into the node, such as `module-910b-8`; it decides which go together."""
    problem: str = ""
    """Why none of them can be given now; empty if they can."""
    knows_network: bool = True
    """Whether it is known which of them have no network."""
    are_all_known: bool = True
    """Whether the node itself names all of them. If not, only those are free that a device plugin lists as free."""
    super_pod_id: int = -1
    """The SuperPoD that they are linked in; -1 for none."""
    server_index: int = -1
    """The place of the node in its SuperPoD; -1 for none."""
    rack_id: int = -1
    """The rack of the node in its SuperPoD; -1 for none."""
    has_sub_healthy_devices: bool = False
    has_sub_healthy_switches: bool = False
    """Whether devices of the node, or the switches that it is connected to, work with faults that do not stop jobs."""

    @property
    def is_sub_healthy(self) -> bool:
        """Return whether the node works with a fault that does not stop its jobs: others are better for new ones."""
        return self.has_sub_healthy_devices or self.has_sub_healthy_switches

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the devices."""
        return tuple([one.name for one in self.devices])


def device_of(name: str) -> str:
    """Return the name of the device that a name of a device or of a part (`NAME:PART`) means."""
    return name.partition(":")[0]


def part_of(name: str) -> str:
    """Return the part that a name of a part of a device (`NAME:PART`) means; "" for a whole device."""
    return name.partition(":")[2]
