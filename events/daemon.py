"""What happened to the daemon itself: a start, an epoch, a policy."""

import msgspec

from events.record import Fact


class DaemonStarted(Fact, frozen=True, kw_only=True):
    """A daemon took over the log: from here on the records have its epoch."""

    kind = "daemon_started.v1"

    holder: str
    version: str
    period_ns: int
    """The least time between two cycles."""
    scheduler_names: tuple[str, ...]
    """Pods with one of these as `schedulerName` are ours to schedule."""
    is_shadow: bool = False
    """Whether the daemon carries nothing out: other schedulers of these names place the pods."""
    pod_labels: tuple[str, ...] = ()
    """Keys of the labels of pods that the view `pod` shows."""
    volume_kinds: tuple[str, ...] = ()
    """Kinds that must be listed before a pod whose volumes name claims is placed. Without any, such pods are refused, as
    by releases that did not read claims."""


class PolicyChanged(Fact, frozen=True, kw_only=True):
    """The policy now in force, whole, as it was given."""

    kind = "policy_changed.v1"

    source: str
    """The name of the file it came from, or `built-in`."""
    policy: msgspec.Raw


class PolicyWarned(Fact, frozen=True, kw_only=True):
    """Something in the policy that muster does not know, and skips."""

    kind = "policy_warned.v1"

    path: str
    message: str


class RecordsLost(Fact, frozen=True, kw_only=True):
    """The end of the log was lost, and the loss was accepted: what it decided there is in the cluster and not in this log.

    Positions go on behind the record before this one; those of the lost records are used again.
    """

    kind = "records_lost.v1"

    first: int
    """The first position that is lost; the same as `last` if the log has other records there."""
    last: int
    """The last position that is known to have been written."""
    digest: str
    """The digest that the log had there."""
    source: str
    """What states that, such as the Lease."""
    accepted_by: str
    """The command or setting that accepted the loss."""
