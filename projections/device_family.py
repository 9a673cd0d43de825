"""Device families: what devices nodes have, and how they serve pods. Each family is one class; `device_families.py` has them
together.

A device is an accelerator or the allocatable part of one. A family holds nothing: it answers from what it is given, so
that equal objects have equal answers. `discover`, `asked` and `assigned` are called while records are applied, all else
while a cycle decides.

What is free of a node (`available`) is a small value of the family: states that serve pods alike must be equal, because
each answer about a state (`DeviceFit`) is asked once and remembered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from msgspec import Struct

from projections.device_report import DeviceReport
from projections.devices import NodeDevices, device_of
from projections.pod_terms import Labels

if TYPE_CHECKING:
    from projections.nodes import NodeFacts
    from projections.plugin import PluginSet
    from projections.pod_class import Amounts, PodClass
    from projections.selector import NodeSelector

Cards: TypeAlias = tuple[str, ...] | None
"""The cards that a pod may be charged, in order of preference; None if it uses none or any."""

NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class DeviceSources(Struct, frozen=True):
    """What the devices of a node are read from."""

    name: str
    """Name of the node."""
    labels: Mapping[str, str]
    capacity: Mapping[str, int]
    """Amounts of its resources, healthy or not."""
    allocatable: Mapping[str, int]
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    """Those that a family reads (`DeviceFamily.node_annotations`)."""
    report: DeviceReport | None = None
    """What the ConfigMaps of a device stack say of the node; None if none does."""

    @property
    def amounts(self) -> dict[str, int]:
        """Return the amounts of the resources. If all devices are unhealthy, the kubelet reports them in the capacity
        only."""
        given = {name: amount for name, amount in self.allocatable.items() if amount > 0}
        return {**self.capacity, **given}


class Discovered(Struct, frozen=True):
    """The devices of a node, and the errors of its object."""

    cards: dict[str, str] = {}
    """Resource name to the name of the card that it counts, as quotas name it; sorted by resource."""
    devices: dict[str, NodeDevices] = {}
    """Resource name to its devices, if the family knows them; sorted by resource."""
    faults: tuple[tuple[str, str], ...] = ()
    """Code and message."""
    amounts: dict[str, int] = {}
    """Allocatable amounts that the node does not state, or states otherwise; sorted by resource."""
    converted: dict[str, tuple[str, int]] = {}
    """Resource name to the card that queues are charged for it, and to how much of the resource makes 1,000 of that card;
    sorted by resource."""


class DeviceUse(Struct, frozen=True):
    """What one pod takes of the devices of its node. How much of each device follows from the class of the pod, and
    from the part that the name of the device ends in, if any."""

    pod_class: PodClass
    devices: tuple[str, ...]
    """Names of devices, and of parts of devices as `NAME:PART`. Empty if it is not known which devices the pod has."""
    is_reported: bool = False
    """Whether an annotation of the pod says that these are its devices, rather than the decision alone."""
    stated: tuple[str, ...] = ()
    """Names of devices that an annotation of the pod states instead, which nothing else shows yet: it may have those that a
    device plugin does not list as free."""


class Assigned(Struct, frozen=True):
    """The devices of a pod as its annotations state them."""

    devices: tuple[str, ...] = ()
    """Names of devices, and of parts of devices as `NAME:PART`."""
    is_reported: bool = False
    """Whether the device plugin states it, so that it is true whatever was decided."""
    problem: str = ""
    """Why the annotations cannot be used."""


JOB_NAME: Final = "{job}"
"""Stands for the name of the pod group in a message of `DeviceFamily.job_problem`."""

POD_NAME: Final = "{{pod with {}}}"
"""Stands for the name of a pod of the group that asks for so many devices."""


class JobShape(Struct, frozen=True, eq=False):
    """What the fit of a pod depends on in the pods of its group that ask for devices with names. Pods that are finished
    or terminating do not count.

    Equal shapes of one session are the same object.
    """

    tasks: int = 0
    """Number of these pods."""
    devices: int = 0
    """Number of devices that they ask for together."""
    min_available: int = 0
    classes: tuple[PodClass, ...] = ()
    """Their classes."""
    options: Labels = ()
    """Annotations and labels of the PodGroup that say what devices its pods need."""
    terminating: int = 0
    """Number of pods of the group, of any kind, that are terminating on a node while it is below its minimum."""

    @property
    def is_distributed(self) -> bool:
        """Return whether several pods ask for devices."""
        return self.tasks > 1


NO_JOB: Final = JobShape()
"""The shape of groups that ask for no devices with names."""


class DeviceRequest(Struct, frozen=True, eq=False):
    """A question about devices: which pod, of which job, under which policy."""

    pod_class: PodClass
    job: JobShape
    cards: Cards
    """The cards that its queue may be charged."""
    order_weight: int
    """Weight of the order of cards, in thousandths."""
    plugins: PluginSet
    """The plugins of the policy, with their arguments."""

    @property
    def options(self) -> dict[str, str]:
        """Return what says which devices the pod needs: annotations and labels of the pod, and of its PodGroup."""
        return {**dict(self.job.options), **dict(self.pod_class.device_options)}


class PlacedPod(Struct, frozen=True, eq=False):
    """A pod that is about to be bound, with its devices."""

    namespace: str
    name: str
    uid: str
    pod_class: PodClass
    node_name: str
    node: NodeFacts | None
    """None if the node is gone."""
    devices: tuple[str, ...]
    """Names of devices, and of parts of devices as `NAME:PART`."""
    labels: Labels
    options: Mapping[str, str]
    """Annotations and labels of the pod and of its PodGroup that say what devices it needs."""
    assignments: Labels
    """Annotations that it has already and that say which devices it has."""
    tasks: int
    """Number of pods of its group that ask for devices with names."""
    rank: int
    """Rank of the pod in its group; -1 if it needs none (`needs_rank`)."""
    assigned_ns: int
    """Time of the assignment, in ns since the epoch: greater than that of every earlier pod of the node."""

    @property
    def is_distributed(self) -> bool:
        """Return whether several pods of the group ask for devices."""
        return self.tasks > 1


class NodeLabel(NamedTuple):
    """The label that nodes with a resource need to serve a pod."""

    resource: str
    key: str
    values: tuple[str, ...]
    """Values of nodes that serve it, the usual one first; empty for nodes without the label."""


class DeviceFit(ABC):
    """How the devices of nodes serve pods of one class: a frozen dataclass. Equal fits have equal answers, so a fit
    keeps no more of the question than what it reads."""

    @property
    def elsewhere(self) -> int:
        """Return the points of nodes that have no devices of the family; -1 if the pod cannot be there."""
        return -1

    @property
    def node_label(self) -> NodeLabel | None:
        """Return the label that the nodes of the pod need, for messages; None if it is not one label that decides."""
        return None

    @property
    @abstractmethod
    def reason(self) -> str:
        """Return why nodes do not serve the pod; it follows their number: "node(s) had none of ..."."""

    @abstractmethod
    def points(self, available: Hashable) -> int:
        """Return what the devices that are free add to the score of a node, in thousandths of a point; -1 if the pod
        cannot get the ones that it needs."""

    def pick(self, available: Hashable) -> tuple[str, ...]:
        """Return the devices that the pod gets, by name. Not empty if `points` are 0 or more, unless the family has no
        names for devices."""
        return ()

    @abstractmethod
    def obstacle(self, available: Hashable) -> str:
        """Return why a node, of which `points` are -1, does not serve the pod, with what it has."""


class DeviceFamily(ABC):
    """A kind of devices: how they are found, and how they are given to pods."""

    name: ClassVar[str]
    names_devices: ClassVar[bool] = True
    """Whether devices have names. If not, the free amount of a resource is all that is known about them: `available`
    is asked for every node, without uses, and again only when the object of the node changes."""
    node_annotations: ClassVar[tuple[str, ...]] = ()
    """Annotations of nodes that `discover` reads; others are not kept."""
    pod_options: ClassVar[tuple[str, ...]] = ()
    """Annotations and labels of pods that say what devices they need; an annotation counts before a label. They become
    `PodClass.device_options`, and pods that differ in one of them are never decided alike."""
    group_options: ClassVar[tuple[str, ...]] = ()
    """Those of `pod_options` that count for all pods of a group if its PodGroup has them. Volcano copies annotations and
    labels of a Job to its PodGroup."""
    pod_assignments: ClassVar[tuple[str, ...]] = ()
    """Annotations of pods that say which devices they have; `assigned` reads them."""
    annotated_requests: ClassVar[tuple[str, ...]] = ()
    """Those of `pod_options` that ask for devices without a resource that a kubelet counts. Of a pod that is first seen on its node
    without any of `pod_assignments` they count for nothing, as no scheduler has given it devices."""
    reported_assignments: ClassVar[tuple[str, ...]] = ()
    """Those of `pod_assignments` that the device plugin writes: they are read also when the pod is on its node already. The others
    are read as they are when it is first seen there."""

    writes_annotations: ClassVar[bool] = False
    """Whether `annotations` are written on pods that ask for devices of it, before they are bound."""
    confirmation: ClassVar[str] = ""
    """Annotation by which a device plugin confirms the devices of a pod. With one, the pods of a node are written and
    bound one by one, each after the one before is confirmed; empty if pods need not wait for each other."""
    confirmed_value: ClassVar[str] = ""
    """The value by which that annotation confirms; empty if any does."""
    unconfirming_label: ClassVar[str] = ""
    """Label of pods on which the family writes that annotation itself, before the device plugin does: it confirms nothing."""
    rejections: ClassVar[tuple[str, ...]] = ()
    """Texts by which the device plugin says, in the message of a pod that its kubelet did not admit, that the devices could
    not be given after all. Such a pod is deleted, so that its controller creates it again."""
    container_resources: ClassVar[tuple[str, ...]] = ()
    """Resources of which each container of a pod gets devices of its own. If other containers than the first request
    some, the request of each is an option, with the number of the container (`RESOURCE@1`)."""
    counting_resources: ClassVar[tuple[str, ...]] = ()
    """Resources that count devices on nodes of which no family knows these, and that pods may ask for on any node: where
    the devices are known, such a pod uses them, too, although it does not ask for any by name (`asked`)."""

    node_marks: ClassVar[tuple[str, ...]] = ()
    """Labels of nodes, or those of `node_annotations`, without all of which a node has no devices of the family and is not
    asked about; empty if every node is."""
    pod_resources: ClassVar[tuple[str, ...]] = ()
    """Beginnings of resources without all of which, and without `pod_options`, a pod needs no devices of the family and is not
    asked about; empty if every pod is."""

    def concerns_node(self, sources: DeviceSources) -> bool:
        """Return whether a node may have devices of the family."""
        if not self.node_marks:
            return True
        return any(one in sources.labels or one in sources.annotations for one in self.node_marks)

    def concerns_pod(self, resources: Iterable[str], options: Iterable[str]) -> bool:
        """Return whether a pod with requests for resources and with options may need devices of the family."""
        begins = self.pod_resources
        if not begins or any(one.startswith(begins) for one in resources):
            return True
        return any(key.startswith(begins) or key in self.pod_options for key in options)

    def is_used_by(self, pod_class: PodClass) -> bool:
        """Return whether such pods use devices of the family where a node has them."""
        if pod_class.asks_for(self.name):
            return True
        counting = self.counting_resources
        return bool(counting) and any(name in counting for name, _ in pod_class.request)

    @abstractmethod
    def discover(self, sources: DeviceSources) -> Discovered:
        """Return the devices of a node, healthy or not."""

    def asked(self, request: Amounts, options: Mapping[str, str]) -> int:
        """Return how many devices with names, whole or in part, a pod asks for; 0 if the family has none for it."""
        return 0

    def assigned(
        self, pod_class: PodClass, annotations: Mapping[str, str], node: NodeFacts
    ) -> Assigned | None:
        """Return which devices of its node a pod has, as its annotations (`pod_assignments`) state it; None if they do
        not. Any user who may change the pod can write them: they must name as many devices as the pod asks for. That
        the node has these devices is checked by the caller."""
        return None

    def overcommitted(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> tuple[str, ...]:
        """Return the devices of the family of which these pods together have more than there is: those that one pod
        has whole, and another one in whole or in part."""
        times: dict[str, int] = {}
        whole: dict[str, None] = {}
        for use in uses:
            for name in dict.fromkeys(device_of(one) for one in use.devices):
                times[name] = times.get(name, 0) + 1
            whole.update(dict.fromkeys(one for one in use.devices if one == device_of(one)))
        names = [name for one in node.devices_of(self.name) for name in one.names]
        return tuple([name for name in names if name in whole and times[name] > 1])

    def counted(
        self, request: Amounts, options: Mapping[str, str]
    ) -> tuple[Amounts, Mapping[str, str]]:
        """Return the request of a pod as nodes and queues count it, and the options of the pod: amounts that no node
        states can become options."""
        return request, options

    @abstractmethod
    def available(self, node: NodeFacts, uses: Sequence[DeviceUse]) -> Hashable:
        """Return what is free of the devices of a node that these pods use. A family with names is asked about nodes
        that have devices of it, and gets the uses of pods that ask for devices of it (`asked`)."""

    def admission_limit(
        self, plugins: PluginSet, resource: str
    ) -> Callable[[Hashable], int] | None:
        """Return a function from what is free of the devices of a node (`available`) to how many of a resource the node
        offers. A group is not admitted to its queue while all nodes together offer less than the minimum of its PodGroup;
        None if groups are admitted whatever is free."""
        return None

    @abstractmethod
    def fit(self, request: DeviceRequest) -> DeviceFit | None:
        """Return how nodes serve a pod; None if the devices of nodes do not matter to it."""

    def job_problem(self, request: DeviceRequest) -> tuple[str, str]:
        """Return code and message of what is wrong with the request of a pod in its job, whatever nodes there are;
        empty texts if nothing is. Asked for each class of the job that asks for devices of the family.

        The code is one of `projections/refusals.py`: `InvalidResourceRequest`, `InvalidArgument`, `NotSupportPolicy`;
        or `NotEnoughPods`, which only holds as long as the pods of the group are as they are. In place of names the message has `JOB_NAME` and `POD_NAME`, because equal groups are refused together.
        """
        return "", ""

    def may_evict(self, request: DeviceRequest) -> bool:
        """Return whether other pods may be evicted in favour of a pod."""
        return True

    def annotations(self, placed: PlacedPod) -> dict[str, str]:
        """Return the annotations that tell the device plugin which devices a pod gets. The same pod has the same ones
        each time, as they are written again after a lost answer."""
        return {}

    def needs_rank(self, pod_class: PodClass, owner: str, options: Mapping[str, str]) -> bool:
        """Return whether the annotations of a pod depend on its rank in its group. `owner` is the kind of its controller;
        `options` are annotations and labels of the pod and of its PodGroup."""
        return False

    def waits_for_confirmation(self, pod_class: PodClass, node: NodeFacts) -> bool:
        """Return whether the next pod of a node waits until the devices of a pod of this class are confirmed."""
        return bool(self.confirmation)

    def is_excluded(self, cards: tuple[str, ...], selector: NodeSelector) -> bool:
        """Return whether no node that has one of these cards can match the selector."""
        return False
