"""Pods as the scheduler reads them."""

import re
from functools import lru_cache
from sys import intern
from typing import Final, TypeAlias

from msgspec import Struct

from events.limits import (
    CHOICE_BYTES_MAX,
    NAME_BYTES_MAX,
    TOO_LONG,
    name_problem,
    object_name_problem,
    storable,
    whole_number,
)
from projections.container_faults import container_fault
from projections.device_family import (
    device_rejection,
    is_confirmed,
    pod_assignments,
    pod_options,
)
from projections.fault_options import stated_options
from projections.objects import Metadata, Owner, PodObject, PodSpec, PodStatus, nanoseconds_of
from projections.pod_class import (
    CARD_NAME,
    ClassKey,
    Demands,
    PodClass,
    class_key,
    demands_of,
    long_field_problem,
    reported_request,
    stated_cards,
)
from projections.pod_terms import Labels, shared
from projections.pool_options import RELEASE_REQUESTED, pool_options
from projections.reported_resources import reported_resources, stated_requests

GATED: Final = "gated"
PENDING: Final = "pending"
BINDING: Final = "binding"
BOUND: Final = "bound"
RUNNING: Final = "running"
RELEASING: Final = "releasing"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"

ALLOCATED: Final = (BINDING, BOUND, RUNNING)
"""Statuses in which a pod is charged to its queue."""
PLACED: Final = (BOUND, RUNNING)
"""Statuses of a pod that the API server shows on its node and that is not terminating."""
READY: Final = (BINDING, BOUND, RUNNING, SUCCEEDED)
"""Statuses that count towards minMember."""
GONE: Final = (SUCCEEDED, FAILED, RELEASING)
"""Statuses in which a pod can no longer count towards minMember."""
GROUP_NAME = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GROUP_OF_POD: Final = "the name of its pod group"
"""What the error of a name of a pod group that is not valid begins with."""
FOREIGN_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label that names a PodGroup of the coscheduling plugin, or one of Volcano."""
COSCHEDULING_GROUP = (FOREIGN_GROUP, "pod-group.scheduling.sigs.k8s.io/name")
COSCHEDULING_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
RANK = "hccl/rankIndex"
"""Rank of a pod in its job, in the Ascend stack."""
MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
"""The minimum of a group whose PodGroup states none above 1, in the Ascend device stack."""
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_SPEC = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
MIRROR = "kubernetes.io/config.mirror"
DECISION: Final = "muster.sh/decision"
"""Annotation of a bound pod: the position of the decision that bound it."""
WITHDRAWN: Final = "muster.sh/withdrawn-decision"
"""Annotation of a pod whose binding was refused after an answer was lost: the position of that decision."""
NOT_ADMITTED: Final = "UnexpectedAdmissionError"
"""Reason of a pod that its kubelet did not admit, because a device plugin did not give it its devices."""
POSITION_DIGITS_MAX: Final = 18
"""Maximum number of digits of a position: it is stored in 64 bits."""
DEVICE_OPTION_BYTES_MAX: Final = 1024
"""Maximum length of an annotation or label that says what devices a pod needs."""
ASSIGNMENT_BYTES_MAX: Final = 4096
"""Maximum length of an annotation that says which devices a pod has."""
FAILED_BINDINGS_MAX: Final = 4
"""Number of failed bindings that are kept per pod, the newest."""
NODE_OWNERS: Final = ("DaemonSet", "Node")
"""Kinds of owners whose pods belong to one node."""

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")

_TRAILING_NUMBER = re.compile(r"(\d{1,18})$")

SortKey: TypeAlias = tuple[int, int, int, str]

Charge = tuple[tuple[str, int], ...]
"""Charge name (`cpu` in milli, `memory` in bytes, or a card or resource in whole units) and amount."""


NodeShare = tuple[str, str, tuple[tuple[str, int], ...]]
"""Node name, `occupied` or `releasing`, and the request."""


CONDITIONS_MAX: Final = 100
"""Conditions of a pod beyond which muster updates none of them: Kubernetes and controllers write about ten."""


class PodFacts(Struct, frozen=True, gc=False, array_like=True):
    """What muster reads of a Pod."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    scheduler: str
    priority: int | None
    priority_class: str
    is_gated: bool
    is_releasing: bool
    created_ns: int
    group_name: str
    """The pod group that it names, in its namespace, or ""."""
    needs_group_object: bool
    min_member: int
    queue: str
    """The queue that it names itself, or ""."""
    role: str
    index: int
    """Its index in its task: as annotated, else the number at the end of its name, else 0."""
    task_priority: int
    owner: Owner | None
    reason: str = ""
    is_numbered: bool = True
    """Whether an annotation, or all of the last part of its name, says its index."""
    scheduled_message: str = ""
    """Message of its condition PodScheduled=False, or ""."""
    is_evictable: bool = True
    """Whether it may be evicted in favour of others, wherever they are."""
    is_protected: bool = False
    """Whether `volcano.sh/preemptable`, or an owner on its node, protects it: other queues may have it evicted only for what its queue holds
    above what that deserves."""
    labels: Labels = ()
    nominated_node: str = ""
    """The node in its `status.nominatedNodeName`, or ""."""
    problem: str = ""
    """Why it is refused: an annotation or field with a name that is not valid; else ""."""
    decision: int = 0
    """Position of the decision in its annotation; 0 without one."""
    is_confirmed: bool = False
    """Whether a device plugin has given it its devices: as the plugin says by an annotation, or because the kubelet has
    admitted the pod (K8.7). False for pods without annotations for a device plugin."""
    is_cut: bool = False
    """Whether a long field of its spec was left out, or it has more than CONDITIONS_MAX conditions. Its conditions are not
    updated, because each update would make the API server store and send the whole object again."""
    assignments: Labels = ()
    """Annotations that say which devices it has, as keys and values."""
    device_rejection: str = ""
    """The text by which a device plugin says that it could not give the pod its devices, and it is to be created again;
    "" otherwise (`DeviceFamily.rejections`)."""
    fault_options: Labels = ()
    """Its annotations that say what is done after a fault, as keys and values; its labels are in `labels`."""
    pool_options: Labels = ()
    """Its annotations and labels that pool deciders read, as keys and values."""
    container_fault: str = ""
    """`DeviceUnhealthy: NAME` if its kubelet reports that a device of it is unhealthy, `ContainerFailed: CODE` if the last
    run of a container failed; "" otherwise."""

    @property
    def belongs_to_node(self) -> bool:
        """Return whether it is never evicted because it belongs to its node, like the pods of a DaemonSet."""
        if self.is_evictable or self.owner is None:
            return False
        return self.owner.kind in NODE_OWNERS


