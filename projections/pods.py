"""Pods as the scheduler sees them."""

import re
from typing import Final

from msgspec import Struct

from events.limits import (
    CHOICE_BYTES_MAX,
    NAME_BYTES_MAX,
    name_problem,
    object_name_problem,
    storable,
    whole_number,
)
from projections.objects import Metadata, Owner, PodObject, PodSpec, PodStatus, nanoseconds_of
from projections.pod_class import (
    CARD_NAME,
    ClassKey,
    Demands,
    PodClass,
    class_key,
    demands_of,
    long_field_problem,
    stated_cards,
)
from projections.pod_terms import Labels, shared

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
"""Statuses that count towards the gang."""
GONE: Final = (SUCCEEDED, FAILED, RELEASING)
"""Statuses in which a pod cannot help to make up the gang any more."""
GROUP_NAME = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
COSCHEDULING_GROUP = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")
COSCHEDULING_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_SPEC = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
MIRROR = "kubernetes.io/config.mirror"
DECISION: Final = "muster.sh/decision"
"""Annotation of a bound pod: the position of the decision that bound it."""
POSITION_DIGITS_MAX: Final = 18
"""A position has no more digits: it is stored in 64 bits."""
FAILED_BINDINGS_MAX: Final = 4
"""Decisions without effect that are remembered of a pod, the newest."""
NODE_OWNERS: Final = ("DaemonSet", "Node")
"""Owners of pods that belong on their node."""

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")

_TRAILING_NUMBER = re.compile(r"(\d{1,18})$")

Charge = tuple[tuple[str, int], ...]
"""What a queue is charged: `cpu` (milli), `memory` (bytes), or a card or resource (whole), and how much."""


NodeShare = tuple[str, str, tuple[tuple[str, int], ...]]
"""Node name, whether it is `occupied` only or also `releasing`, and the request."""


class PodFacts(Struct, frozen=True):
    """A pod as its object says."""

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
    """The pod group it names, in its namespace; empty where it names none."""
    needs_group_object: bool
    min_member: int
    queue: str
    """The queue it names itself, or empty."""
    role: str
    index: int
    task_priority: int
    owner: Owner | None
    reason: str = ""
    scheduled_message: str = ""
    """Why it waits, as its condition PodScheduled says; empty where it says nothing."""
    is_evictable: bool = True
    """Whether it may be evicted in favour of others at all."""
    labels: Labels = ()
    nominated_node: str = ""
    """The node where somebody made room for it, or empty."""
    problem: str = ""
    """Why it is refused: an annotation or a field that names something cannot be a name. Empty where all can."""
    decision: int = 0
    """The decision that its annotation names, by position; 0 where it names none."""
    is_cut: bool = False
    """Whether a long field of its spec was left out. Its conditions are not written: each write would make the API
    server store all of it again, and send it to everything that watches."""


class PodMetadataFacts(Struct, frozen=True):
    """What the metadata of a pod says."""

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
    task_priority: str | None
    owner: Owner | None
    is_evictable: bool
    labels: Labels
    label_of: dict[str, str]
    cards: str
    problem: str
    decision: int = 0


class PodSpecFacts(Struct, frozen=True):
    """What the spec of a pod says."""

    spec: PodSpec
    demands: Demands
    problem: str = ""


