"""Apply annotations of owners of pods to pod groups without an object: minimum, queue and waiting time.

Volcano's controller copies these annotations to the PodGroup that it creates for the pods of an owner.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from projections.cluster import Cluster
from projections.group_facts import WAITING_TIME
from projections.pod_annotations import MIN_MEMBER, QUEUE_NAME
from projections.pod_group_resolution import origin_of

INHERITED: Final = (MIN_MEMBER, QUEUE_NAME, WAITING_TIME)


def put_owner(
    cluster: Cluster, uid: str, namespace: str, annotations: Mapping[str, str] | None
) -> None:
    """Add, update or (None) remove the annotations of an owner, and update the group of its pods."""
    kept = {key: annotations[key] for key in INHERITED if key in annotations} if annotations else {}
    if cluster.owners.get(uid, {}) == kept:
        return
    if kept:
        cluster.owners[uid] = kept
    else:
        del cluster.owners[uid]
    group = cluster.pod_groups.find(cluster, f"{namespace}/podgroup-{uid}")
    if group is None or group.observed.facts is not None:
        return
    first = next(iter(group.pods.values()), None)
    if annotations is not None and first is not None:
        origin = origin_of(first.facts, kept, cluster.namespaces)
        group.observed = structs.replace(group.observed, min_available=origin.min_available)
    cluster.pod_groups.mark(group.key, cluster.position)
