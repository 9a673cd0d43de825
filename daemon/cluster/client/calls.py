"""Every call muster makes of an API server, as one table. RBAC is made from it (rule K15.3).

A request can only be made with a `Call` of this table, so a verb that is not here cannot be used; the
tests see to it that each one here is.
"""

from typing import Final

from msgspec import Struct


class Resource(Struct, frozen=True):
    """A resource of the API, such as `nodes`. `kind` is what its objects are."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1`, `policy/v1`"""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The kind, with its group where two kinds share a name, as records call it."""
        return f"{self.kind}.{self.group}" if self == VOLCANO_JOB else self.kind

    @property
    def qualified(self) -> str:
        """The plural, with its group where two resources share it: `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.plural == "jobs" else self.plural

    @property
    def path(self) -> str:
        """Where the collection of all namespaces is."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.plural}"

    def object_path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """Where one object is. Names are DNS names and need no escape."""
        root = self.path.removesuffix(self.plural)
        within = f"namespaces/{namespace}/" if self.is_namespaced else ""
        below = f"/{subresource}" if subresource else ""
        return f"{root}{within}{self.plural}/{name}{below}"

    def collection_path(self, namespace: str) -> str:
        """Where the collection of one namespace is."""
        root = self.path.removesuffix(self.plural)
        return f"{root}namespaces/{namespace}/{self.plural}"


VOLCANO_JOB: Final = Resource("Job", "jobs", "batch.volcano.sh", "v1alpha1")
NODES: Final = Resource("Node", "nodes", is_namespaced=False)
PODS: Final = Resource("Pod", "pods")
PRIORITY_CLASSES: Final = Resource(
    "PriorityClass", "priorityclasses", "scheduling.k8s.io", is_namespaced=False
)
NAMESPACES: Final = Resource("Namespace", "namespaces", is_namespaced=False)
QUEUES: Final = Resource("Queue", "queues", "scheduling.volcano.sh", "v1beta1", is_namespaced=False)
HYPER_NODES: Final = Resource(
    "HyperNode", "hypernodes", "topology.volcano.sh", "v1alpha1", is_namespaced=False
)
CONFIG_MAPS: Final = Resource("ConfigMap", "configmaps")
BUDGETS: Final = Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy")
POD_GROUPS: Final = Resource("PodGroup", "podgroups", "scheduling.volcano.sh", "v1beta1")
DEPLOYMENTS: Final = Resource("Deployment", "deployments", "apps")
REPLICA_SETS: Final = Resource("ReplicaSet", "replicasets", "apps")
STATEFUL_SETS: Final = Resource("StatefulSet", "statefulsets", "apps")
DAEMON_SETS: Final = Resource("DaemonSet", "daemonsets", "apps")
JOBS: Final = Resource("Job", "jobs", "batch")
EVENTS: Final = Resource("Event", "events", "events.k8s.io")
LEASES: Final = Resource("Lease", "leases", "coordination.k8s.io")
ACCESS_REVIEWS: Final = Resource(
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    "authorization.k8s.io",
    is_namespaced=False,
)

WATCHED: Final = (
    *(NODES, PRIORITY_CLASSES, NAMESPACES, QUEUES, HYPER_NODES, BUDGETS, POD_GROUPS),
    *(DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, VOLCANO_JOB, PODS),
)
"""What is listed and watched whole, in the order in which lists are taken in (K4)."""

REQUIRED: Final = (NODES, PRIORITY_CLASSES, PODS)
"""Kinds that every API server serves; the others of `projections.state.REQUIRED` come from CRDs."""


class Call(Struct, frozen=True):
    """One kind of request: an RBAC verb on a resource or a part of it."""

    verb: str
    resource: Resource
    subresource: str = ""
    scope: str = "cluster"
    """`cluster`; or `own`: only in the namespace that muster itself is in."""

    @property
    def what(self) -> str:
        """A few words for errors and metrics: `create pods/binding`."""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource.qualified}{below}"


LIST: Final = {one.name: Call("list", one) for one in WATCHED}
WATCH: Final = {one.name: Call("watch", one) for one in WATCHED}
GET_POD: Final = Call("get", PODS)
BIND_POD: Final = Call("create", PODS, "binding")
EVICT_POD: Final = Call("create", PODS, "eviction")
PATCH_POD_STATUS: Final = Call("patch", PODS, "status")
GET_POD_GROUP: Final = Call("get", POD_GROUPS)
PATCH_POD_GROUP: Final = Call("patch", POD_GROUPS)
PATCH_POD_GROUP_STATUS: Final = Call("patch", POD_GROUPS, "status")
GET_QUEUE: Final = Call("get", QUEUES)
PATCH_QUEUE_STATUS: Final = Call("patch", QUEUES, "status")
CREATE_EVENT: Final = Call("create", EVENTS)
PATCH_EVENT: Final = Call("patch", EVENTS)
GET_LEASE: Final = Call("get", LEASES, scope="own")
CREATE_LEASE: Final = Call("create", LEASES, scope="own")
UPDATE_LEASE: Final = Call("update", LEASES, scope="own")
REVIEW_ACCESS: Final = Call("create", ACCESS_REVIEWS)

CALLS: Final = (
    *LIST.values(),
    *WATCH.values(),
    *(GET_POD, BIND_POD, EVICT_POD, PATCH_POD_STATUS),
    *(GET_POD_GROUP, PATCH_POD_GROUP, PATCH_POD_GROUP_STATUS),
    *(GET_QUEUE, PATCH_QUEUE_STATUS),
    *(CREATE_EVENT, PATCH_EVENT, GET_LEASE, CREATE_LEASE, UPDATE_LEASE, REVIEW_ACCESS),
)
"""All of them. `/version`, `/api` and `/apis` are open to every authenticated client."""
