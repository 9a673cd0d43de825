"""Licences: so many pods with the label `licence` of a value may be admitted as the ConfigMap `licences` says.

    data: {"matlab": "2"}

The policy names the plugin `licences`. A pod group needs a licence for each of its pods that has not ended. It is counted as
soon as the group is admitted, and free again when its pods are over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec
from msgspec import Struct, structs

from events.normalize_config_map import Selection
from events.requeue import CLUSTER_QUOTA
from projections.cluster import Cluster
from projections.deltas import PodGroupChanged
from projections.feature import Feature
from projections.index import Index
from projections.kinds.config_map import CONFIG_MAPS
from projections.observed_kind import ObservedKind, Reading
from projections.plugin import GroupState
from projections.pod_groups import WAITING, PodGroup
from projections.pods import FAILED, SUCCEEDED
from projections.policy.policy import Policy
from scheduling.quota.enqueue_check import ClusterQuota, Vote
from scheduling.quota.reclaimable import ReclaimableResources
from scheduling.shortage import Shortage

LABEL: Final = "licence"
SELECTION: Final = Selection("licences", "licensing", only="licences", keys=("matlab", "abaqus"))


class LicenceCounts(Struct, frozen=True):
    """How many licences there are, by name."""

    counts: dict[str, int] = {}


class _ConfigMap(Struct):
    data: dict[str, str] = {}


def read_counts(content: bytes) -> LicenceCounts | str:
    """Return the licences of a ConfigMap, or why it cannot be read."""
    try:
        data = msgspec.json.decode(content, type=_ConfigMap).data
        return LicenceCounts({name: int(text) for name, text in data.items()})
    except ValueError as error:
        return str(error)


def counts_of(cluster: Cluster) -> Mapping[str, int]:
    """Return how many licences there are."""
    for found in cluster.object_facts.get(SELECTION.kind, {}).values():
        assert isinstance(found, LicenceCounts)
        return found.counts
    return {}


def _wake(cluster: Cluster, _reading: Reading) -> None:
    index = cluster.indexes.find(LicencesInUse)
    for name in counts_of(cluster) if index is not None else ():
        cluster.mark_quota_released("", name)


KIND: Final = ObservedKind(
    resource=structs.replace(CONFIG_MAPS, selection=SELECTION),
    why="licences of the cluster",
    apply=_wake,
    facts=LicenceCounts,
    facts_of=read_counts,
)


class LicencesInUse(Index):
    """Licences of the pods of admitted groups."""

    name = "licences in use"
    COMPARED: ClassVar[tuple[str, ...]] = ("of_group", "total")

    def __init__(self) -> None:
        self.of_group: dict[str, dict[str, int]] = {}
        """Pod group to licence to number."""
        self.total: dict[str, int] = {}

    def rebuilt(self, cluster: Cluster, /) -> "LicencesInUse":
        """Count all groups again."""
        twin = LicencesInUse()
        for group in cluster.groups.values():
            twin._count(group.key, _held(group))
        return twin

    def on_pod_groups(self, cluster: Cluster, changes: Sequence[PodGroupChanged]) -> None:
        """Count groups again that changed; wake those that wait for licences which are free now."""
        for one in changes:
            cluster.position = one.position
            key = one.group.key
            before = self.of_group.get(key, {})
            now = {} if one.is_gone else _held(one.group)
            if now == before:
                continue
            self._count(key, now)
            for name, count in before.items():
                if now.get(name, 0) < count:
                    cluster.mark_quota_released("", name)

    def _count(self, key: str, now: dict[str, int]) -> None:
        for name, count in self.of_group.pop(key, {}).items():
            self.total[name] -= count
            if not self.total[name]:
                del self.total[name]
        for name, count in now.items():
            self.total[name] = self.total.get(name, 0) + count
        if now:
            self.of_group[key] = now


def _needed(group: PodGroup) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in group.pods.values():
        name = dict(pod.facts.labels).get(LABEL)
        if name and pod.status not in (SUCCEEDED, FAILED):
            found[name] = found.get(name, 0) + 1
    return found


def _held(group: PodGroup) -> dict[str, int]:
    return {} if group.decided.phase == WAITING else _needed(group)


class Licences(ClusterQuota, GroupState):
    """Admits pod groups for which there are licences."""

    name = "licences"
    version = "1"

    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Refuse a group for which there are too few licences."""
        for name, count in _needed(group).items():
            left = self.available(cluster, name)
            if count > left:
                most = counts_of(cluster).get(name, 0)
                text = f"{count} licences of {name} requested, {left} of {most} are free"
                events = (CLUSTER_QUOTA + name,)
                return Shortage("ResourceOverused", name, text, requeue_on=events)
        return "permit"

    def awaited(self, group: PodGroup, name: str) -> int:
        """Return how many licences a group needs."""
        return _needed(group).get(name, 0)

    def available(self, cluster: Cluster, name: str) -> int:
        """Return how many licences are free."""
        used = cluster.indexes.of(LicencesInUse).total.get(name, 0)
        return counts_of(cluster).get(name, 0) - used

    def equivalence_key(
        self, cluster: Cluster, group: PodGroup, *, enqueues: bool
    ) -> tuple[object, ...]:
        """Return what a group needs: it decides about admission."""
        needed: Iterable[tuple[str, int]] = _needed(group).items() if enqueues else ()
        return ("licences", *sorted(needed))


def is_named(policy: Policy) -> bool:
    """Return whether a policy names the plugin."""
    return any(one.name == Licences.name for one in policy.plugins)


LICENCES: Final = Feature(
    name="licences", is_named=is_named, plugins=(Licences,), hooks=(KIND,), indexes=(LicencesInUse,)
)
