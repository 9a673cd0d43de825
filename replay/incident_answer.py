"""Incidents as data: what broke, what it hit, what was decided, where the pods went, and what it cost.

Times are texts for people (`at`) and nanoseconds (`at_ns`: since 1970 or, in a simulation, since its start), spans are seconds; null where it
has not happened. What stood before the first record of a log that begins with facts has position and `at_ns` of the place where the log begins, and
`before` its time.
"""

from msgspec import Struct


class FaultSeen(Struct, frozen=True):
    """A fault, from the record that showed it to the one that showed it gone."""

    name: str
    """`NODE/DEVICE@POSITION`, or `NODE@POSITION` for a fault of the node or of a pod there."""
    node: str
    device: str
    source: str
    level: str
    code: str
    effect: str
    pod: str
    """The pod, if it is the pod itself that is faulty; else empty."""
    position: int
    at: str
    at_ns: int
    cleared_position: int | None
    cleared_at: str | None
    cleared_at_ns: int | None
    pods: int
    """Number of pods that it hit."""


class HitPod(Struct, frozen=True):
    """A pod that a fault hit."""

    pod: str
    uid: str
    pod_group: str
    node: str
    rank: int
    """-1 without one."""
    cards: dict[str, int]
    devices: tuple[str, ...]
    fault: str
    """Name of the fault."""


class DeletionDecided(Struct, frozen=True):
    """A decision to delete pods of a job."""

    position: int
    at: str
    at_ns: int
    code: str
    message: str
    mode: str
    scope: str
    is_escalation: bool
    faulty: tuple[str, ...]
    """Faulty pods that it deletes."""
    healthy: tuple[str, ...]
    """Other pods that it deletes."""


class Wait(Struct, frozen=True):
    """What a restarted job waited for."""

    position: int
    at: str
    at_ns: int
    action: str
    code: str
    message: str
    terminating: int
    """Number of its deleted pods that were still there."""
    seconds: float | None
    """Until the next answer; null if there was none."""


class Move(Struct, frozen=True):
    """The place of a pod before and after."""

    rank: int
    pod: str
    """The pod that has the place now; the old one if none has."""
    old_pod: str
    from_node: str
    to_node: str
    """Empty if no pod has taken the place."""
    was_faulty: bool
    was_deleted: bool
    position: int | None
    """Position of the decision that placed it."""


class JobRestart(Struct, frozen=True):
    """A job of which pods were deleted after a fault, until all run again."""

    pod_group: str
    queue: str
    position: int
    at: str
    at_ns: int
    cards: dict[str, int]
    """Cards of the whole gang."""
    decisions: tuple[DeletionDecided, ...]
    waits: tuple[Wait, ...]
    waits_left_out: int
    moves: tuple[Move, ...]
    outcome: str
    """`Restarted`, `TimedOut`, `Replaced`; `RestartedAgain` or `Deleted` before all ran; empty while it is not over."""
    message: str
    evicted: int
    """Number of pods that were deleted."""
    evicted_healthy: int
    forced: int
    """Number of pods that were deleted by force because they did not end."""
    seconds_to_decision: float | None
    """From the fault that the job was restarted for; null if that stood before the first record of the log, and so are the next two."""
    seconds_to_bound: float | None
    seconds_to_running: float | None
    lost_card_seconds: float
    """Cards of the gang times the time from the first pod that was lost until all ran again."""
    healthy_card_seconds: float
    """Part of it: cards of healthy pods that were deleted, from their deletion on."""
    is_over: bool


class NotMoved(Struct, frozen=True):
    """Why nothing was done for a job that was hit."""

    pod_group: str
    position: int
    at: str
    at_ns: int
    code: str
    message: str


class IncidentStep(Struct, frozen=True):
    """A step of the timeline; equal ones in a row are one step."""

    position: int
    last_position: int
    at: str
    at_ns: int
    kind: str
    """`fault`, `cleared`, `decision`, `outcome`, `wait`, `gone`, `bound`, `running`, `over` or `nothing`."""
    subject: str
    """The node or pod group that it is about, as `why` names it."""
    text: str
    details: tuple[str, ...]
    count: int
    why: str
    """The command that explains it."""


class Incident(Struct, frozen=True):
    """Faults of one cause, and the restarts that name them."""

    name: str
    """The name of its first fault; `NAMESPACE/NAME@POSITION` of the pod group if there is none."""
    position: int
    at: str
    at_ns: int
    last_position: int
    last_at: str
    last_at_ns: int
    is_over: bool
    """Whether its faults are gone and its restarts are over."""
    text: str
    """Its first fault, for people."""
    nodes: tuple[str, ...]
    pod_groups: tuple[str, ...]
    """Those that were hit."""
    pods_hit: int
    restarted: tuple[str, ...]
    """Pod groups that were restarted."""
    done: str
    """What was done, for people."""
    evicted: int
    seconds_to_decision: float | None
    """Until the first decision."""
    seconds_to_running: float | None
    """Until the last job ran again; null if one does not."""
    lost_card_seconds: float


class IncidentReport(Struct, frozen=True):
    """An incident with all that is known of it."""

    summary: Incident
    faults: tuple[FaultSeen, ...]
    pods: tuple[HitPod, ...]
    restarts: tuple[JobRestart, ...]
    not_moved: tuple[NotMoved, ...]
    timeline: tuple[IncidentStep, ...]
    steps_left_out: int