class PodMetadataFacts(Struct, frozen=True, gc=False):
    """What muster reads of the metadata of a pod."""

    namespace: str
    name: str
    uid: str
    is_releasing: bool
    created_ns: int
    group_name: str
    needs_group_object: bool
    min_member: int
    queue: str
    role: str
    index: int
    is_numbered: bool
    task_priority: str | None
    owner: Owner | None
    is_evictable: bool
    is_protected: bool
    labels: Labels
    label_of: dict[str, str]
    cards: str
    problem: str
    decision: int = 0
    device_options: Labels = ()
    is_confirmed: bool = False
    assignments: Labels = ()
    fault_options: Labels = ()
    pool_options: Labels = ()


class PodSpecFacts(Struct, frozen=True, gc=False):
    """What muster reads of the spec of a pod."""

    spec: PodSpec
    demands: Demands
    problem: str = ""
    requests: dict[str, bytes] = {}
    """The requests of the containers that may be resized in place, as they stand in the spec, by name."""


def metadata_facts(meta: Metadata) -> PodMetadataFacts:
    """Return what muster reads of the metadata of a pod."""
    annotations, labels = meta.annotations or {}, meta.labels or {}
    names = _Names()
    group_name, needs_object = _group_name(annotations, labels)
    owner = None
    for one in meta.ownerReferences or ():
        if one.controller:
            owner = one
            break
    if owner is not None:
        is_valid = bool(names.read("metadata.ownerReferences", owner.uid))
        owner.kind, owner.apiVersion = intern(owner.kind), intern(owner.apiVersion)
        # Its UID tells it from others: the name is only shown.
        owner.name = "" if object_name_problem(owner.name) else intern(owner.name)
        owner = owner if is_valid else None
    least = labels.get(COSCHEDULING_MIN) or annotations.get(MIN_MEMBER)
    least = least or annotations.get(MIN_AVAILABLE)
    is_static, is_protected = MIRROR in annotations, _is_protected(meta)
    options = pod_options(annotations, labels)
    for key, value in options:
        names.read(key, value, DEVICE_OPTION_BYTES_MAX)
    return PodMetadataFacts(
        namespace=intern(meta.namespace or "default"),
        name=meta.name,
        uid=meta.uid or "",
        is_releasing=meta.deletionTimestamp is not None,
        created_ns=nanoseconds_of(meta.creationTimestamp),
        group_name=names.read_object(GROUP_OF_POD, group_name),
        needs_group_object=needs_object,
        min_member=max(1, _number(least, 1)),
        queue=intern(
            names.read_object(QUEUE_NAME, annotations.get(QUEUE_NAME) or labels.get(QUEUE_NAME))
        ),
        role=intern(names.read(TASK_SPEC, annotations.get(TASK_SPEC) or labels.get(TASK_SPEC))),
        index=_number(annotations.get(TASK_INDEX), _trailing_number(meta.name)),
        is_numbered=whole_number(annotations.get(TASK_INDEX)) is not None
        or meta.name.rpartition("-")[2].isdecimal(),
        task_priority=annotations.get(TASK_PRIORITY),
        owner=owner,
        is_evictable=not is_static and not is_protected,
        is_protected=not is_static and is_protected,
        labels=shared(tuple(sorted(labels.items()))),
        label_of=labels,
        cards=names.read(CARD_NAME, stated_cards(annotations), CHOICE_BYTES_MAX),
        problem=names.problem,
        decision=_position(annotations.get(DECISION, "")),
        device_options=() if names.problem else options,
        is_confirmed=is_confirmed(annotations, labels),
        assignments=_assignments(annotations),
        fault_options=stated_options(annotations, {}),
        pool_options=shared(pool_options(annotations, labels)),
    )


