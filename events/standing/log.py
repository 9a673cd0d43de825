"""What stands of the log itself: daemon, policy, time, and how far each kind is watched."""

import msgspec
from msgspec import Struct

from events.standing.standing import Names, Standing, Texts


class DaemonStands(Standing, frozen=True, kw_only=True):
    """What the daemon was last started with. Without the names of schedulers none was started."""

    kind = "daemon_stands.v1"

    period_ns: int = 0
    """The least time between two cycles."""
    scheduler_names: Names = ()
    is_shadow: bool = False
    pod_labels: Names = ()
    """Keys of the labels of pods that the view `pod` shows."""
    volume_kinds: Texts = ()
    """Kinds that must be listed before a pod with claims is placed, and why one is not."""


class PolicyStands(Standing, frozen=True, kw_only=True):
    """The policy in force, and the position of its record; 0 for the one that is built in."""

    kind = "policy_stands.v1"

    position: int
    policy: msgspec.Raw


class CycleStands(Standing, frozen=True, kw_only=True):
    """The last cycle: its position and time."""

    kind = "cycle_stands.v1"

    position: int
    at_ns: int


class ObjectRevisionStands(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of a kind that changed last."""

    subject: str
    uid: str
    resource_version: str
    is_gone: bool = False


class WatchStands(Standing, frozen=True, kw_only=True):
    """How far a kind is watched."""

    kind = "watch_stands.v1"

    resource: str
    is_listed: bool = False
    """Whether it was listed, or its watch resumed, since the daemon was started."""
    was_ever_listed: bool = False
    """Of PodGroup: whether it was ever listed whole."""
    resource_version: str | None = None
    """The revision up to which the log holds everything; none before the first list."""
    newest: tuple[ObjectRevisionStands, ...] = ()
    """The objects that changed last, the latest last."""
