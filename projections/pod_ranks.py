"""Ranks of pods in their group, for families that write them on pods (`DeviceFamily.needs_rank`).

A pod keeps the rank in its annotation. Pods of a StatefulSet have their ordinal, those of a Volcano Job their number, and
others the smallest rank that no other pod of the group has: one that replaces a failed pod gets the rank of that pod.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from events.limits import whole_number
from projections.device_uses import writing_families
from projections.pod_groups import PodGroup
from projections.pods import FAILED, RANK, Pod

if TYPE_CHECKING:
    from projections.cluster import Cluster


NONE: Final[Mapping[str, int]] = {}


def group_and_pod_options(group: PodGroup | None, pod: Pod) -> dict[str, str]:
    """Return the annotations and labels of a pod and of its PodGroup that say what devices the pod needs."""
    stated = (
        () if group is None or group.observed.facts is None else group.observed.facts.device_options
    )
    return {**dict(stated), **dict(pod.pod_class.device_options)}


def pod_ranks(
    cluster: "Cluster",
    decided: Mapping[str, int],
    uids: Iterable[str],
    before: Mapping[str, int] = NONE,
) -> dict[str, int]:
    """Return the ranks of pods of one group that are placed together, by UID; pods that need none are left out. `decided` are
    the ranks that other pods have, whether or not they are written on them; `before` are those of the pods that these
    replace after a fault."""
    placed = [cluster.pods[uid] for uid in uids]
    asking = [pod for pod in placed if pod.pod_class.asked_devices and _needs_rank(cluster, pod)]
    if not asking:
        return {}
    group = cluster.groups[asking[0].group_key]
    own = {pod.facts.uid: rank for pod in asking if (rank := stated_rank(pod)) >= 0}
    used: dict[int, None] = {}
    for uid, pod in group.pods.items():
        if uid not in own and pod.status != FAILED:
            used[decided.get(uid, stated_rank(pod))] = None
    used.update(dict.fromkeys(own.values()))
    ranks: dict[str, int] = {}
    smallest = 0
    for pod in asking:
        rank = own.get(pod.facts.uid, -1)
        if rank < 0 and _numbered(pod) and pod.facts.index not in used:
            rank = pod.facts.index
        if rank < 0 and before.get(pod.facts.uid, -1) not in (-1, *used):
            rank = before[pod.facts.uid]
        while rank < 0:
            rank = smallest if smallest not in used else -1
            smallest += 1
        used[rank] = None
        ranks[pod.facts.uid] = rank
    return ranks


def _needs_rank(cluster: "Cluster", pod: Pod) -> bool:
    group, owner = cluster.groups.get(pod.group_key), pod.facts.owner
    options = group_and_pod_options(group, pod)
    kind = "" if owner is None else owner.kind
    return any(
        one.needs_rank(pod.pod_class, kind, options)
        for one in writing_families(cluster.device_families, pod.pod_class)
    )


def stated_rank(pod: Pod) -> int:
    """Return the rank in the annotation of a pod; -1 without one."""
    rank = whole_number(dict(pod.facts.assignments).get(RANK))
    return -1 if rank is None or rank < 0 else rank


def _numbered(pod: Pod) -> bool:
    """Return whether the controller of a pod numbers its pods: a StatefulSet, or a Volcano Job, whose pods have a role."""
    owner = pod.facts.owner
    if owner is None:
        return False
    return owner.kind == "StatefulSet" or (owner.kind == "Job" and bool(pod.facts.role))
