"""Pods as the scheduler reads them."""

import re
from functools import lru_cache
from sys import intern
from typing import Final, TypeAlias

from msgspec import Struct, structs

from events.limits import (
    TOO_LONG,
    is_plain_name,
    name_problem,
    object_name_problem,
    storable,
    whole_number,
)
from projections.container_faults import container_fault
from projections.device_families import DeviceFamilies
from projections.job_option_keys import RELEASE_REQUESTED
from projections.objects import Metadata, Owner, PodObject, PodSpec, PodStatus, nanoseconds_of
from projections.pod_annotations import (
    PodAnnotations,
    annotation_reader,
    read_annotations,
    read_labels,
)
from projections.pod_class import (
    ClassKey,
    Demands,
    PodClass,
    class_key,
    demands_of,
    long_field_problem,
    reported_request,
)
from projections.pod_terms import Labels, shared
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
READY: Final = (BINDING, BOUND, RUNNING, SUCCEEDED)
"""Statuses that count towards minMember."""
GONE: Final = (SUCCEEDED, FAILED, RELEASING)
"""Statuses in which a pod can no longer count towards minMember."""
RANK = "hccl/rankIndex"
"""Rank of a pod in its job, in the Ascend stack."""
TASK_INDEX = "volcano.sh/task-index"
DECISION: Final = "muster.sh/decision"
"""Annotation of a bound pod: the position of the decision that bound it."""
WITHDRAWN: Final = "muster.sh/withdrawn-decision"
"""Annotation of a pod whose binding was refused after an answer was lost: the position of that decision."""
NOT_ADMITTED: Final = "UnexpectedAdmissionError"
"""Reason of a pod that its kubelet did not admit, because a device plugin did not give it its devices."""
POSITION_DIGITS_MAX: Final = 18
"""Maximum number of digits of a position: it is stored in 64 bits."""
ASSIGNMENT_BYTES_MAX: Final = 4096
"""Maximum length of an annotation that says which devices a pod has."""
FAILED_BINDINGS_MAX: Final = 4
"""Number of failed bindings that are kept per pod, the newest."""
NODE_OWNERS: Final = ("DaemonSet", "Node")
"""Kinds of owners whose pods belong to one node."""

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
    index: int
    is_numbered: bool
    owner: Owner | None
    is_evictable: bool
    is_protected: bool
    labels: Labels
    label_of: dict[str, str]
    said: PodAnnotations
    """What its annotations and labels say as those of other pods do."""
    problem: str
    decision: int
    assignments: Labels


class PodSpecFacts(Struct, frozen=True, gc=False):
    """What muster reads of the spec of a pod."""

    spec: PodSpec
    demands: Demands
    problem: str = ""
    requests: dict[str, bytes] = {}
    """The requests of the containers that may be resized in place, as they stand in the spec, by name."""
    node: str = ""
    """The node that it names, or ""."""


