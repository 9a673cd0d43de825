"""The unions of all events: what a fold must match, whole."""

from typing import TypeAlias

from events.cluster import KindListed, ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned
from events.decision import (
    ActionFailed,
    ConfigInvalid,
    EnqueueDecided,
    EvictionDecided,
    GangBindDecided,
    PipelineDecided,
    PipelineWithdrawn,
    PodGroupUnschedulable,
    SearchDeferred,
    WorkDeferred,
)
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    StatusUpdated,
    StatusUpdateFailed,
)
from events.watch import (
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)

Observation: TypeAlias = (
    ObjectObserved
    | ObjectDeleted
    | ObjectUnreadable
    | KindListed
    | ServerDiscovered
    | WatchOpened
    | WatchClosed
    | WatchProgressed
    | KindCompared
    | BindRejectedByNode
    | ForeignPodPlaced
    | DaemonStarted
    | PolicyChanged
)
"""What was observed of the cluster, and what the daemon was started with."""

Decision: TypeAlias = (
    EnqueueDecided
    | GangBindDecided
    | PipelineDecided
    | PipelineWithdrawn
    | EvictionDecided
    | PodGroupUnschedulable
    | ConfigInvalid
    | ActionFailed
    | SearchDeferred
    | WorkDeferred
)
"""What the scheduler intends; durable before it is carried out."""

Derived: TypeAlias = Decision | CycleOpened | PolicyWarned
"""What follows from earlier records: replay derives it again and compares."""

Outcome: TypeAlias = (
    PodBound
    | BindFailed
    | BindOutcomeUnknown
    | PodGroupUpdated
    | PodGroupUpdateFailed
    | PodEvicted
    | EvictionFailed
    | EvictionOutcomeUnknown
    | StatusUpdated
    | StatusUpdateFailed
)
"""What the API server answered."""

Event: TypeAlias = Observation | Derived | Outcome
