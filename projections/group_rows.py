"""Rows of a pod group: what was observed of it, and what was decided and stands."""

from typing import Final

from msgspec import Struct, structs

from events.limits import whole_number
from projections.group_facts import GroupFacts, spec_of
from projections.pod_annotations import MIN_AVAILABLE
from projections.pod_terms import Labels
from projections.pods import Charge
from projections.reported_status import NOT_REPORTED, ReportedStatus


class Refusal(Struct, frozen=True, gc=False, array_like=True):
    """The last recorded refusal of a group by an action."""

    code: str
    limit: str
    message: str
    pod: str
    position: int
    requeue_on: tuple[str, ...] = ()
    never_fits: bool = False
    fits_only_closed_nodes: bool = False
    is_timed_out: bool = False
    """Whether the nodes were closed for longer than the reservation time-out."""
    node_helps: bool | None = None
    """Whether another node would let the pods run now; None: as the code says."""


class Nomination(Struct, frozen=True, array_like=True):
    """Resources reserved on a node for a pod, and what its queue is charged for them."""

    node: str
    request: tuple[tuple[str, int], ...]
    charge: Charge
    position: int = 0
    """Position of the decision."""
    devices: tuple[str, ...] = ()
    """Names of the devices that it holds."""


class GroupReservation(Struct, frozen=True, gc=False, array_like=True):
    """What a group adds to the ledgers of its queue beside the charges of its pods."""

    inqueue: Charge = ()
    """What it has reserved and not used yet."""
    elastic: Charge = ()
    """What it is charged above its minimum."""


NO_RESERVATION: Final = GroupReservation()

NO_TASKS: Final[dict[str, int]] = {}
"""No minimums of roles: most groups have none."""

NO_REFUSALS: Final[dict[str, Refusal]] = {}

NO_NOMINATIONS: Final[dict[str, Nomination]] = {}


class ObservedGroup(Struct, frozen=True, array_like=True):
    """What objects say of a pod group: its own, or its pods and their owner. Its dicts are not changed in place."""

    uid: str
    """That of its object; `namespace/name` without one."""
    created_ns: int = 0
    min_available: int = 1
    needs_object: bool = False
    """Whether it needs an object to be scheduled."""
    stated_priority: int = 0
    """Its priority without the bounds of its queue and pool."""
    facts: GroupFacts | None = None
    """Facts of its PodGroup object, or None."""
    spec: GroupFacts | None = None
    """The facts without the status that the scheduler writes."""
    digest: str = ""
    min_tasks: dict[str, int] = NO_TASKS

    def with_object(self, key: str, facts: GroupFacts, digest: str) -> "ObservedGroup":
        """Return the row after the object was added or changed."""
        row = structs.replace(
            self,
            uid=facts.uid or key,
            created_ns=facts.created_ns,
            min_available=facts.min_available,
            facts=facts,
            spec=spec_of(facts),
            digest=digest,
            min_tasks=facts.min_tasks,
        )
        return row.with_least(facts.device_options)

    def without_object(self) -> "ObservedGroup":
        """Return the row after the object was deleted: pods that name it wait until it is created again."""
        return structs.replace(self, facts=None, spec=None, digest="", needs_object=True)

    def with_least(self, options: Labels) -> "ObservedGroup":
        """Return the row with the minimum in an annotation of the object or of a pod, if the object states none above 1."""
        least = whole_number(dict(options).get(MIN_AVAILABLE)) if options else None
        if least is None or self.facts is None or self.facts.min_available != 1:
            return self
        return structs.replace(self, min_available=max(self.min_available, least))


class DecidedGroup(Struct, frozen=True, array_like=True):
    """What was decided about a pod group and stands. Its dicts are not changed in place."""

    phase: str
    listed_phase: str = ""
    """The phase in its object that is trusted, as long as nothing is decided about the group
    (`Cluster.trusts_stated_phase`); "" for none."""
    cause: int = 0
    """Position of the record that last changed the group."""
    refusals: dict[str, Refusal] = NO_REFUSALS
    """Action to its current refusal."""
    nominations: dict[str, Nomination] = NO_NOMINATIONS
    """Pod UID to the resources that are being freed for it."""
    reported_status: ReportedStatus = NOT_REPORTED
    """Status of its object, if it has one."""

    def with_refusal(self, action: str, refusal: Refusal) -> "DecidedGroup":
        """Return the row with a refusal in place of an earlier one by the action."""
        return structs.replace(self, refusals={**self.refusals, action: refusal})

    def without_refusals(self, *actions: str) -> "DecidedGroup":
        """Return the row without the refusals by some actions; without any if none is named."""
        left = {one: found for one, found in self.refusals.items() if one not in actions}
        return structs.replace(self, refusals=left if actions and left else NO_REFUSALS)
