"""How large the synthetic inputs are, and how often each measurement is repeated."""

from typing import Final

from msgspec import Struct


class Scale(Struct, frozen=True, kw_only=True):
    """The sizes of one run. The targets hold for `full`; the smaller ones are for a quick look."""

    nodes: tuple[int, ...]
    """Clusters of these sizes; what is measured at one size is measured at the last."""
    pods: int
    """Single pods that wait for one cycle."""
    gangs: int
    """Gangs of `GANG_PODS` pods that wait for one cycle."""
    large_gang: int
    """Pods of the one large gang."""
    watched_pods: int
    """Pods whose lives are appended as watch events."""
    waiting: int
    """Pods that wait for a full cluster."""
    waiting_beside: int
    """Pods that wait while the loop takes in events of others."""
    loop_seconds: float
    """CPU time for which the loop takes in events, for each size of batches."""
    running: int
    """Pods that run when memory is measured."""
    started_nodes: int
    started_pods: int
    """The cluster of which a daemon starts from a snapshot."""
    openb_percent: int
    spot_percent: int
    """Of the spot-gpu workload."""
    spot_days: int
    sharing_percent: int
    """Of the nodes and pods of the openb trace that share GPUs."""
    repeats: int


SCALES: Final = {
    "full": Scale(
        nodes=(1_000, 5_000, 10_000),
        pods=5_000,
        gangs=250,
        large_gang=4_096,
        watched_pods=5_000,
        waiting=10_000,
        waiting_beside=8_000,
        loop_seconds=30,
        running=150_000,
        started_nodes=5_000,
        started_pods=140_000,
        openb_percent=100,
        spot_percent=100,
        spot_days=7,
        sharing_percent=100,
        repeats=3,
    ),
    "small": Scale(
        nodes=(250, 500, 1_000),
        pods=1_000,
        gangs=20,
        large_gang=256,
        watched_pods=1_000,
        waiting=1_000,
        waiting_beside=1_000,
        loop_seconds=2,
        running=5_000,
        started_nodes=500,
        started_pods=5_000,
        openb_percent=20,
        spot_percent=5,
        spot_days=7,
        sharing_percent=10,
        repeats=1,
    ),
}
