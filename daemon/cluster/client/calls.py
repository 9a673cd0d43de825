"""Every call muster makes of an API server, as one table. RBAC is made from it (rule K15.3).

A request can only be made with a `Call` of this table, so a verb that is not here cannot be used; the
tests see to it that each one here is.
"""

from typing import Final

from msgspec import Struct

from projections.api_resource import Resource
from projections.kind_table import KINDS
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES

EVENTS: Final = Resource("Event", "events", "events.k8s.io")
LEASES: Final = Resource("Lease", "leases", "coordination.k8s.io")
ACCESS_REVIEWS: Final = Resource(
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    "authorization.k8s.io",
    is_namespaced=False,
)

WATCHED: Final = tuple(one.resource for one in KINDS.values() if one.is_watched)
"""What is listed and watched whole, in the order in which lists are applied (K4)."""

REQUIRED: Final = tuple(
    one.resource for one in KINDS.values() if one.is_required and not one.resource.is_custom
)
"""Kinds that every API server serves; the other required ones come from CRDs."""


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
