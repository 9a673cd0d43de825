"""What stands of pods and pod groups: what was decided about them, and what was fixed at a moment."""

from msgspec import Struct

from events.standing.standing import Amounts, Names, Standing, Texts


class PodRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a pod asked for when it got its node, where its object says something else now: what it asks for is fixed then."""

    pod_group: str = ""
    """Name of its pod group in its annotations, labels or owner."""
    needs_group_object: bool = False
    min_member: int = 1
    queue: str = ""
    role: str = ""
    index: int = 0
    is_numbered: bool = False
    task_priority: int = 0
    is_evictable: bool = False
    is_protected: bool = False
    problem: str = ""
    """Why it would be refused."""
    assignments: Texts = ()
    """Annotations that say which devices it has."""
    cards: str = ""
    """Names of cards as in its annotation."""
    options: Texts = ()
    """Annotations and labels that say what devices it needs."""
    namespace: str = ""
    labels: Texts = ()
    """The labels of the pod that its own terms refer to, and their namespace; both empty without terms."""


class PodSelection(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What of a pod the terms of other pods refer to, as it was when the pod last waited."""

    namespace: str
    labels: Texts = ()
    """Its labels with values that a term names."""
    other_labels: Names = ()
    """Keys of its labels that terms refer to with other values."""
    is_barred: bool = False
    """Whether required anti-affinity of other pods may select it."""
    is_weighed: bool = False
    """Whether affinity or preferred anti-affinity of other pods may select it."""


class FailedBindingStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A binding that was recorded as failed."""

    decision: int
    node: str
    devices: Names = ()
    network: Texts = ()


class PodStands(Standing, frozen=True, kw_only=True):
    """A pod as it was last observed, and what was decided about it.

    If muster failed to read its newest object, the object here is the one before, and an `object_stands` follows.
    """

    kind = "pod_stands.v1"

    uid: str
    request: PodRequest | None = None
    """What it asks for; none if that is what its object says."""
    is_otherwise_stated: bool = False
    """Whether it waits to be seen on its node, and its object counts again if it does not get there."""
    pod_group: str = ""
    """Key of its pod group; empty for pods of other schedulers."""
    assumed: str = ""
    """The node that was decided for it, if it is not seen there yet."""
    decision: int = 0
    """Position of the decision that bound it."""
    bound_at: int = 0
    """Position of the record since which it has its node."""
    charge: Amounts | None = None
    """What its queue is charged for it."""
    evicted: int = 0
    """Position of the decision that evicts it."""
    reported_at: int = 0
    """Position of the refusal that its condition reports."""
    failed_bindings: tuple[FailedBindingStands, ...] = ()
    devices: Names = ()
    are_devices_reported: bool = False
    """Whether the device plugin has stated these devices."""
    stated_devices: Names = ()
    """Devices that an annotation states in their place, and nothing else shows yet."""
    network: Texts = ()
    is_stuck: bool = False
    """Whether it terminates for too long and counts as staying."""
    selection: PodSelection | None = None
    plugin_labels: Texts = ()
    """Its labels that plugins read, as they were when it last waited."""
    closed_tenant: str = ""
    """The tenant to which nodes were closed when it last waited; empty if none were."""
    rank: int | None = None
    """The rank that was decided for it."""


class BindingStands(Standing, frozen=True, kw_only=True):
    """A binding that was decided and has no outcome yet."""

    kind = "binding_stands.v1"

    decision: int
    pod: str
    uid: str
    node: str
    is_unknown: bool = False
    """Whether the answer was lost."""
    assigned_ns: int = 0
    is_annotated: bool = False
    mode: str = ""
    in_favour_of: str = ""


class EvictionStands(Standing, frozen=True, kw_only=True):
    """An eviction that was decided and has no outcome yet."""

    kind = "eviction_stands.v1"

    decision: int
    pod: str
    uid: str
    node: str
    is_unknown: bool = False
    assigned_ns: int = 0
    is_annotated: bool = False
    mode: str = ""
    """`grace` or `force` after a fault; `delete` if it is not left to disruption budgets."""
    in_favour_of: str = ""


class RefusalStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The last recorded refusal of a pod group by an action."""

    action: str
    code: str
    limit: str
    message: str
    pod: str
    position: int
    requeue_on: Names = ()
    never_fits: bool = False
    fits_only_closed_nodes: bool = False
    is_timed_out: bool = False
    node_helps: bool | None = None


class NominationStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Resources that are reserved on a node for a pod, and what its queue is charged for them."""

    uid: str
    node: str
    resources: Amounts
    charge: Amounts
    position: int = 0
    devices: Names = ()


class GroupStatus(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The status that a PodGroup object should have, and what was reported, as positions of records."""

    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    since: int = 0
    phase_since: int = 0
    phase_before: str = ""
    phase_before_since: int = 0
    reported_at: int = 0
    ready_since: int = 0
    conditions_reported_at: int = 0
    overwritten: int = 0


class PodGroupStands(Standing, frozen=True, kw_only=True):
    """A pod group, with its object if it has one, and what was decided about it."""

    kind = "pod_group_stands.v1"

    queue: str
    uid: str = ""
    """Empty for one without an object."""
    needs_object: bool = False
    priority: int = 0
    stated_priority: int = 0
    """Its priority without the bounds of its queue and pool."""
    created_ns: int = 0
    min_available: int = 1
    min_tasks: Amounts = ()
    phase: str
    listed_phase: str = ""
    """The phase of its object that is trusted as long as nothing is decided about it."""
    cause: int = 0
    """Position of the record that last changed it."""
    refusals: tuple[RefusalStands, ...] = ()
    nominations: tuple[NominationStands, ...] = ()
    status: GroupStatus = GroupStatus()


class PodsWaitStands(Standing, frozen=True, kw_only=True):
    """How long an admitted pod group waits for its pods, or is not voted on since it lost its reservation."""

    kind = "pods_wait_stands.v1"

    pod_group: str
    until_ns: int
    pods: int = 0
    lost: int = 0
    since_ns: int = 0
    is_backing_off: bool = False


class VictimWaitStands(Standing, frozen=True, kw_only=True):
    """How long a pod group waits for terminating pods on the nodes that it is nominated to."""

    kind = "victim_wait_stands.v1"

    pod_group: str
    until_ns: int | None = None
    timeouts: int = 0


class BackoffStands(Standing, frozen=True, kw_only=True):
    """A time before which something is not done again, or at which something is due."""

    kind = "backoff_stands.v1"

    what: str
    """`bind` or `reservation` of a pod group, `evict` of a pod, `pause` of a tenant in a queue, `error` of an action
    for a pod group."""
    pod_group: str = ""
    uid: str = ""
    tenant: str = ""
    queue: str = ""
    action: str = ""
    until_ns: int = 0
    count: int = 0
    """How often the action raised an error for the pod group."""


class BindFailuresStand(Standing, frozen=True, kw_only=True):
    """How many bindings of a pod group failed in a row."""

    kind = "bind_failures_stand.v1"

    pod_group: str
    count: int


class ActionFailedStands(Standing, frozen=True, kw_only=True):
    """An action that raised an error outside of the evaluation of a pod group."""

    kind = "action_failed_stands.v1"

    action: str
    until_ns: int
    message: str
    is_abandoned: bool = False


class BudgetRefusalStands(Standing, frozen=True, kw_only=True):
    """A pod whose eviction disruption budgets refused, and the times of the first refusal in its namespace and of the last one."""

    kind = "budget_refusal_stands.v1"

    uid: str
    namespace: str
    since_ns: int
    last_ns: int


class DeviceAssignmentsStand(Standing, frozen=True, kw_only=True):
    """The last assignment time of a node, and its pods that wait for a confirmation, in order."""

    kind = "device_assignments_stand.v1"

    node: str
    last_ns: int | None = None
    unconfirmed: Amounts = ()
    """UIDs with the time until which the next pod waits; 0 while the pod is not bound."""


class QuarantineStands(Standing, frozen=True, kw_only=True):
    """A node that is, or shortly was, closed to pods of a tenant that request a resource."""

    kind = "quarantine_stands.v1"

    node: str
    tenant: str
    reason: str
    resource: str
    count: int
    resources: Amounts
    """What all rejected pods requested at least."""
    until_ns: int | None = None
    is_over: bool = False
    was_admitted_since: bool = False
