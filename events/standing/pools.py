"""What stands of the decisions of pool deciders."""

from msgspec import Struct

from events.standing.standing import Standing


class ReleaseStands(Standing, frozen=True, kw_only=True):
    """A running pod that is asked to release its resources."""

    kind = "release_stands.v1"

    uid: str
    decision: int
    pod: str
    in_favour_of: str
    deadline_ns: int
    tries: int = 0
    is_marked: bool = False


class ReturningTask(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task that was released and whose pods will be created again."""

    task: str
    submitted_ns: int
    requested_ns: int


class ReturningStand(Standing, frozen=True, kw_only=True):
    """The tasks of a pod group that will come back."""

    kind = "returning_stand.v1"

    pod_group: str
    tasks: tuple[ReturningTask, ...]


class PoolPodStands(Standing, frozen=True, kw_only=True):
    """What a pool keeps of a pod."""

    kind = "pool_pod_stands.v1"

    uid: str
    is_backfilled: bool = False
    submitted_ns: int | None = None
    """When its job was submitted, if the pod came back; `requested_ns` is when the job first asked for slots."""
    requested_ns: int = 0
    started_ns: int | None = None
    """When it was bound by a pool decider."""


class PoolStands(Standing, frozen=True, kw_only=True):
    """The last pass of a pool, and whether something changed in it since."""

    kind = "pool_stands.v1"

    pool: str
    is_dirty: bool = False
    is_due: bool = False
    """Whether it has a pass in the open cycle."""
    passed_ns: int | None = None