def metadata_facts(meta: Metadata, families: DeviceFamilies) -> PodMetadataFacts:
    """Return what muster reads of the metadata of a pod."""
    annotations, labels = meta.annotations or {}, meta.labels or {}
    stated = annotations.keys() & read_annotations(families)
    named = labels.keys() & read_labels(families)
    said = annotation_reader(families)(
        (
            tuple([(key, annotations[key]) for key in sorted(stated)]) if stated else (),
            tuple([(key, labels[key]) for key in sorted(named)]) if named else (),
        )
    )
    owner, belongs_to_node = None, False
    for one in meta.ownerReferences or ():
        if one.controller:
            owner = owner or one
            belongs_to_node = belongs_to_node or one.kind in NODE_OWNERS
    problem = said.problem
    if owner is not None:
        invalid = "" if is_plain_name(owner.uid) else name_problem(owner.uid)
        owner.kind, owner.apiVersion = intern(owner.kind), intern(owner.apiVersion)
        # Its UID tells it from others: the name is only shown.
        is_shown = is_plain_name(owner.name) or not object_name_problem(owner.name)
        owner.name = intern(owner.name) if is_shown else ""
        if invalid:
            problem = f"metadata.ownerReferences: {invalid}"
        owner = None if invalid or not owner.uid else owner
    index, trailing = None, _TRAILING_NUMBER.search(meta.name)
    if TASK_INDEX in annotations:
        index = whole_number(annotations[TASK_INDEX])
    is_protected = belongs_to_node or said.is_protected
    return PodMetadataFacts(
        namespace=intern(meta.namespace or "default"),
        name=meta.name,
        uid=meta.uid or "",
        is_releasing=meta.deletionTimestamp is not None,
        created_ns=nanoseconds_of(meta.creationTimestamp),
        index=index if index is not None else int(trailing[1]) if trailing else 0,
        is_numbered=index is not None or meta.name.rpartition("-")[2].isdecimal(),
        owner=owner,
        is_evictable=not said.is_static and not is_protected,
        is_protected=not said.is_static and is_protected,
        labels=shared(tuple(sorted(labels.items()))),
        label_of=labels,
        said=said,
        problem=problem,
        decision=_position(annotations[DECISION]) if DECISION in annotations else 0,
        assignments=_readable(families.assignments_of(annotations))
        if annotations.keys() & families.pod_assignments
        else (),
    )


def _readable(assignments: Labels) -> Labels:
    """Return the annotations that say which devices a pod has; what is too long to be read is marked."""
    return assignments and tuple(
        [
            (key, TOO_LONG if name_problem(value, ASSIGNMENT_BYTES_MAX) else value)
            for key, value in assignments
        ]
    )


