"""All kinds of records that say what stands."""

from typing import Final, TypeVar

import msgspec

from events.errors import UnreadableRecordError
from events.standing.faults import (
    FaultMarkStands,
    FaultReportStands,
    JobFaultsStand,
    JobRestartsStand,
    NodeSettlingStands,
    RestartStands,
)
from events.standing.log import CycleStands, DaemonStands, PolicyStands, WatchStands
from events.standing.objects import (
    ConfigErrorsStand,
    NodeUnreadyStands,
    ObjectStands,
    QueueStands,
    TotalsStand,
    WorkloadGoneStands,
)
from events.standing.plugins import DeservedStands, WaitingOverStands
from events.standing.pods import (
    ActionFailedStands,
    BackoffStands,
    BindFailuresStand,
    BindingStands,
    BudgetRefusalStands,
    DeviceAssignmentsStand,
    EvictionStands,
    PodGroupStands,
    PodStands,
    PodsWaitStands,
    QuarantineStands,
    VictimWaitStands,
)
from events.standing.pools import PoolPodStands, PoolStands, ReleaseStands, ReturningStand
from events.standing.standing import Standing
from events.standing.work import (
    LookedAtStands,
    SearchStands,
    SelectionOutdatedStands,
    WakeupsStand,
)

STANDING: Final[tuple[type[Standing], ...]] = (
    DaemonStands,
    PolicyStands,
    CycleStands,
    WatchStands,
    ObjectStands,
    WorkloadGoneStands,
    NodeUnreadyStands,
    QueueStands,
    TotalsStand,
    DeservedStands,
    WaitingOverStands,
    PodGroupStands,
    PodStands,
    ConfigErrorsStand,
    BindingStands,
    EvictionStands,
    BackoffStands,
    BindFailuresStand,
    PodsWaitStands,
    VictimWaitStands,
    ActionFailedStands,
    BudgetRefusalStands,
    DeviceAssignmentsStand,
    QuarantineStands,
    RestartStands,
    JobFaultsStand,
    NodeSettlingStands,
    FaultMarkStands,
    FaultReportStands,
    JobRestartsStand,
    ReleaseStands,
    ReturningStand,
    PoolPodStands,
    PoolStands,
    WakeupsStand,
    LookedAtStands,
    SearchStands,
    SelectionOutdatedStands,
)
"""Every kind, in no particular order."""

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")

StandingT = TypeVar("StandingT", bound=Standing)


def is_standing(kind: str) -> bool:
    """Return whether records of a kind say what stands."""
    return kind.partition(".")[0].endswith(("_stands", "_stand"))


def encode_standing(event: Standing) -> bytes:
    """Return the canonical JSON of a record of a base."""
    return _ENCODER.encode(event)


def decode_standing(kind: type[StandingT], body: bytes) -> StandingT:
    """Return what a record of a base says. Raises UnreadableRecordError."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableRecordError(f"{kind.kind} cannot be read: {error}") from error
