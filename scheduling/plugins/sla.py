"""`sla`: a pod group that has waited longer than its waiting time is admitted, and may hold a part of its room.

    deadline = creation + waiting time of the group or of the owner of its pods, else of the policy

A deadline makes a cycle due. After it the group is overdue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from projections.cluster import Cluster
from projections.group_facts import WAITING_TIME, waiting_time
from projections.plugin import GroupState, JobOrder
from projections.pod_groups import WAITING, PodGroup
from projections.policy.plugin_config import PluginConfig, warn_unknown
from projections.policy.policy_values import JsonObject, Warn, span_at
from scheduling.quota.enqueue_check import JobEnqueueable, JobPipelined, Vote

if TYPE_CHECKING:
    from scheduling.quota.reclaimable import ReclaimableResources

_WAITING: str = "sla-waiting-time"


class SlaArguments(Struct, frozen=True):
    """Arguments of `sla`."""

    waiting_ns: int | None = None
    """Waiting time of groups that do not state one (`sla-waiting-time`); None without a limit."""


class Deadlines(Struct):
    """The ends of waiting times."""

    waiting: dict[str, int] = {}
    """Pod group key to the end of its waiting time."""
    overdue: dict[str, int] = {}
    """The same of groups whose waiting time is over."""


class Sla(JobOrder, JobEnqueueable, JobPipelined, GroupState):
    """Orders by deadline: the earliest is first."""

    name = "sla"
    Arguments = SlaArguments
    tables = (Deadlines,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, SlaArguments)
        self._waiting_ns = config.arguments.waiting_ns

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct:
        """Return the waiting time of the policy."""
        for key in given:
            if key != _WAITING:
                warn_unknown(cls.name, key, path, warn)
        if _WAITING not in given:
            return SlaArguments()
        return SlaArguments(waiting_ns=span_at(given[_WAITING], f"{path}.{_WAITING}"))

    def job_order(self, cluster: Cluster, group: PodGroup) -> object:
        """Return the deadline; groups without one come last."""
        deadline = self._deadline(cluster, group)
        return (1, 0) if deadline is None else (0, deadline)

    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Permit groups that are overdue."""
        return "permit" if _is_overdue(cluster, group) else "abstain"

    def may_hold_part(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return whether the group is overdue."""
        return _is_overdue(cluster, group)

    def equivalence_key(
        self, cluster: Cluster, group: PodGroup, *, enqueues: bool
    ) -> tuple[object, ...]:
        """Return a key that sets overdue groups apart."""
        return ("overdue",) if _is_overdue(cluster, group) else ()

    def group_changed(self, cluster: Cluster, group: PodGroup) -> None:
        """Update the deadline of a group that waits for something."""
        table = cluster.tables.of(Deadlines)
        deadline = self._deadline(cluster, group)
        if table.overdue.get(group.key, deadline) != deadline:
            del table.overdue[group.key]
        waits = (group.decided.phase == WAITING or bool(group.pending)) and not group.is_foreign
        if deadline is not None and waits and group.key not in table.overdue:
            table.waiting[group.key] = deadline
        else:
            table.waiting.pop(group.key, None)

    def group_deleted(self, cluster: Cluster, key: str) -> None:
        """Remove the deadline of a deleted group."""
        table = cluster.tables.of(Deadlines)
        table.waiting.pop(key, None)
        table.overdue.pop(key, None)

    def expire(self, cluster: Cluster, at_ns: int) -> None:
        """Make groups overdue whose waiting time is over."""
        table = cluster.tables.of(Deadlines)
        over = [(deadline, key) for key, deadline in table.waiting.items() if deadline <= at_ns]
        for deadline, key in sorted(over):
            # Sorted, so that the order does not depend on when groups began to wait.
            del table.waiting[key]
            table.overdue[key] = deadline
            cluster.pod_groups.mark(key, cluster.position)

    def deadlines(self, cluster: Cluster) -> Iterable[int]:
        """Return the ends of all waiting times."""
        return cluster.tables.of(Deadlines).waiting.values()

    def _deadline(self, cluster: Cluster, group: PodGroup) -> int | None:
        """Return the end of the waiting time of a group; None if it has none."""
        stated = (
            _of_owner(cluster, group)
            if group.observed.facts is None
            else group.observed.facts.waiting_ns
        )
        waiting = self._waiting_ns if stated is None else stated
        return None if waiting is None else group.observed.created_ns + waiting


def _of_owner(cluster: Cluster, group: PodGroup) -> int | None:
    """Return the waiting time in the annotation of the owner, for a group without an object."""
    annotations = cluster.owners.get(group.key.partition("/podgroup-")[2])
    return None if annotations is None else waiting_time(annotations.get(WAITING_TIME))[0]


def _is_overdue(cluster: Cluster, group: PodGroup) -> bool:
    return group.key in cluster.tables.of(Deadlines).overdue
