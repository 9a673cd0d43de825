"""What stands of faults: jobs that are restarted, what is kept of them, and what is written for others."""

from msgspec import Struct

from events.decisions.reschedule import RestartedPod
from events.standing.standing import Amounts, Names, Standing, Texts


class ReservationStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is kept of a node for the pod that replaces a healthy one."""

    uid: str
    node: str
    resources: Amounts


class NetworkStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the leaf switch or the logical SuperPoD of a pod was for it."""

    uid: str
    network: Texts


class RestartStands(Standing, frozen=True, kw_only=True):
    """A job of which pods were deleted after a fault, and that is not complete again."""

    kind = "restart_stands.v1"

    pod_group: str
    owner: str
    position: int
    begun_ns: int
    decided_ns: int
    mode: str
    scope: str
    members: tuple[RestartedPod, ...]
    leaving: Names = ()
    """UIDs of deleted pods that are not gone."""
    gone_ns: int = 0
    first_gone_ns: int = 0
    is_owner_gone: bool = False
    replaced: Texts = ()
    """UIDs of pods of `members`, each with that of the pod that took its place."""
    networks: tuple[NetworkStands, ...] = ()
    reservations: tuple[ReservationStands, ...] = ()
    reserved_until_ns: int = 0
    grace_ns: int = 0
    forced_ns: int = 0
    has_given_up: bool = False
    queue: str = ""
    kept: Amounts = ()


class JobFaultsStand(Standing, frozen=True, kw_only=True):
    """What is kept of the faults of a pod group beside a restart."""

    kind = "job_faults_stand.v1"

    pod_group: str
    owner: str | None = None
    """UID of the workload whose retries are counted; none without any."""
    retries_left: int = 0
    restarted_ns: tuple[int, ...] | None = None
    """Times of its restarts within the last hour."""
    faulty_since_ns: Amounts | None = None
    """UIDs of its faulty pods, each with the time of the first cycle that saw it so."""
    stranded_since_ns: int | None = None
    deadline_ns: int | None = None
    """When it is looked at again."""


class NodeSettlingStands(Standing, frozen=True, kw_only=True):
    """A node that has recovered and gets no pods until a time; 0 until the next cycle gives it."""

    kind = "node_settling_stands.v1"

    node: str
    until_ns: int


class FaultMarkStands(Standing, frozen=True, kw_only=True):
    """The fault of a pod that was decided to be written on it."""

    kind = "fault_mark_stands.v1"

    uid: str
    decision: int
    pod: str
    fault: str
    tries: int = 0
    is_done: bool = False


class FaultReportStands(Standing, frozen=True, kw_only=True):
    """A report of faults for other programs: the position of the last record that changed it, and up to which it is written."""

    kind = "fault_report_stands.v1"

    what: str
    changed_at: int | None = None
    written_at: int | None = None


class RestartReason(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pod that was a reason for a restart."""

    fault: str
    pod: str
    node: str
    rank: int


class RestartRecord(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One restart of a job."""

    at_ns: int
    reasons: tuple[RestartReason, ...] = ()


class JobRestartsStand(Standing, frozen=True, kw_only=True):
    """The last restarts of a job, the newest first, as reported to other programs."""

    kind = "job_restarts_stand.v1"

    pod_group: str
    job: str
    total: int
    records: tuple[RestartRecord, ...] = ()