def metadata_facts(meta: Metadata) -> PodMetadataFacts:
    """What muster reads of the metadata of a pod."""
    annotations, labels = meta.annotations or {}, meta.labels or {}
    names = _Names()
    group_name, needs_object = _group_name(annotations, labels)
    owner = next((one for one in meta.ownerReferences or () if one.controller), None)
    if owner is not None and not names.read("metadata.ownerReferences", owner.uid):
        owner = None
    return PodMetadataFacts(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or "",
        is_releasing=meta.deletionTimestamp is not None,
        created_ns=nanoseconds_of(meta.creationTimestamp),
        group_name=names.read_object("the name of its pod group", group_name),
        needs_group_object=needs_object,
        min_member=max(1, _number(labels.get(COSCHEDULING_MIN) or annotations.get(MIN_MEMBER), 1)),
        queue=names.read_object(QUEUE_NAME, annotations.get(QUEUE_NAME) or labels.get(QUEUE_NAME)),
        role=names.read(TASK_SPEC, annotations.get(TASK_SPEC) or labels.get(TASK_SPEC)),
        index=_number(annotations.get(TASK_INDEX), _trailing_number(meta.name)),
        task_priority=annotations.get(TASK_PRIORITY),
        owner=owner,
        is_evictable=_is_evictable(meta),
        labels=shared(tuple(sorted(labels.items()))),
        label_of=labels,
        cards=names.read(CARD_NAME, stated_cards(annotations), CHOICE_BYTES_MAX),
        problem=names.problem,
        decision=_position(annotations.get(DECISION, "")),
    )


class _Names:
    """Reads the names in an object. The first that cannot be one is its problem."""

    def __init__(self) -> None:
        self.problem = ""

    def read(self, what: str, name: str | None, bytes_max: int = NAME_BYTES_MAX) -> str:
        """The name; empty where it cannot be one."""
        return self._checked(what, name, name_problem(name, bytes_max)) if name else ""

    def read_object(self, what: str, name: str | None) -> str:
        """The name of an object; empty where it cannot be one."""
        return self._checked(what, name, object_name_problem(name)) if name else ""

    def _checked(self, what: str, name: str, problem: str) -> str:
        if problem:
            self.problem = self.problem or f"{what}: {problem}"
        return "" if problem else name


