"""All kinds of events: what a fold must match, whole."""

from typing import Final, TypeAlias, get_args

from events.cluster import KindListed, ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned, RecordsLost
from events.decision import Decision
from events.decisions.action_failed import ActionFailed
from events.decisions.backfill_bind import BackfillBindDecided
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.enqueue import EnqueueDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.faults_marked import FaultsMarked
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.release import ReleaseDecided
from events.decisions.reschedule import RescheduleDecided, RestartEnded
from events.decisions.search_deferred import SearchDeferred
from events.decisions.work_deferred import WorkDeferred
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    ShadowDecisionEnded,
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
    | RecordsLost
)
"""What was observed of the cluster, and what the daemon was started with."""

DECISIONS: Final[tuple[type[Decision], ...]] = (
    EnqueueDecided,
    GangBindDecided,
    BackfillBindDecided,
    PipelineDecided,
    PipelineWithdrawn,
    FaultsMarked,
    EvictionDecided,
    ReleaseDecided,
    RescheduleDecided,
    RestartEnded,
    PodGroupUnschedulable,
    ConfigInvalid,
    ActionFailed,
    SearchDeferred,
    WorkDeferred,
)
"""What the scheduler intends; durable before it is carried out."""

Derived: TypeAlias = Decision | CycleOpened | PolicyWarned
"""What follows from earlier records: replay derives it again and compares."""

Outcome: TypeAlias = (
    PodBound
    | BindFailed
    | BindOutcomeUnknown
    | PodAnnotated
    | PodAnnotationFailed
    | PodAnnotationUnknown
    | PodGroupUpdated
    | PodGroupUpdateFailed
    | PodEvicted
    | EvictionFailed
    | EvictionOutcomeUnknown
    | ShadowDecisionEnded
    | StatusUpdated
    | StatusUpdateFailed
)
"""What the API server answered."""

Event: TypeAlias = Observation | Derived | Outcome

EVENTS: Final[tuple[type[Event], ...]] = (
    *get_args(Observation),
    *DECISIONS,
    CycleOpened,
    PolicyWarned,
    *get_args(Outcome),
)
"""Every kind of event."""
