"""Every call muster makes of an API server, as one table. RBAC is made from it (rule K15.3).

A request can only be made with a `Call` of this table, so a verb that is not here cannot be used; the
tests see to it that each one here is.
"""

from functools import cached_property
from typing import Final

from msgspec import Struct

from features.pools.group_overrides import KIND as OVERRIDES
from features.table import FEATURES, KINDS
from projections.api_resource import Resource
from projections.kinds.config_map import CONFIG_MAPS
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.volumes.facts import VOLUME_KINDS
from projections.written_config_map import WrittenConfigMap

EVENTS: Final = Resource("Event", "events", "events.k8s.io")
LEASES: Final = Resource("Lease", "leases", "coordination.k8s.io")
ACCESS_REVIEWS: Final = Resource(
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    "authorization.k8s.io",
    is_namespaced=False,
)
TOKEN_REVIEWS: Final = Resource(
    "TokenReview", "tokenreviews", "authentication.k8s.io", is_namespaced=False
)
SUBJECT_REVIEWS: Final = Resource(
    "SubjectAccessReview", "subjectaccessreviews", "authorization.k8s.io", is_namespaced=False
)

WATCHED: Final = tuple(one.resource for one in KINDS.values() if one.is_watched)
"""What is listed and watched whole, in the order in which lists are applied (K4)."""

REQUIRED: Final = tuple(
    one.resource for one in KINDS.values() if one.is_required and not one.resource.is_custom
)
"""Kinds that every API server serves; the other required ones come from CRDs."""


READING: Final = ("get", "list", "watch")
"""Verbs that change nothing, not even an object that only the answer shows."""

CLUSTER: Final = "cluster"
WRITTEN: Final = (*((one.namespace, one.name) for one in FEATURES.of(WrittenConfigMap)),)
"""Namespace and name of the ConfigMaps that are written for people and other programs."""
OWN: Final = "own"
"""Scopes of calls."""


class Call(Struct, frozen=True, dict=True):
    """One kind of request: an RBAC verb on a resource or a part of it."""

    verb: str
    resource: Resource
    subresource: str = ""
    scope: str = CLUSTER
    """`cluster`; `own`: only in the namespace that muster itself is in; or the name of a namespace."""
    only: str = ""
    """The name of the only object of which it is asked; empty for any."""

    @cached_property
    def what(self) -> str:
        """A few words for errors and metrics: `create pods/binding`."""
        below = f"/{self.subresource}" if self.subresource else ""
        within = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource.qualified}{below}{within}"

    @cached_property
    def namespace(self) -> str:
        """The namespace in which alone the call is made; empty for all, and for muster's own."""
        return "" if self.scope in (CLUSTER, OWN) else self.scope

    @property
    def is_optional(self) -> bool:
        """Whether muster does without, if it is not allowed: the namespace belongs to a device stack, which need not
        be installed, the call serves only tenants' questions, only pods with claims wait for it, or it is of what operators
        set for jobs: without it they set nothing."""
        if self.namespace or self.resource.kind in (*VOLUME_KINDS, OVERRIDES):
            return True
        return self.resource in (TOKEN_REVIEWS, SUBJECT_REVIEWS)


def _scope(resource: Resource) -> str:
    return CLUSTER if resource.selection is None else resource.selection.namespace


LIST: Final = {one.name: Call("list", one, scope=_scope(one)) for one in WATCHED}
WATCH: Final = {one.name: Call("watch", one, scope=_scope(one)) for one in WATCHED}
GET_POD: Final = Call("get", PODS)
PATCH_POD: Final = Call("patch", PODS)
BIND_POD: Final = Call("create", PODS, "binding")
EVICT_POD: Final = Call("create", PODS, "eviction")
DELETE_POD: Final = Call("delete", PODS)
PATCH_POD_STATUS: Final = Call("patch", PODS, "status")
GET_POD_GROUP: Final = Call("get", POD_GROUPS)
PATCH_POD_GROUP: Final = Call("patch", POD_GROUPS)
PATCH_POD_GROUP_STATUS: Final = Call("patch", POD_GROUPS, "status")
GET_QUEUE: Final = Call("get", QUEUES)
PATCH_QUEUE_STATUS: Final = Call("patch", QUEUES, "status")
PATCH_CONFIG_MAP: Final = {
    (namespace, name): Call("patch", CONFIG_MAPS, scope=namespace, only=name)
    for namespace, name in WRITTEN
}
CREATE_CONFIG_MAP: Final = {
    namespace: Call("create", CONFIG_MAPS, scope=namespace) for namespace, _ in WRITTEN
}
CREATE_EVENT: Final = Call("create", EVENTS)
PATCH_EVENT: Final = Call("patch", EVENTS)
GET_LEASE: Final = Call("get", LEASES, scope=OWN)
CREATE_LEASE: Final = Call("create", LEASES, scope=OWN)
UPDATE_LEASE: Final = Call("update", LEASES, scope=OWN)
REVIEW_ACCESS: Final = Call("create", ACCESS_REVIEWS)
REVIEW_TOKEN: Final = Call("create", TOKEN_REVIEWS)
REVIEW_SUBJECT: Final = Call("create", SUBJECT_REVIEWS)

CALLS: Final = (
    *LIST.values(),
    *WATCH.values(),
    *(GET_POD, PATCH_POD, BIND_POD, EVICT_POD, DELETE_POD, PATCH_POD_STATUS),
    *(GET_POD_GROUP, PATCH_POD_GROUP, PATCH_POD_GROUP_STATUS),
    *(GET_QUEUE, PATCH_QUEUE_STATUS),
    *(*PATCH_CONFIG_MAP.values(), *CREATE_CONFIG_MAP.values()),
    *(CREATE_EVENT, PATCH_EVENT, GET_LEASE, CREATE_LEASE, UPDATE_LEASE, REVIEW_ACCESS),
    *(REVIEW_TOKEN, REVIEW_SUBJECT),
)
"""All of them. `/version`, `/api` and `/apis` are open to every authenticated client."""

OPERATOR_CALLS: Final = {
    verb: Call(verb, KINDS[OVERRIDES].resource) for verb in ("create", "patch", "delete")
}
"""Verb to the call by which `muster group` changes what operators set, with the rights of its caller: no call of the daemon."""

SHADOW_CALLS: Final = (*LIST.values(), *WATCH.values())
"""The calls of a shadow."""