def _position(text: str) -> int:
    """Return a position in the log; 0 for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= POSITION_DIGITS_MAX
    return int(text) if is_number else 0


def spec_facts(spec: PodSpec) -> PodSpecFacts:
    """Return what muster reads of the spec of a pod."""
    problem = long_field_problem(spec)
    return PodSpecFacts(spec, demands_of(spec), problem, stated_requests(spec), spec.nodeName or "")


def pod_facts(obj: PodObject, families: DeviceFamilies) -> tuple[PodFacts, ClassKey]:
    """Return what muster reads of a Pod, and the key of its class."""
    meta = metadata_facts(obj.metadata, families)
    return combine_facts(meta, spec_facts(obj.spec or PodSpec()), obj.status, families)


def combine_facts(
    meta: PodMetadataFacts,
    asked: PodSpecFacts,
    status: PodStatus | None,
    families: DeviceFamilies,
) -> tuple[PodFacts, ClassKey]:
    """Combine the facts of metadata, spec and status; return them with the key of the class."""
    spec, status = asked.spec, status or _NO_STATUS
    said = meta.said
    stated = said.task_priority
    if stated is None:
        stated = 1 if spec.priority is None else spec.priority
    key = class_key(
        asked.demands,
        said.cards,
        meta.namespace,
        meta.label_of,
        () if meta.problem else said.device_options,
        (meta.name, meta.uid),
    )
    if asked.node and (
        status.containerStatuses or status.initContainerStatuses or status.resources
    ):
        reported = reported_request(spec, reported_resources(spec, asked.requests, status))
        if reported:
            key = (*key, "reported", reported)
    facts = PodFacts(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node=_node_name(asked.node) if asked.node else "",
        phase=intern(status.phase or "Pending"),
        scheduler=spec.schedulerName or "",
        priority=spec.priority,
        priority_class=spec.priorityClassName or "",
        is_gated=bool(spec.schedulingGates),
        is_releasing=meta.is_releasing,
        created_ns=meta.created_ns,
        group_name=said.group_name,
        needs_group_object=said.needs_group_object,
        min_member=said.min_member,
        queue=said.queue,
        role=said.role,
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
        is_confirmed=said.is_confirmed or bool(meta.assignments and status.startTime),
        is_cut=bool(asked.problem) or len(status.conditions or ()) > CONDITIONS_MAX,
        assignments=meta.assignments,
        device_rejection=families.rejection_in(status.message or "")
        if status.reason == NOT_ADMITTED and status.phase == "Failed"
        else "",
        fault_options=said.fault_options,
        pool_options=said.pool_options,
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


def _scheduled_message(status: PodStatus) -> str:
    for one in status.conditions or ():
        if one.type == "PodScheduled" and one.status == "False":
            return one.message or ""
    return ""


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


class ObservedPod(Struct, frozen=True, gc=False):
    """A pod as its object shows it."""

    facts: PodFacts
    pod_class: PodClass
    digest: str
    group_key: str = ""
    """Key of its pod group; "" for pods of other schedulers."""
    stated: Stated | None = None
    """What its object says otherwise since its node was decided; None if it says nothing else, or if the pod is seen on
    its node (`projections/fixed_requests.py`)."""


class DecidedPod(Struct, frozen=True, gc=False, array_like=True):
    """What was decided about a pod and stands, and what was fixed when it got its node."""

    assumed: str = ""
    """The decided node, until the API server shows the pod there."""
    decision: int = 0
    """Position of the decision that bound it; 0 if muster did not bind it."""
    bound_at: int = 0
    """Position of the record since which it has its node; 0 without a node."""
    charge: Charge | None = None
    """Charge counted in `allocated` of its queue, fixed when it got its node; None without one."""
    devices: tuple[str, ...] = ()
    """Names of the devices that it has: those that the decision gave it, or that its annotations state."""
    are_devices_reported: bool = False
    """Whether the device plugin has stated these devices."""
    network: Labels = ()
    """Annotations that the decision gave it and that say where in the network it is; empty without any."""
    evicted: int = 0
    """Position of the decision that evicts it, or 0."""
    is_stuck: bool = False
    """Whether it has been terminating for longer than pod groups wait for that: it counts as staying."""
    reported_at: int = 0
    """Position of the refusal that its condition reports."""
    failed_bindings: tuple[FailedBinding, ...] = ()
    """Bindings recorded as failed, oldest first."""
    stated_devices: tuple[str, ...] = ()
    """Names of devices that an annotation states as given by the device plugin in place of those that it has, which nothing
    else shows yet; empty otherwise (`projections/pod_devices.py`)."""


UNDECIDED: Final = DecidedPod()
"""Of pods about which nothing was decided."""


class Pod(Struct, frozen=True, gc=False):
    """A pod as it was observed, what was decided about it, and what follows from both: that is read far more often than it
    changes. A row of State is never changed; another one takes its place (`pod_of`)."""

    observed: ObservedPod
    decided: DecidedPod
    facts: PodFacts
    pod_class: PodClass
    key: str
    """`namespace/name`"""
    group_key: str
    node: str
    """The node that it has or that was decided for it."""
    occupies: bool
    """Whether it uses resources of its node."""
    status: str
    """Its status for the scheduler."""
    is_ready: bool
    """Whether it counts towards minMember. A pod that ended because it was asked to, or was evicted, does not:
    another one continues its work."""
    sort_key: SortKey
    """Task order in its group if all pods there are numbered: priority, index, age, UID."""
    charge: Charge | None
    devices: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return the digest of its object."""
        return self.observed.digest

    @property
    def assumed(self) -> str:
        """Return the decided node, until the API server shows the pod there."""
        return self.decided.assumed

    @property
    def decision(self) -> int:
        """Return the position of the decision that bound it; 0 if muster did not bind it."""
        return self.decided.decision

    @property
    def evicted(self) -> int:
        """Return the position of the decision that evicts it, or 0."""
        return self.decided.evicted

    @property
    def age_key(self) -> SortKey:
        """Return the place of a pod in its group if any pod there has no number: priority, age, index, UID."""
        priority, index, created_ns, uid = self.sort_key
        return priority, created_ns, index, uid

    @property
    def network_annotations(self) -> Labels:
        """Return the annotations that say where in the network it is: those that a decision gave it; of a pod that muster did
        not bind those that it had when it was first seen on its node."""
        decided = self.decided
        return decided.network or (() if decided.decision else self.facts.assignments)

    def failed_binding(self, decision: int, node: str) -> FailedBinding | None:
        """Return the failed binding of a decision to a node; None if there is none."""
        for one in self.decided.failed_bindings:
            if (one.decision, one.node) == (decision, node):
                return one
        return None

    @property
    def is_leaving(self) -> bool:
        """Return whether it is terminating and is expected to end (`projections/victim_waits.py`)."""
        return self.status == RELEASING and not self.decided.is_stuck

    def decided_as(self, **changes: object) -> "Pod":
        """Return the row of the pod after these fields of what was decided about it have changed."""
        decided = structs.replace(self.decided, **changes)
        return pod_of(self.observed, UNDECIDED if decided == UNDECIDED else decided)

    def with_class(self, pod_class: PodClass) -> "Pod":
        """Return the row of the pod in another class."""
        observed = structs.replace(self.observed, pod_class=pod_class)
        return structs.replace(self, observed=observed, pod_class=pod_class)

    def in_group(self, key: str) -> "Pod":
        """Return the row of the pod in another pod group."""
        return structs.replace(
            self, observed=structs.replace(self.observed, group_key=key), group_key=key
        )