def _assignments(annotations: dict[str, str]) -> Labels:
    """Return the annotations that say which devices a pod has; what is too long to be read is marked."""
    stated = pod_assignments(annotations)
    return stated and tuple(
        [
            (key, TOO_LONG if name_problem(value, ASSIGNMENT_BYTES_MAX) else value)
            for key, value in stated
        ]
    )


class _Names:
    """Reader of names in an object; keeps the first name that is not valid as its problem."""

    def __init__(self) -> None:
        self.problem = ""

    def read(self, what: str, name: str | None, bytes_max: int = NAME_BYTES_MAX) -> str:
        """Return the name; "" if it is not valid."""
        return self._checked(what, name, name_problem(name, bytes_max)) if name else ""

    def read_object(self, what: str, name: str | None) -> str:
        """Return the name of an object; "" if it is not valid."""
        return self._checked(what, name, object_name_problem(name)) if name else ""

    def _checked(self, what: str, name: str, problem: str) -> str:
        if problem:
            self.problem = self.problem or f"{what}: {problem}"
        return "" if problem else name


def _position(text: str) -> int:
    """Return a position in the log; 0 for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= POSITION_DIGITS_MAX
    return int(text) if is_number else 0


def spec_facts(spec: PodSpec) -> PodSpecFacts:
    """Return what muster reads of the spec of a pod."""
    problem = long_field_problem(spec)
    return PodSpecFacts(spec, demands_of(spec), problem, stated_requests(spec))


def pod_facts(obj: PodObject) -> tuple[PodFacts, ClassKey]:
    """Return what muster reads of a Pod, and the key of its class."""
    return combine_facts(
        metadata_facts(obj.metadata), spec_facts(obj.spec or PodSpec()), obj.status
    )


def combine_facts(
    meta: PodMetadataFacts, asked: PodSpecFacts, status: PodStatus | None
) -> tuple[PodFacts, ClassKey]:
    """Combine the facts of metadata, spec and status; return them with the key of the class."""
    spec, status = asked.spec, status or _NO_STATUS
    stated = whole_number(meta.task_priority) if meta.task_priority else None
    if stated is None:
        stated = 1 if spec.priority is None else spec.priority
    key = class_key(
        asked.demands,
        meta.cards,
        meta.namespace,
        meta.label_of,
        meta.device_options,
        (meta.name, meta.uid),
    )
    if spec.nodeName:
        reported = reported_request(spec, reported_resources(spec, asked.requests, status))
        if reported:
            key = (*key, "reported", reported)
    facts = PodFacts(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node=_node_name(spec.nodeName) if spec.nodeName else "",
        phase=intern(status.phase or "Pending"),
        scheduler=spec.schedulerName or "",
        priority=spec.priority,
        priority_class=spec.priorityClassName or "",
        is_gated=bool(spec.schedulingGates),
        is_releasing=meta.is_releasing,
        created_ns=meta.created_ns,
        group_name=meta.group_name,
        needs_group_object=meta.needs_group_object,
        min_member=meta.min_member,
        queue=meta.queue,
        role=meta.role,
        index=meta.index,
        is_numbered=meta.is_numbered,
        task_priority=stated,
        owner=meta.owner,
        reason=status.reason or "",
        scheduled_message=_scheduled_message(status) if status.conditions else "",
        is_evictable=meta.is_evictable,
        is_protected=meta.is_protected,
        labels=meta.labels,
        nominated_node=status.nominatedNodeName or "",
        problem=meta.problem or asked.problem,
        decision=meta.decision,
        is_confirmed=meta.is_confirmed or bool(meta.assignments and status.startTime),
        is_cut=bool(asked.problem) or len(status.conditions or ()) > CONDITIONS_MAX,
        assignments=meta.assignments,
        device_rejection=_device_rejection(status) if status.reason == NOT_ADMITTED else "",
        fault_options=meta.fault_options,
        pool_options=meta.pool_options,
        container_fault=container_fault(status.containerStatuses)
        if status.containerStatuses
        else "",
    )
    return facts, key


_NO_STATUS: Final = PodStatus()


@lru_cache(maxsize=1 << 14)
def _node_name(name: str) -> str:
    """Return the node name; if it is not valid, as text that every database can store."""
    return storable(name) if name_problem(name) else name


def _is_protected(meta: Metadata) -> bool:
    """Return whether its annotation, else its label, forbids the eviction of a pod, or whether it belongs to its node: it would come
    back there (K9.7). As in Volcano, a value that is not a truth value forbids it."""
    for one in meta.ownerReferences or ():
        if one.controller and one.kind in NODE_OWNERS:
            return True
    value = (meta.annotations or {}).get(PREEMPTABLE, (meta.labels or {}).get(PREEMPTABLE))
    return value is not None and value not in _TRUE


def _device_rejection(status: PodStatus) -> str:
    if status.phase != "Failed":
        return ""
    return device_rejection(status.message or "")


def _scheduled_message(status: PodStatus) -> str:
    for one in status.conditions or ():
        if one.type == "PodScheduled" and one.status == "False":
            return one.message or ""
    return ""


def _group_name(annotations: dict[str, str], labels: dict[str, str]) -> tuple[str, bool]:
    for key in GROUP_NAME:
        if name := annotations.get(key):
            return name, True
    for key in COSCHEDULING_GROUP:
        if name := labels.get(key):
            return name, COSCHEDULING_MIN not in labels
    return "", False


def _number(text: str | None, default: int) -> int:
    """Return a small whole number in an annotation; text that cannot be read counts as absent."""
    number = whole_number(text)
    return default if number is None else number


def _trailing_number(name: str) -> int:
    match = _TRAILING_NUMBER.search(name)
    return int(match.group(1)) if match else 0


class FailedBinding(Struct, frozen=True, array_like=True):
    """A binding that was recorded as failed. If the pod later appears on that node with that decision, it was bound
    after all."""

    decision: int
    node: str
    devices: tuple[str, ...] = ()
    network: Labels = ()


class Stated(Struct, frozen=True, array_like=True):
    """What the object of a pod says that was placed by a decision and is not seen on its node yet, as far as that differs:
    it counts again if the binding fails."""

    facts: PodFacts
    key: bytes
    """Key of the class, encoded."""
    pod_class: PodClass
    """The class, without an index."""


class Pod:
    """A pod, and what muster has decided about it. A pod in State is never changed: a copy replaces it, because forks
    of State share it."""

    __slots__ = (
        "_assumed",
        "_evicted",
        "are_devices_reported",
        "bound_at",
        "charge",
        "decision",
        "devices",
        "digest",
        "facts",
        "failed_bindings",
        "group_key",
        "is_ready",
        "is_stuck",
        "key",
        "network",
        "node",
        "occupies",
        "pod_class",
        "reported_at",
        "requested_charge",
        "sort_key",
        "stated",
        "stated_devices",
        "status",
    )  # fmt: skip

    def __init__(
        self, facts: PodFacts, pod_class: PodClass, digest: str, problem: str = ""
    ) -> None:
        self.facts = facts
        self.pod_class = pod_class
        self.digest = digest
        self.key = f"{facts.namespace}/{facts.name}"
        """`namespace/name`"""
        self.group_key = ""
        """Key of its pod group; "" for pods of other schedulers."""
        self._assumed = ""
        self.decision = 0
        """Position of the decision that bound it; 0 if muster did not bind it."""
        self.devices: tuple[str, ...] = ()
        """Names of the devices that it has: those that the decision gave it, or that its annotations state."""
        self.are_devices_reported = False
        """Whether the device plugin has stated these devices."""
        self.stated_devices: tuple[str, ...] = ()
        """Names of devices that an annotation states as given by the device plugin in place of those that it has, which nothing
        else shows yet; empty otherwise (`projections/pod_devices.py`)."""
        self.stated: Stated | None = None
        """What its object says otherwise since its node was decided; None if it says nothing else, or if the pod is seen on
        its node (`projections/fixed_requests.py`)."""
        self.network: Labels = ()
        """Annotations that the decision gave it and that say where in the network it is; empty without any."""
        self.failed_bindings: tuple[FailedBinding, ...] = ()
        """Bindings recorded as failed, oldest first."""
        self.bound_at = 0
        """Position of the record since which it has its node; 0 without a node."""
        self._evicted = 0
        self.is_stuck = False
        """Whether it has been terminating for longer than pod groups wait for that: it counts as staying."""
        self.reported_at = 0
        """Position of the refusal that its condition reports."""
        self.requested_charge: Charge = ()
        """Charge counted in `pending` of its queue; empty if it is not pending."""
        self.charge: Charge | None = None
        """Charge counted in `allocated` of its queue, fixed when it got its node; None without one."""
        self.sort_key = (-facts.task_priority, facts.index, facts.created_ns, facts.uid)
        """Task order in its group if all pods there are numbered: priority, index, age, UID."""
        self._derive()

    def _derive(self) -> None:
        """Compute what follows from the object and from what was decided: it is read far more often than it changes."""
        facts = self.facts
        phase = facts.phase
        self.node = facts.node or self._assumed
        """The node that it has or that was decided for it."""
        self.occupies = bool(self.node) and phase not in ("Succeeded", "Failed")
        """Whether it uses resources of its node."""
        self.status = status = self._status_now(phase)
        """Its status for the scheduler."""
        self.is_ready = status in READY
        """Whether it counts towards minMember. A pod that ended because it was asked to, or was evicted, does not:
        another one continues its work."""
        if status == SUCCEEDED:
            asked = [key for key, _ in facts.pool_options if key == RELEASE_REQUESTED]
            self.is_ready = not self._evicted and not asked

    def _status_now(self, phase: str) -> str:
        if phase == "Succeeded":
            return SUCCEEDED
        if phase == "Failed":
            return FAILED
        if self.facts.is_releasing or self._evicted:
            return RELEASING
        if phase == "Running":
            return RUNNING
        if phase == "Unknown":
            return UNKNOWN
        if self.facts.node:
            return BOUND
        if self._assumed:
            return BINDING
        return GATED if self.facts.is_gated else PENDING

    @property
    def assumed(self) -> str:
        """Return the decided node, until the API server shows the pod there."""
        return self._assumed

    @assumed.setter
    def assumed(self, node: str) -> None:
        self._assumed = node
        self._derive()

    @property
    def evicted(self) -> int:
        """Return the position of the decision that evicts it, or 0."""
        return self._evicted

    @evicted.setter
    def evicted(self, position: int) -> None:
        self._evicted = position
        self._derive()

    @property
    def age_key(self) -> SortKey:
        """Return the place of a pod in its group if any pod there has no number: priority, age, index, UID."""
        priority, index, created_ns, uid = self.sort_key
        return priority, created_ns, index, uid

    @property
    def network_annotations(self) -> Labels:
        """Return the annotations that say where in the network it is: those that a decision gave it; of a pod that muster did
        not bind those that it had when it was first seen on its node."""
        return self.network or (() if self.decision else self.facts.assignments)

    def failed_binding(self, decision: int, node: str) -> FailedBinding | None:
        """Return the failed binding of a decision to a node; None if there is none."""
        found = (
            one for one in self.failed_bindings if (one.decision, one.node) == (decision, node)
        )
        return next(found, None)

    @property
    def is_leaving(self) -> bool:
        """Return whether it is terminating and is expected to end (`projections/victim_waits.py`)."""
        return not self.is_stuck and self.status == RELEASING

    def copy(self) -> "Pod":
        """Return a copy to change before it replaces this version."""
        twin: Pod = Pod.__new__(Pod)
        twin.facts, twin.pod_class, twin.digest = self.facts, self.pod_class, self.digest
        twin.key, twin.sort_key, twin.group_key = self.key, self.sort_key, self.group_key
        twin._assumed, twin._evicted, twin.is_stuck = self._assumed, self._evicted, self.is_stuck
        twin.node, twin.occupies = self.node, self.occupies
        twin.status, twin.is_ready = self.status, self.is_ready
        twin.decision, twin.bound_at, twin.reported_at = (
            self.decision,
            self.bound_at,
            self.reported_at,
        )
        twin.devices, twin.are_devices_reported = self.devices, self.are_devices_reported
        twin.network, twin.failed_bindings = self.network, self.failed_bindings
        twin.charge, twin.requested_charge = self.charge, self.requested_charge
        twin.stated, twin.stated_devices = self.stated, self.stated_devices
        return twin


def node_share(pod: Pod | None) -> NodeShare | None:
    """Return what a pod uses of its node; None if it uses nothing."""
    if pod is None or not pod.occupies:
        return None
    is_leaving = pod.status == RELEASING and not pod.is_stuck
    kind = "releasing" if is_leaving else "occupied"
    return pod.node, kind, pod.pod_class.request


def has_same_demand(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod requests the same and has the same status and node, whatever else changed."""
    if old is None or new is None or old.pod_class is not new.pod_class:
        return False
    return (
        old.status == new.status
        and old.is_ready == new.is_ready
        and old.node == new.node
        and old.sort_key == new.sort_key
        and old.facts.is_numbered == new.facts.is_numbered
        and old.facts.role == new.facts.role
        and old.facts.labels == new.facts.labels
    )


