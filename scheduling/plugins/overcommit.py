"""`overcommit`: groups are admitted as long as their minimums fit the cluster times a factor (Volcano's `overcommit`).

    backlog + asked + used  <=  total x factor

What a group asks for, and the backlog of an admitted group, is what its pods do not use of its minimum yet. A group
of which the pods can never fit has no backlog.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from events.requeue import CLUSTER_QUOTA
from projections import quota_charging
from projections.blocked import is_blocked
from projections.cluster import Cluster
from projections.deltas import PodGroupChanged, RecordApplied
from projections.index import Index
from projections.plugin import GroupState
from projections.pod_class import Amounts
from projections.pod_groups import INQUEUE, RUNS, PodGroup
from projections.pods import Charge
from projections.policy.plugin_config import PluginConfig, warn_unknown
from projections.policy.policy_values import JsonObject, Warn, fraction_at
from projections.queues import add
from projections.rescheduling import keeps_admission
from scheduling.quota.enqueue_check import ClusterQuota, Vote
from scheduling.shortage import Shortage, amount_text

if TYPE_CHECKING:
    from scheduling.quota.reclaimable import ReclaimableResources

_FACTOR = "overcommit-factor"


class OvercommitArguments(Struct, frozen=True):
    """Arguments of `overcommit`."""

    factor: Fraction = Fraction(6, 5)
    """Factor of allocatable resources that can be reserved for admitted groups (`overcommit-factor`)."""
    factors: tuple[tuple[str, Fraction], ...] = ()
    """The same for single resources (`overcommit-factor.NAME`)."""

    def of(self, name: str) -> Fraction:
        """Return the factor of a resource."""
        for one, factor in self.factors:
            if one == name:
                return factor
        return self.factor


class Overcommit(ClusterQuota, GroupState):
    """Limits what is reserved for admitted groups in the whole cluster."""

    name = "overcommit"
    Arguments = OvercommitArguments

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, OvercommitArguments)
        self._factors = config.arguments

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct:
        """Return the factors; one below 1 counts as the default."""
        single = [name for name in given if name.startswith(f"{_FACTOR}.")]
        for key in given:
            if key not in (_FACTOR, *single):
                warn_unknown(cls.name, key, path, warn)
        found: dict[str, Fraction] = {}
        for name in (_FACTOR, *single):
            factor = fraction_at(given.get(name, "1.2"), f"{path}.{name}")
            if factor < 1:
                warn(f"{path}.{name}", "a factor below 1 counts as 1.2")
                factor = OvercommitArguments().factor
            found[name] = factor
        factors = tuple((name.removeprefix(f"{_FACTOR}."), found[name]) for name in single)
        return OvercommitArguments(factor=found[_FACTOR], factors=factors)

    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Vote by the room of the whole cluster: its allocatable resources times a factor."""
        asked = _missing(group) or {}
        backlogs = cluster.indexes.of(Backlogs).of_group
        yielded: Amounts = {}
        for one in reclaimable.yielding:
            add(yielded, backlogs.get(one.key, ()), 1)
        over = self._beyond_factor(cluster, asked, yielded)
        if over and cluster.policy.evicting:
            spare = dict(reclaimable.of_cluster(group, asked))
            add(spare, tuple(yielded.items()), 1)
            over = self._beyond_factor(cluster, asked, spare) if spare else over
        if not over:
            return "permit"
        numbers = [_numbers(name, asked[name], *amounts) for name, amounts in over.items()]
        names = ", ".join(f"overused {name}" for name in sorted(over))
        message = f"resource in cluster is overused: {names}: {'; '.join(numbers)}"
        first = next(iter(over))
        return Shortage("ResourceOverused", first, message, requeue_on=(CLUSTER_QUOTA + first,))

    def awaited(self, group: PodGroup, name: str) -> int:
        """Return what a group asks for."""
        return (_missing(group) or {}).get(name, 0)

    def available(self, cluster: Cluster, name: str) -> int:
        """Return what is left of the allocatable resource times its factor."""
        demand = cluster.indexes.of(Backlogs).demand.get(name, 0)
        return -demand // self._factors.of(name).denominator

    def _beyond_factor(
        self, cluster: Cluster, asked: Amounts, spare: Amounts
    ) -> dict[str, tuple[int, int]]:
        """Return the resources whose reservations would exceed the limit: the amount, and the limit."""
        used, backlog = cluster.resources.used, cluster.indexes.of(Backlogs).total
        over: dict[str, tuple[int, int]] = {}
        for name, amount in asked.items():
            total = used.get(name, 0) - spare.get(name, 0) + backlog.get(name, 0) + amount
            factor = self._factors.of(name)
            most = (
                cluster.resources.allocatable.get(name, 0) * factor.numerator // factor.denominator
            )
            if total > most:
                over[name] = (total, most)
        return over

    def equivalence_key(
        self, cluster: Cluster, group: PodGroup, *, enqueues: bool
    ) -> tuple[object, ...]:
        """Return what the group asks for: it decides about admission."""
        if not enqueues:
            return ()
        asked = _missing(group)
        return ("any",) if asked is None else ("least", tuple(sorted(asked.items())))

    def indexes(self) -> Iterable[Index]:
        """Return the index of what admitted groups still need."""
        return (Backlogs(self._factors),)


