"""Find pod groups of other schedulers. muster reads their objects and does not schedule them.

A PodGroup does not name a scheduler. It belongs to muster as soon as one of its pods does. Before that, the pod
templates of the Job or other workload that owns it decide, also after that workload was deleted (its groups are
deleted later). Without a template that names a scheduler, pods of other schedulers that name the group make it
foreign. Otherwise it belongs to muster.

A foreign group is not queued, reserves nothing, and its status is not updated. The allocated amounts of its queue
are not reported either, because the other scheduler reports them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec import Struct, structs

from events.limits import decode_deep
from projections.deltas import PodChanged
from projections.index import Index
from projections.pod_groups import WAITING, PodGroup
from projections.pods import Pod

if TYPE_CHECKING:
    from projections.cluster import Cluster

UNNAMED: Final = ("", "default-scheduler")
"""Scheduler names that do not decide: none, or the default that the API server fills in."""


class _PodSpec(Struct):
    schedulerName: str | None = None  # noqa: N815


class _Template(Struct):
    spec: _PodSpec | None = None


class _Task(Struct):
    template: _Template | None = None


class _Spec(Struct):
    schedulerName: str | None = None  # noqa: N815
    template: _Template | None = None
    tasks: list[_Task] | None = None


class _Workload(Struct):
    spec: _Spec | None = None


_WORKLOAD: Final = msgspec.json.Decoder(_Workload)


def schedulers_of(content: bytes) -> tuple[str, ...]:
    """Return the schedulers named in the pod templates of a workload, without duplicates, sorted."""
    try:
        spec = decode_deep(content, _WORKLOAD.decode).spec or _Spec()
    except msgspec.ValidationError:
        return ()
    own = spec.schedulerName or ""
    holders = spec.tasks or [_Task(spec.template)]
    found = {(_named(one.template) or own) for one in holders}
    return tuple(sorted(found.difference(UNNAMED)))


def _named(template: _Template | None) -> str:
    spec = None if template is None else template.spec
    return "" if spec is None else spec.schedulerName or ""


class ForeignPodGroups(Index):
    """Facts that decide which pod groups belong to other schedulers, and these groups. Only State changes them."""

    name = "foreign pod groups"
    COMPARED: ClassVar[tuple[str, ...]] = (
        "deleted_owners",
        "owned",
        "owner_of",
        "pod_counts",
        "groups",
        "queues",
    )
    follows_status = False

    def __init__(self) -> None:
        self.schedulers: dict[str, tuple[str, ...]] = {}
        """UID of a workload to the schedulers that its templates name."""
        self.deleted_owners: dict[str, None] = {}
        """UIDs of deleted workloads that name schedulers and still own pod groups."""
        self.owned: dict[str, dict[str, None]] = {}
        """UID of a workload to the keys of its pod groups."""
        self.owner_of: dict[str, str] = {}
        """Pod group key to the UID of its workload."""
        self.pod_counts: dict[str, int] = {}
        """Pod group key to the number of pods of other schedulers that name it."""
        self.groups: dict[str, str] = {}
        """Key of a foreign pod group to its queue."""
        self.queues: dict[str, int] = {}
        """Queue to the number of foreign pod groups in it."""

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Count pods of other schedulers; update the groups that may change their owner."""
        for one in changes:
            cluster.position = one.position
            for pod, sign in ((one.new, 1), (one.old, -1)):
                if pod is None or pod.group_key or not pod.facts.needs_group_object:
                    continue
                if (key := self.count(pod, sign)) in cluster.groups:
                    cluster.pod_groups.mark(key, one.position)

    def count(self, pod: Pod, sign: int) -> str:
        """Add or remove a pod of another scheduler; return the key of the group that may change its owner, else ""."""
        facts = pod.facts
        if pod.group_key or not facts.needs_group_object:
            return ""
        key = f"{facts.namespace}/{facts.group_name}"
        left = self.pod_counts.get(key, 0) + sign
        if left:
            self.pod_counts[key] = left
        else:
            del self.pod_counts[key]
        return key if left == (sign > 0) else ""

    def is_foreign(self, group: PodGroup, ours: tuple[str, ...]) -> bool:
        """Return whether templates or pods say that a group belongs to another scheduler."""
        if group.observed.facts is None or group.pods:
            return False
        named = self.schedulers.get(group.observed.facts.owner, ())
        return not any(one in ours for one in named) if named else group.key in self.pod_counts

    def rebuilt(self, cluster: "Cluster", /) -> "ForeignPodGroups":
        """Count foreign pods and groups again."""
        twin = ForeignPodGroups()
        twin.schedulers = self.schedulers
        for pod in cluster.pods.values():
            twin.count(pod, 1)
        for group in cluster.groups.values():
            twin.set_owner(
                group.key, "" if group.observed.facts is None else group.observed.facts.owner
            )
            is_foreign = twin.is_foreign(group, cluster.scheduler_names)
            twin.set_queue(group.key, group.queue if is_foreign else "")
        kept = [one for one in self.deleted_owners if one in twin.owned and one in twin.schedulers]
        twin.deleted_owners = dict.fromkeys(kept)
        return twin

    def rebuild(self, cluster: "Cluster") -> None:
        """Find foreign pod groups again; each of them knows that it is one."""
        super().rebuild(cluster)
        for key in self.groups:
            cluster.groups[key].is_foreign = True

    def set_owner(self, key: str, owner: str) -> None:
        """Set the workload that owns a group; "" if its object is gone."""
        before = self.owner_of.pop(key, "")
        if before:
            del self.owned[before][key]
            if not self.owned[before]:
                del self.owned[before]
                if before in self.deleted_owners:
                    del self.deleted_owners[before], self.schedulers[before]
        if owner:
            self.owner_of[key] = owner
            self.owned.setdefault(owner, {})[key] = None

    def set_queue(self, key: str, queue: str) -> str:
        """Record a foreign group in its queue; "" if it is not foreign or gone. Return its former queue."""
        before = self.groups.pop(key, "")
        if before:
            self.queues[before] -= 1
            if not self.queues[before]:
                del self.queues[before]
        if queue:
            self.groups[key] = queue
            self.queues[queue] = self.queues.get(queue, 0) + 1
        return before

    def update(self, cluster: "Cluster", group: PodGroup) -> bool:
        """Determine whether a group that has or had an object belongs to another scheduler. Return whether that changed."""
        owner = "" if group.observed.facts is None else group.observed.facts.owner
        if self.owner_of.get(group.key, "") != owner:
            self.set_owner(group.key, owner)
        was, group.is_foreign = (
            group.is_foreign,
            self.is_foreign(group, cluster.scheduler_names),
        )
        if was and not group.is_foreign and not cluster.trusts_stated_phase:
            # It was the other scheduler's phase, or what the owner of the object wrote.
            phase = group.decided.listed_phase or WAITING
            group.decided = structs.replace(group.decided, phase=phase)
        queue = group.queue if group.is_foreign else ""
        if self.groups.get(group.key, "") != queue:
            for name in filter(None, (self.set_queue(group.key, queue), queue)):
                cluster.changed_queues[name] = None
        return was != group.is_foreign

    def put_workload(self, cluster: "Cluster", uid: str, schedulers: tuple[str, ...]) -> None:
        """Add or update a workload."""
        if self.schedulers.get(uid, ()) == schedulers:
            return
        if schedulers:
            self.schedulers[uid] = schedulers
        else:
            del self.schedulers[uid]
        cluster.pod_groups.mark_all(self.owned.get(uid, ()), cluster.position)

    def drop_workload(self, uid: str) -> None:
        """Remove a workload."""
        if uid not in self.schedulers:
            return
        if uid in self.owned:
            self.deleted_owners[uid] = None
        else:
            del self.schedulers[uid]
