"""Deltas: what a record changed of the facts. The cluster dispatches each to the indexes that are kept up by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, get_args

from msgspec import Struct

if TYPE_CHECKING:
    from projections.nodes import NodeFacts
    from projections.plugin import PluginSet
    from projections.pod_groups import PodGroup
    from projections.pods import NodeShare, Pod
    from projections.queues import Queue, QueueFacts


ONLY_RUNS: Final = 0
SAME_CHARGE: Final = 1
OTHER_CHARGE: Final = 2
"""How much of a pod group changes with its pods: only which of them run; but not what its queue is charged; also that."""


class PodChanged(Struct, frozen=True, gc=False):
    """A pod was added (`old` is None), changed or deleted (`new` is None). Its node, group and queue are up to date.

    Not dispatched if only what no reader of pods looks at has changed: another version with the same object, status
    and class then takes the place of the pod, so an index keeps UIDs and not pods.
    """

    handler: ClassVar[str] = "on_pods"
    """Name of the method of an index that handles it: it gets all of one settling at once."""

    position: int
    """Position of the record that changed the pod last."""
    old: Pod | None
    new: Pod | None
    left: NodeShare | None = None
    entered: NodeShare | None = None
    """What it used of its node before, and what it uses now; None for nothing."""
    is_same_charge: bool = False
    """Whether its queue is charged the same for it."""
    stays: bool = False
    """Whether it stays on its node and counts the same there, in its queue and in its group, but for its status."""
    extent: int = OTHER_CHARGE
    """How much of its pod group changes with it: ONLY_RUNS, SAME_CHARGE or OTHER_CHARGE. With ONLY_RUNS, of all sums only the
    counts of its pod group and the healthy pods of its budgets change."""


class PodWithClaimsChanged(Struct, frozen=True, gc=False):
    """The same as `PodChanged`, for pods whose volumes name claims."""

    handler: ClassVar[str] = "on_pod_with_claims"

    old: Pod | None
    new: Pod | None


class NodeChanged(Struct, frozen=True, gc=False):
    """The object of a node was added (`old` is None), changed or deleted (`new` is None). The pods on the node remain."""

    handler: ClassVar[str] = "on_node"

    old: NodeFacts | None
    new: NodeFacts | None


class PodGroupChanged(Struct, frozen=True, gc=False):
    """A pod group was added or changed: its object, pods, phase or queue; or (`is_gone`) neither its object nor pods are
    left."""

    handler: ClassVar[str] = "on_pod_groups"

    position: int
    """Position of the last record that changed it."""

    group: PodGroup
    is_gone: bool = False


class QueueChanged(Struct, frozen=True, gc=False):
    """A queue was added, the object of a queue was added, changed or deleted, or (`is_gone`) neither its object nor pod
    groups are left."""

    handler: ClassVar[str] = "on_queue"

    queue: Queue
    old: QueueFacts | None = None
    """Its object before; the queue has the present one."""
    is_same_spec: bool = False
    """Whether only the amounts that its status reports have changed."""
    is_gone: bool = False


class PolicyChanged(Struct, frozen=True, gc=False):
    """Another policy is in force. Nothing is charged by it yet."""

    handler: ClassVar[str] = "on_policy"

    old: PluginSet
    """The plugins of the policy before; the cluster has the present ones."""


class RestartChanged(Struct, frozen=True, gc=False):
    """The restart of a job after a fault began, changed which pods it waits for, or ended."""

    handler: ClassVar[str] = "on_restart"

    key: str
    """Key of its pod group."""


class RecordApplied(Struct, frozen=True, gc=False):
    """A record was applied, and all other deltas of it were dispatched."""

    handler: ClassVar[str] = "on_record"


Delta: TypeAlias = (
    PodChanged
    | PodWithClaimsChanged
    | NodeChanged
    | PodGroupChanged
    | QueueChanged
    | PolicyChanged
    | RestartChanged
    | RecordApplied
)

DELTAS: Final = get_args(Delta)
"""All types of deltas."""

RECORD_APPLIED: Final = RecordApplied()