def is_placed_alike(old: Pod, new: Pod) -> bool:
    """Return whether two versions of a placed pod differ at most in whether it runs, and in facts that no sum counts."""
    return (
        old.status in PLACED
        and new.status in PLACED
        and old.pod_class is new.pod_class
        and old.node == new.node
        and old.sort_key == new.sort_key
        and old.facts.is_numbered == new.facts.is_numbered
        and old.facts.role == new.facts.role
        and old.facts.labels == new.facts.labels
        and old.devices == new.devices
        and old.are_devices_reported == new.are_devices_reported
        and old.stated_devices == new.stated_devices
        and has_same_charge(old, new)
    )


def has_same_attributes(old: Pod | None, new: Pod | None) -> bool:
    """Return whether all stays the same that a pod has without a node: labels, owner, pod group and request."""
    if old is None or new is None:
        return False
    return (
        old.facts.labels == new.facts.labels
        and old.group_key == new.group_key
        and old.facts.owner == new.facts.owner
        and (old.pod_class is new.pod_class or _requests_same(old.pod_class, new.pod_class))
    )


def _requests_same(old: PodClass, new: PodClass) -> bool:
    return old.request == new.request and old.cards == new.cards


def has_same_charge(old: Pod | None, new: Pod | None) -> bool:
    """Return whether the charge of a pod stays the same, whatever else changed."""
    if old is None or new is None or old.pod_class is not new.pod_class:
        return False
    return (
        old.charge is not None
        and old.charge == new.charge
        and old.status in ALLOCATED
        and new.status in ALLOCATED
        and old.facts.is_evictable == new.facts.is_evictable
        and old.facts.is_protected == new.facts.is_protected
    )
