"""Quarantine: nodes whose kubelets rejected pods are closed for a while to pods that would be rejected again (K5.12).

A kubelet may reject a pod although the status of its node shows free resources, and the owner then creates another pod.
Whether that is the fault of the node or of the pod is not known. So a rejection closes the node, for its reason and its
resource, to the pods of the same tenant that request the resource, and to no others; where the reason lies in the pod
(`OWN_REASONS`), to those pods of the tenant that request no less of anything than pods that were rejected. If pods of
several tenants were rejected there for the same reason and resource, and no pod that requests the resource was admitted since, the
node is closed to such pods of all tenants, each time for FIRST_NS; so a tenant that is counted as several cannot close a
node for long.

A quarantine of a tenant lasts FIRST_NS, and with each further rejection after its end twice as long, up to LONGEST_NS. It
ends early when a pod of the tenant that requests no less of anything than pods that were rejected runs there. Each QUIET_NS
after its end without a rejection takes back one doubling; after the last one it is forgotten. Its time begins with the first
cycle after the rejection.

Pods that kubelets reject for a reason that lies in the pods would evict others on node after node. While OWN_NODES_MAX
nodes are closed to them for such a reason, no more pods are evicted for them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, structs

from events.duration import doubled
from events.limits import clipped
from events.watch import BindRejectedByNode

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pods import Pod

FIRST_NS: Final = 30_000_000_000
LONGEST_NS: Final = 1_800_000_000_000
QUIET_NS: Final = 600_000_000_000

COUNT_MAX: Final = 7
"""Largest count: the doubling at which LONGEST_NS is reached."""

OF_NODE_MAX: Final = 32
"""Quarantines of one node; beyond, those that are over are forgotten first, then those with the fewest rejections."""

ALL_MAX: Final = 16_384
"""Quarantines of the cluster; beyond, those whose last rejection is longest ago are forgotten."""

REJECTIONS: Final = (
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "TopologyAffinityError",
    "UnsupportedOperatingSystem",
)
"""Reasons of pods that a kubelet rejected, in addition to `OutOf<resource>`."""

OWN_REASONS: Final = ("NodeAffinity", "TopologyAffinityError", "UnsupportedOperatingSystem")
"""Those that depend on what the pod states: another pod may be admitted by the same node."""

OWN_NODES_MAX: Final = 3
"""If so many nodes are closed to pods for a reason that lies in the pods, no pods are evicted for such pods."""

ALL_TENANTS: Final = ""
"""The tenant of a quarantine that concerns the pods of all."""

Request: TypeAlias = tuple[tuple[str, int], ...]
"""Resource and amount."""

Key: TypeAlias = tuple[str, str, str, str]
"""Node, tenant, reason, resource."""


class Quarantine(Struct, frozen=True):
    """A node that is, or shortly was, closed to pods of a tenant that request a resource."""

    node: str
    tenant: str
    reason: str
    """The reason that the kubelet gave."""
    resource: str
    """The resource that it named; `pods` stands for all pods."""
    count: int
    """Number of rejections that led to the doublings, as far as time has not taken them back."""
    request: Request
    """What all rejected pods requested at least."""
    until_ns: int | None = None
    """End; None until the next cycle gives the time."""
    is_over: bool = False
    """Whether it is kept only for the doubling."""
    was_admitted_since: bool = False
    """Whether a pod that requests the resource was admitted since the last rejection."""

    @property
    def key(self) -> Key:
        """Return what identifies it."""
        return (self.node, self.tenant, self.reason, self.resource)

    def concerns(self, request: Request) -> bool:
        """Return whether it concerns pods of its tenant with this request."""
        if self.reason in OWN_REASONS:
            return _covers(request, self.request)
        return _asks(request, self.resource)

    @property
    def length_ns(self) -> int:
        """Return how long it lasts from its beginning."""
        return doubled(FIRST_NS, self.count, LONGEST_NS)

    @property
    def forgotten_ns(self) -> int:
        """Return when it is forgotten if nothing happens, once it has begun."""
        return (self.until_ns or 0) + self.count * QUIET_NS


class Quarantines:
    """All quarantines. Only State changes them."""

    def __init__(self) -> None:
        self.all: dict[Key, Quarantine] = {}
        """In the order of their last rejections."""
        self.cycle_ns = 0
        """Time of the last cycle."""
        self.of_node: dict[str, dict[Key, None]] = {}
        self.of_tenant: dict[str, dict[Key, None]] = {}
        """Tenant to its quarantines; without those of all tenants."""
        self.of_all_tenants: dict[Key, None] = {}
        self._times: tuple[int | None, int | None] | None = (None, None)

    @property
    def next_ns(self) -> int | None:
        """Return when the next quarantine begins or ends; None if none will. One that is over and is to be forgotten makes
        no cycle due."""
        return self._next_times()[0]

    @property
    def next_change_ns(self) -> int | None:
        """Return when the next quarantine begins, ends or is to be forgotten; None without any."""
        return self._next_times()[1]

    def _next_times(self) -> tuple[int | None, int | None]:
        if self._times is None:
            ends = [one.until_ns or 0 for one in self.all.values() if not one.is_over]
            forgotten = [one.forgotten_ns for one in self.all.values() if one.is_over]
            self._times = min(ends, default=None), min((*ends, *forgotten), default=None)
        return self._times

    def put(self, one: Quarantine) -> None:
        """Add or replace a quarantine; it becomes the last."""
        if self.all.pop(one.key, None) is None:
            self.of_node.setdefault(one.node, {})[one.key] = None
            if one.tenant == ALL_TENANTS:
                self.of_all_tenants[one.key] = None
            else:
                self.of_tenant.setdefault(one.tenant, {})[one.key] = None
        self.all[one.key] = one
        self._times = None

    def exchange(self, one: Quarantine) -> None:
        """Replace a quarantine in its place."""
        self.all[one.key] = one
        self._times = None

    def drop(self, one: Quarantine) -> None:
        """Remove a quarantine."""
        del self.all[one.key]
        of_node = self.of_node[one.node]
        del of_node[one.key]
        if not of_node:
            del self.of_node[one.node]
        if one.tenant == ALL_TENANTS:
            del self.of_all_tenants[one.key]
        else:
            of_tenant = self.of_tenant[one.tenant]
            del of_tenant[one.key]
            if not of_tenant:
                del self.of_tenant[one.tenant]
        self._times = None

    def on(self, node: str) -> list[Quarantine]:
        """Return the quarantines of a node."""
        return [self.all[key] for key in self.of_node.get(node, ())]

    def standing(self, node: str) -> list[Quarantine]:
        """Return the quarantines of a node that close it now."""
        return [one for one in self.on(node) if not one.is_over]

    def closing(self, node: str, tenant: str, request: Request) -> Quarantine | None:
        """Return the first quarantine of a tenant (or ALL_TENANTS) that closes a node to pods with this request."""
        for key in self.of_node.get(node, ()):
            one = self.all[key]
            if one.tenant == tenant and not one.is_over and one.concerns(request):
                return one
        return None

    def own_of(self, tenant: str, request: Request) -> list[Quarantine]:
        """Return the quarantines that close nodes to pods of a tenant with this request for a reason that lies in such
        pods, one for each node, up to OWN_NODES_MAX of them."""
        found: dict[str, Quarantine] = {}
        for key in self.of_tenant.get(tenant, ()):
            one = self.all[key]
            if not one.is_over and one.reason in OWN_REASONS and one.concerns(request):
                found.setdefault(one.node, one)
                if len(found) == OWN_NODES_MAX:
                    break
        return list(found.values())

    def end_ns(self, one: Quarantine) -> int:
        """Return the end of a quarantine that stands."""
        return self.cycle_ns + one.length_ns if one.until_ns is None else one.until_ns


def rejected_resources(reason: str, request: Request) -> tuple[str, ...]:
    """Return the resources that a kubelet rejected, by the reason of the failed pod; none if it is not a rejection.

    `OutOfcpu` names its resource. `UnexpectedAdmissionError` of a device plugin does not: it stands for the devices
    of the request. Any other reason stands for all pods.
    """
    if reason.startswith("OutOf"):
        named = reason.removeprefix("OutOf")
        return (named,) if named in dict(request) else ("pods",)
    if reason not in REJECTIONS:
        return ()
    devices = tuple(sorted(name for name, _ in request if "/" in name))
    return devices if devices and reason == "UnexpectedAdmissionError" else ("pods",)


def record_rejection(cluster: "Cluster", event: BindRejectedByNode) -> None:
    """Close a node to the tenant of a pod that its kubelet rejected, or to all."""
    node = cluster.nodes.nodes.get(event.node)
    if node is None or node.facts is None:
        return
    kept, pod = cluster.quarantines, cluster.pods.get(event.uid)
    request = () if pod is None else pod.pod_class.request
    tenant = cluster.tenants.tenant_of(event.pod.partition("/")[0])
    reason = clipped(event.reason)
    for resource in event.resources:
        before = kept.all.get((node.name, tenant, reason, resource))
        one = Quarantine(node.name, tenant, reason, resource, _next_count(kept, before), request)
        if before is not None:
            one = structs.replace(one, request=_least(request, before.request))
        if before is not None and not before.is_over:
            # The pod was bound before the node was closed.
            one = structs.replace(one, until_ns=before.until_ns)
        _put(cluster, one)
        others = [
            other
            for other in kept.on(node.name)
            if (other.reason, other.resource) == (reason, resource)
            and other.tenant not in (tenant, ALL_TENANTS)
            and not other.was_admitted_since
        ]
        of_all = (node.name, ALL_TENANTS, reason, resource)
        if others and of_all not in kept.all:
            for other in others:
                request = _least(request, other.request)
            _put(cluster, Quarantine(*of_all, count=1, request=request))
    _forget_most(cluster, node.name)


def record_admission(cluster: "Cluster", pod: "Pod") -> None:
    """End the quarantines of a node that a pod which runs there refutes. Call it only if the node has any."""
    tenant, request = cluster.tenants.tenant_of(pod.facts.namespace), pod.pod_class.request
    for one in cluster.quarantines.on(pod.facts.node):
        if not _asks(request, one.resource):
            continue
        if one.tenant == ALL_TENANTS:
            _forget(cluster, one)
            continue
        is_refuted = one.tenant == tenant and not one.is_over and _covers(request, one.request)
        if one.was_admitted_since and not is_refuted:
            continue
        after = structs.replace(one, was_admitted_since=True)
        if is_refuted:
            after = structs.replace(after, is_over=True, until_ns=cluster.quarantines.cycle_ns)
        cluster.quarantines.exchange(after)
        if is_refuted:
            _open(cluster, after)


def leave_tenant(cluster: "Cluster", namespace: str, tenant: str) -> None:
    """Let the pods of a namespace be placed again on nodes that are closed to the tenant that it has left, and evict for
    its pod groups if the new tenant may."""
    kept = cluster.quarantines
    if cluster.eviction_pauses:
        for key in [one for one in cluster.groups if one.partition("/")[0] == namespace]:
            cluster.pod_groups.mark(key, cluster.position)
    if not kept.of_tenant:
        return
    cluster.inter_pod_affinity.outdate((namespace,))
    for node in dict.fromkeys(one[0] for one in kept.of_tenant.get(tenant, ())):
        cluster.reopen_node(node)


def forget_node(cluster: "Cluster", node: str) -> None:
    """Forget the quarantines of a node that is about to be removed."""
    for one in cluster.quarantines.on(node):
        _forget(cluster, one)


def open_cycle(cluster: "Cluster", at_ns: int) -> None:
    """Begin, end and forget quarantines at the time of a cycle."""
    kept = cluster.quarantines
    kept.cycle_ns = at_ns
    next_ns = kept.next_change_ns
    if next_ns is None or next_ns > at_ns:
        return
    for one in list(kept.all.values()):
        if one.until_ns is None:
            kept.exchange(structs.replace(one, until_ns=at_ns + one.length_ns))
        elif one.until_ns > at_ns:
            continue
        elif one.tenant == ALL_TENANTS or at_ns >= one.forgotten_ns:
            _forget(cluster, one)
        elif not one.is_over:
            kept.exchange(structs.replace(one, is_over=True))
            _open(cluster, one)


def restore(cluster: "Cluster", kept: Iterable[Quarantine], cycle_ns: int) -> None:
    """Restore the quarantines of a snapshot."""
    cluster.quarantines.cycle_ns = cycle_ns
    for one in kept:
        cluster.quarantines.put(one)


def audit(cluster: "Cluster") -> None:
    """Raise AssertionError if what is derived from the quarantines is not as counted again."""
    kept, twin = cluster.quarantines, Quarantines()
    for one in kept.all.values():
        twin.put(one)
        facts = cluster.nodes.nodes[one.node].facts if one.node in cluster.nodes.nodes else None
        assert facts is not None, f"{one} is of an absent node"
    for name in ("of_node", "of_tenant", "of_all_tenants", "next_ns", "next_change_ns"):
        was, counted = getattr(kept, name), getattr(twin, name)
        assert was == counted, f"quarantines: {name} is {was}, counted {counted}"


def _asks(request: Request, resource: str) -> bool:
    return resource == "pods" or any(name == resource for name, _ in request)


def _least(one: Request, other: Request) -> Request:
    """Return what two requests both request, by resource."""
    amounts = dict(other)
    return tuple([(name, min(amount, amounts[name])) for name, amount in one if name in amounts])


def _covers(request: Request, least: Request) -> bool:
    amounts = dict(request)
    return all(amounts.get(name, 0) >= amount for name, amount in least)


def _next_count(kept: Quarantines, before: Quarantine | None) -> int:
    """Return the count after one more rejection. It does not grow while the node is closed: the pod was bound before."""
    if before is None:
        return 1
    if before.until_ns is None or not before.is_over:
        return before.count
    quiet = (kept.cycle_ns - before.until_ns) // QUIET_NS
    return min(COUNT_MAX, 1 + max(0, before.count - quiet))


def _put(cluster: "Cluster", one: Quarantine) -> None:
    is_new = one.tenant not in cluster.quarantines.of_tenant
    cluster.quarantines.put(one)
    if is_new and one.tenant != ALL_TENANTS:
        cluster.inter_pod_affinity.outdate(cluster.tenants.namespaces_of(one.tenant))
    cluster.nodes.update_predicates(one.node)
    cluster.changed_rows.nodes[one.node] = None


def _forget(cluster: "Cluster", one: Quarantine) -> None:
    kept = cluster.quarantines
    kept.drop(one)
    if one.tenant != ALL_TENANTS and one.tenant not in kept.of_tenant:
        cluster.inter_pod_affinity.outdate(cluster.tenants.namespaces_of(one.tenant))
    if not one.is_over:
        _open(cluster, one)


def _open(cluster: "Cluster", one: Quarantine) -> None:
    """Let pods be placed again on a node that a quarantine closed."""
    cluster.reopen_node(one.node)
    cluster.changed_rows.nodes[one.node] = None


def _forget_most(cluster: "Cluster", node: str) -> None:
    """Keep the numbers of quarantines within their bounds."""
    kept = cluster.quarantines
    while len(kept.of_node.get(node, ())) > OF_NODE_MAX:
        # The last one has just been put.
        some = kept.on(node)[:-1]
        least = min(some, key=lambda one: (one.tenant == ALL_TENANTS, not one.is_over, one.count))
        _forget(cluster, least)
    while len(kept.all) > ALL_MAX:
        _forget(cluster, next(iter(kept.all.values())))