def pod_of(observed: ObservedPod, decided: DecidedPod = UNDECIDED) -> Pod:
    """Return the row of a pod."""
    facts = observed.facts
    phase, node = facts.phase, facts.node or decided.assumed
    if phase == "Succeeded":
        status = SUCCEEDED
    elif phase == "Failed":
        status = FAILED
    elif facts.is_releasing or decided.evicted:
        status = RELEASING
    elif phase == "Running":
        status = RUNNING
    elif phase == "Unknown":
        status = UNKNOWN
    elif facts.node:
        status = BOUND
    elif node:
        status = BINDING
    else:
        status = GATED if facts.is_gated else PENDING
    is_ready = status in READY
    if status == SUCCEEDED:
        asked = [key for key, _ in facts.pool_options if key == RELEASE_REQUESTED]
        is_ready = not decided.evicted and not asked
    return Pod(
        observed,
        decided,
        facts,
        observed.pod_class,
        f"{facts.namespace}/{facts.name}",
        observed.group_key,
        node,
        bool(node) and phase not in ("Succeeded", "Failed"),
        status,
        is_ready,
        (-facts.task_priority, facts.index, facts.created_ns, facts.uid),
        decided.charge,
        decided.devices,
    )


def node_share(pod: Pod | None) -> NodeShare | None:
    """Return what a pod uses of its node; None if it uses nothing."""
    if pod is None or not pod.occupies:
        return None
    is_leaving = pod.status == RELEASING and not pod.decided.is_stuck
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


def stays_alike(old: Pod, new: Pod) -> bool:
    """Return whether two versions of a pod that has its node differ at most in whether it is binding, bound or running, and
    in facts that no sum counts."""
    return (
        old.status in ALLOCATED
        and new.status in ALLOCATED
        and old.pod_class is new.pod_class
        and old.node == new.node
        and old.sort_key == new.sort_key
        and old.facts.is_numbered == new.facts.is_numbered
        and old.facts.role == new.facts.role
        and old.facts.owner == new.facts.owner
        and old.facts.group_name == new.facts.group_name
        and old.facts.labels == new.facts.labels
        and (old.decided is new.decided or _holds_same(old.decided, new.decided))
        and has_same_charge(old, new)
    )


def _holds_same(old: DecidedPod, new: DecidedPod) -> bool:
    return (
        old.devices == new.devices
        and old.are_devices_reported == new.are_devices_reported
        and old.stated_devices == new.stated_devices
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