class Backlogs(Index):
    """What admitted groups still need for their minimum, and the demand for the resources of the cluster.

        demand = used + backlog - total x factor

    Groups wait for a resource until a record decreases its demand.
    """

    name = "backlogs"
    COMPARED: ClassVar[tuple[str, ...]] = ("of_group", "total", "demand")
    can_be_left_out = True

    def __init__(self, factors: OvercommitArguments) -> None:
        self._factors = factors
        self._ratios: dict[str, tuple[int, int]] = {}
        """Resource to the numerator and the denominator of its factor."""
        self.of_group: dict[str, Charge] = {}
        """Pod group key to its backlog."""
        self.total: Amounts = {}
        """Sum of all backlogs."""
        self.demand: Amounts = {}
        """Resource to its demand after the last record, times the denominator of the factor."""
        self._known: tuple[Amounts, Amounts, Amounts] = ({}, {}, {})
        """What `demand` was computed from: used resources, backlog, allocatable resources."""

    def rebuilt(self, cluster: Cluster, /) -> Backlogs:
        """Compute the backlogs of all groups again."""
        twin = Backlogs(self._factors)
        for group in cluster.groups.values():
            twin._set(group.key, _backlog(cluster, group))
        twin._update_demand(cluster)
        return twin

    def on_pod_groups(self, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        """Update the backlogs of groups."""
        for one in changes:
            cluster.position = one.position
            self._set(one.group.key, () if one.is_gone else _backlog(cluster, one.group))

    def on_record(self, cluster: Cluster, delta: RecordApplied) -> None:
        """Wake groups for resources whose demand decreased."""
        before = self.demand
        if self._update_demand(cluster):
            for name in sorted({**before, **self.demand}):
                if self.demand.get(name, 0) < before.get(name, 0):
                    cluster.mark_quota_released("", name)

    def _set(self, key: str, backlog: Charge) -> None:
        before = self.of_group.get(key, ())
        if before == backlog:
            return
        add(self.total, before, -1)
        add(self.total, backlog, 1)
        if backlog:
            self.of_group[key] = backlog
        else:
            del self.of_group[key]

    def _update_demand(self, cluster: Cluster) -> bool:
        """Compute the demand again if anything that it depends on changed; return whether it did."""
        used, totals = cluster.resources.used, cluster.resources.allocatable
        if self._known == (used, self.total, totals):
            return False
        self._known = (used.copy(), self.total.copy(), totals.copy())
        self.demand = {}
        ratios, backlog = self._ratios, self.total
        for name in {**used, **backlog, **totals}:
            ratio = ratios.get(name)
            if ratio is None:
                ratio = ratios[name] = self._factors.of(name).as_integer_ratio()
            needed = used.get(name, 0) + backlog.get(name, 0)
            if demand := needed * ratio[1] - totals.get(name, 0) * ratio[0]:
                self.demand[name] = demand
        return True


def _backlog(cluster: Cluster, group: PodGroup) -> Charge:
    """Return what an admitted group still needs for its minimum."""
    if group.is_foreign or is_blocked(cluster, group):
        return ()
    if keeps_admission(cluster, group.key):
        return tuple((_missing(group) or {}).items())
    if group.decided.phase not in (INQUEUE, RUNS):
        return ()
    if group.decided.phase == INQUEUE and group.never_fits:
        return ()
    if group.decided.phase == RUNS and group.counts.allocated < group.observed.min_available:
        return ()
    return tuple((_missing(group) or {}).items())


def _missing(group: PodGroup) -> Amounts | None:
    """Return what the pods of a group do not use of its minimum; None if it is not stated and not checked."""
    least = _min_resources(group)
    if not least or not group.held:
        return least
    held = group.held
    return {name: one - held.get(name, 0) for name, one in least.items() if one > held.get(name, 0)}


def _min_resources(group: PodGroup) -> Amounts | None:
    """Return the minimum request of a group, by resource; None if it is not stated and not checked."""
    if group.observed.facts is not None:
        stated = group.observed.facts.min_resources
        if stated is None:
            return None
        return {name: one for name, one in stated.items() if one > 0 and name != "pods"}
    total: Amounts = {}
    for pod_class, count in quota_charging.min_member_classes(group):
        for name, amount in pod_class.request:
            if name != "pods":
                total[name] = total.get(name, 0) + amount * count
    return total


def _numbers(name: str, amount: int, total: int, most: int) -> str:
    requested, would_be, limit = (amount_text(name, one) for one in (amount, total, most))
    return f"{name} requested <{requested}>, total would be <{would_be}>, but at most <{limit}>"
