"""The facts at one position of the log. `projections/state.py` applies records to them."""

from typing import TypeAlias

from projections.cluster import Cluster
from projections.commitments import Commitment
from projections.deferred_work import DeferredWork
from projections.device_assignments import DeviceAssignments
from projections.feature import FeatureTable
from projections.policy.policy import BUILT_IN
from projections.wakeup_events import WakeupEvents

Newest: TypeAlias = tuple[str, str, bool]
"""UID, revision, and whether the object was deleted."""


class StateFacts:
    """All facts that the scheduler may read: those of the cluster, and where the log stands."""

    def __init__(self, features: FeatureTable) -> None:
        self.cluster = Cluster(features)
        self.position = 0
        self.cycle = 0
        """Position of the last `cycle_opened`."""
        self.now_ns = 0
        """Time of the last cycle."""
        self.period_ns = 0
        self.policy_position = 0
        self.policy_document = BUILT_IN
        """The policy in force, as in the log."""
        self.listed: dict[str, None] = {}
        """Kinds listed since the daemon last started."""
        self.watched: dict[str, str] = {}
        """Kind to the last revision of it in the log: the watch resumes there."""
        self.newest: dict[str, dict[str, Newest]] = {}
        """Kind to the objects of it that changed last, by subject; the latest is last."""
        self.commitments: dict[str, Commitment] = {}
        """Bindings without an outcome, by UID."""
        self.evictions: dict[str, Commitment] = {}
        """Evictions without an outcome, by UID."""
        self.assignments = DeviceAssignments()
        """Devices of pods that a device plugin has not confirmed."""
        self.cycle_events = WakeupEvents()
        """Events that the open cycle has to look at."""
        self.carried_work = self.deferred_work = DeferredWork()
        """Work that earlier cycles left for the open cycle, and work that the open cycle leaves for the next."""