def _position(text: str) -> int:
    """A position in the log; 0 for anything else."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= POSITION_DIGITS_MAX
    return int(text) if is_number else 0


def spec_facts(spec: PodSpec) -> PodSpecFacts:
    """What muster reads of the spec of a pod."""
    return PodSpecFacts(spec, demands_of(spec), long_field_problem(spec))


def pod_facts(obj: PodObject) -> tuple[PodFacts, ClassKey]:
    """What muster reads of a Pod, and the key of its class."""
    return combine_facts(
        metadata_facts(obj.metadata), spec_facts(obj.spec or PodSpec()), obj.status
    )


def combine_facts(
    meta: PodMetadataFacts, asked: PodSpecFacts, status: PodStatus | None
) -> tuple[PodFacts, ClassKey]:
    """The facts of a pod out of its parts, and the key of its class."""
    spec, status = asked.spec, status or PodStatus()
    return PodFacts(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node=_node_name(spec.nodeName or ""),
        phase=status.phase or "Pending",
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
        task_priority=_number(meta.task_priority, 1 if spec.priority is None else spec.priority),
        owner=meta.owner,
        reason=status.reason or "",
        scheduled_message=_told(status),
        is_evictable=meta.is_evictable,
        labels=meta.labels,
        nominated_node=status.nominatedNodeName or "",
        problem=meta.problem or asked.problem,
        decision=meta.decision,
        is_cut=bool(asked.problem),
    ), class_key(asked.demands, meta.cards, meta.namespace, meta.label_of)


def _node_name(name: str) -> str:
    """The name of the node of a pod; one that no node can have, as text that every database stores."""
    return storable(name) if name_problem(name) else name


def _is_evictable(meta: Metadata) -> bool:
    """Pods that belong to their node come back to it (K9.7); others may say that they are not to go.

    Like Volcano: what is said but is no truth value is a no.
    """
    annotations, labels = meta.annotations or {}, meta.labels or {}
    owners = meta.ownerReferences or ()
    if MIRROR in annotations or any(one.kind in NODE_OWNERS for one in owners if one.controller):
        return False
    said = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))
    return said is None or said in _TRUE


def _told(status: PodStatus) -> str:
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
    """A small whole number in an annotation; what cannot be read counts as absent."""
    number = whole_number(text)
    return default if number is None else number


def _trailing_number(name: str) -> int:
    match = _TRAILING_NUMBER.search(name)
    return int(match.group(1)) if match else 0


class Pod:
    """A pod, and what muster has decided about it. Only State changes it."""

    __slots__ = (
        "assumed",
        "bound_at",
        "charge",
        "decision",
        "digest",
        "evicted",
        "facts",
        "failed_bindings",
        "group_key",
        "pod_class",
        "reported_at",
        "requested_charge",
        "sort_key",
    )  # fmt: skip

    def __init__(
        self, facts: PodFacts, pod_class: PodClass, digest: str, problem: str = ""
    ) -> None:
        self.facts = facts
        self.pod_class = pod_class
        self.digest = digest
        self.group_key = ""
        """The pod group it belongs to, or empty when it is not ours."""
        self.assumed = ""
        """The node we decided on, until the API server shows the pod there."""
        self.decision = 0
        """Position of the decision that bound it; 0 when someone else did."""
        self.failed_bindings: tuple[tuple[int, str], ...] = ()
        """Decisions that were recorded as without effect, each with its node, oldest first. Should the pod turn
        up on that node by that decision, it was bound after all."""
        self.bound_at = 0
        """Position of the record since which it has its node; 0 without one."""
        self.evicted = 0
        """Position of the decision by which it must leave; 0 where none stands."""
        self.reported_at = 0
        """Position of the refusal that its condition has been told of."""
        self.requested_charge: Charge = ()
        """What its queue would be charged, as counted among the waiting; empty when it does not wait."""
        self.charge: Charge | None = None
        """What its queue is charged, fixed when it got its node; None when nothing is."""
        self.sort_key = (-facts.task_priority, facts.index, facts.created_ns, facts.uid)
        """Its place among the pods of its group: priority, index, age, UID."""

    @property
    def key(self) -> str:
        """`namespace/name`"""
        return f"{self.facts.namespace}/{self.facts.name}"

    @property
    def node(self) -> str:
        """The node it has or is meant to have."""
        return self.facts.node or self.assumed

    @property
    def status(self) -> str:
        """Where it stands, for the scheduler."""
        facts = self.facts
        if facts.phase == "Succeeded":
            return SUCCEEDED
        if facts.phase == "Failed":
            return FAILED
        if facts.is_releasing or self.evicted:
            return RELEASING
        if facts.phase == "Running":
            return RUNNING
        if facts.phase == "Unknown":
            return UNKNOWN
        if facts.node:
            return BOUND
        if self.assumed:
            return BINDING
        return GATED if facts.is_gated else PENDING

    @property
    def occupies(self) -> bool:
        """Whether it takes room on its node."""
        return bool(self.node) and self.facts.phase not in ("Succeeded", "Failed")

    def copy(self) -> "Pod":
        """The same pod, to be changed while this one is still in the sums."""
        twin = Pod(self.facts, self.pod_class, self.digest)
        twin.group_key, twin.assumed, twin.decision = self.group_key, self.assumed, self.decision
        twin.bound_at, twin.charge = self.bound_at, self.charge
        twin.evicted, twin.reported_at = self.evicted, self.reported_at
        twin.failed_bindings = self.failed_bindings
        return twin


def node_share(pod: Pod | None) -> NodeShare | None:
    """What a pod takes of its node; None for a pod that takes nothing."""
    if pod is None or not pod.occupies:
        return None
    kind = "releasing" if pod.status == RELEASING else "occupied"
    return pod.node, kind, pod.pod_class.request


def has_same_demand(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod asks for the same and stands where it stood, whatever else changed of it."""
    if old is None or new is None or old.pod_class is not new.pod_class:
        return False
    return (
        old.status == new.status
        and old.node == new.node
        and old.sort_key == new.sort_key
        and old.facts.role == new.facts.role
        and old.facts.labels == new.facts.labels
    )


def has_same_charge(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod stays charged for the same, whatever else changed of it."""
    if old is None or new is None or old.pod_class is not new.pod_class:
        return False
    return (
        old.charge is not None
        and old.charge == new.charge
        and old.status in ALLOCATED
        and new.status in ALLOCATED
        and old.facts.is_evictable == new.facts.is_evictable
    )
