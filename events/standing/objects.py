"""What stands of objects that were observed, and of what their configuration says."""

from events.standing.standing import Amounts, Names, Standing, Texts


class ObjectStands(Standing, frozen=True, kw_only=True):
    """An object as it was last observed; of PriorityClasses, Namespaces, ConfigMaps, budgets, HyperNodes, nodes, workloads and so on.

    An object that could not be used does not replace the one before: there are two records then, first the one before.
    """

    kind = "object_stands.v1"

    uid: str
    is_gone: bool = False
    """Whether it was deleted and still counts: the report of a device plugin that vanishes repairs nothing."""


class WorkloadGoneStands(Standing, frozen=True, kw_only=True):
    """A workload that was deleted and still owns pod groups: the schedulers that its pod templates name still say whose these are."""

    kind = "workload_gone_stands.v1"

    uid: str
    schedulers: Names


class NodeUnreadyStands(Standing, frozen=True, kw_only=True):
    """A node that is not ready."""

    kind = "node_unready_stands.v1"

    node: str
    since_ns: int | None = None
    """Since when; none before the next cycle gives the time."""
    is_uncounted: bool = False
    """Whether it counts in no share any more."""


class ConfigErrorsStand(Standing, frozen=True, kw_only=True):
    """The configuration errors of the subject, as codes and messages."""

    kind = "config_errors_stand.v1"

    current: Texts = ()
    reported: Texts = ()
    """Those that are in the log."""


class QueueStands(Standing, frozen=True, kw_only=True):
    """A queue, with its object if it has one."""

    kind = "queue_stands.v1"

    reported: Texts = ()
    """Codes and messages of its configuration errors that are in the log."""


class TotalsStand(Standing, frozen=True, kw_only=True):
    """What all nodes had to give at the last cycle."""

    kind = "totals_stand.v1"

    totals: Amounts
