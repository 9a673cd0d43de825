"""The unions of all events: what a fold must match, whole."""

from typing import TypeAlias

from events.cluster import (
    KindListed,
    NamespaceDeleted,
    NamespaceObserved,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodGroupDeleted,
    PodGroupObserved,
    PodObserved,
    PriorityClassDeleted,
    PriorityClassObserved,
    QueueDeleted,
    QueueObserved,
    WorkloadDeleted,
    WorkloadObserved,
)
from events.cycle import CycleOpened
from events.decision import (
    EnqueueDecided,
    GangBindDecided,
    PipelineDecided,
    PipelineWithdrawn,
    QueueFaulted,
    RefusalDecided,
)
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    PodBound,
    PodGroupUpdated,
    PodGroupUpdateFailed,
)
from events.process import DaemonStarted, PolicyChanged, PolicyWarned

Observation: TypeAlias = (
    NodeObserved
    | NodeDeleted
    | PodObserved
    | PodDeleted
    | PodGroupObserved
    | PodGroupDeleted
    | QueueObserved
    | QueueDeleted
    | PriorityClassObserved
    | PriorityClassDeleted
    | NamespaceObserved
    | NamespaceDeleted
    | WorkloadObserved
    | WorkloadDeleted
    | KindListed
    | DaemonStarted
    | PolicyChanged
)
"""What we were told."""

Decision: TypeAlias = (
    EnqueueDecided
    | GangBindDecided
    | PipelineDecided
    | PipelineWithdrawn
    | RefusalDecided
    | QueueFaulted
)
"""What we intend, durable before anything is done."""

Derived: TypeAlias = Decision | CycleOpened | PolicyWarned
"""What follows from the records before it: replay makes it again and compares."""

Outcome: TypeAlias = (
    PodBound | BindFailed | BindOutcomeUnknown | PodGroupUpdated | PodGroupUpdateFailed
)
"""What the API answered."""

Event: TypeAlias = Observation | Derived | Outcome
