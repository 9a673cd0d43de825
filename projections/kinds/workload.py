"""Owners of pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and Volcano Job. Read are their annotations and
the schedulers that their pods name."""

from typing import Final

from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.foreign_pod_groups import schedulers_of
from projections.kinds.inherited_queue_name import with_valid_queue_name
from projections.objects import Metadata, PlainObject, read
from projections.observed_kind import ObservedKind, Reading
from projections.owners import put_owner
from projections.rescheduling import owner_gone

VOLCANO_JOBS: Final = Resource(
    "Job",
    "jobs",
    "batch.volcano.sh",
    "v1alpha1",
    short_names=("vcjob", "vj"),
    is_custom=True,
    is_name_shared=True,
)


def apply_workload(cluster: Cluster, reading: Reading) -> None:
    """Apply an owner of pods that was added or modified."""

    def bare(problem: str, metadata: Metadata) -> tuple[tuple[str, ...], dict[str, str]]:
        return (), {}

    def whole(content: bytes) -> tuple[tuple[str, ...], dict[str, str]]:
        plain = read(PlainObject, content)
        annotations = {} if isinstance(plain, str) else plain.metadata.annotations or {}
        return schedulers_of(content), annotations

    schedulers, annotations = reading.of(whole, bare)
    annotations, faults = with_valid_queue_name(annotations)
    cluster.config_errors.put(reading.subject, (*reading.faults, *faults))
    cluster.foreign_groups.put_workload(cluster, reading.uid, schedulers)
    put_owner(cluster, reading.uid, reading.subject.split("/")[1], annotations)


def drop_owner(cluster: Cluster, subject: str, uid: str) -> None:
    """Apply the deletion of an owner of pods."""
    put_owner(cluster, uid, subject.split("/")[1], None)
    cluster.foreign_groups.drop_workload(uid)
    owner_gone(cluster, uid)


def _workload(resource: Resource) -> ObservedKind:
    return ObservedKind(
        resource=resource, why="whose pods they are", apply=apply_workload, drop=drop_owner
    )


DEPLOYMENT: Final = _workload(
    Resource("Deployment", "deployments", "apps", short_names=("deploy",))
)
REPLICA_SET: Final = _workload(
    Resource(
        "ReplicaSet",
        "replicasets",
        "apps",
        short_names=("rs",),
        field_selectors=("status.replicas",),
    )
)
STATEFUL_SET: Final = _workload(
    Resource("StatefulSet", "statefulsets", "apps", short_names=("sts",))
)
DAEMON_SET: Final = _workload(Resource("DaemonSet", "daemonsets", "apps", short_names=("ds",)))
JOB: Final = _workload(
    Resource("Job", "jobs", "batch", is_name_shared=True, field_selectors=("status.successful",))
)
VOLCANO_JOB: Final = _workload(VOLCANO_JOBS)
WORKLOADS: Final = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, VOLCANO_JOB)
"""All of them."""

REPLACING: Final = tuple(one.resource.name for one in WORKLOADS if one is not DAEMON_SET)
"""Names of those whose lost pods a simulation replaces: a pod of a DaemonSet belongs to its node."""
