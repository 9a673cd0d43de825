"""Tenants: what shares between users of the cluster are counted by.

The policy's key `tenants: {label: KEY}` names the label of a Namespace whose value is its tenant. Without it, and for a
Namespace that lacks the label or has an empty value, each namespace is a tenant of its own. The name of a labelled tenant
is `KEY=VALUE`; no namespace can have such a name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from projections.deltas import PolicyChanged
from projections.index import Index

if TYPE_CHECKING:
    from projections.cluster import Cluster


def is_labelled(tenant: str) -> bool:
    """Return whether a label of its namespaces names the tenant; else it is one namespace."""
    return "=" in tenant


def tenant_word(tenant: str) -> str:
    """Return what kind of tenant it is, for a message."""
    return "tenant" if is_labelled(tenant) else "namespace"


def tenant_text(tenant: str) -> str:
    """Name a tenant in a message."""
    return f"{tenant_word(tenant)} {tenant}"


class Tenants(Index):
    """Namespaces whose labels name their tenants. Empty unless the policy names the label."""

    name = "tenants"
    COMPARED: ClassVar[tuple[str, ...]] = ("label", "named", "members")

    def __init__(self) -> None:
        self.label = ""
        self.named: dict[str, str] = {}
        """Namespace to its tenant, where that is not the namespace itself."""
        self.members: dict[str, dict[str, None]] = {}
        """Tenant to its namespaces, of the same."""

    def rebuilt(self, cluster: "Cluster", /) -> "Tenants":
        """Read the labels of all namespaces again."""
        twin = Tenants()
        twin.label = cluster.policy.tenants.label
        if twin.label:
            for namespace, labels in cluster.inter_pod_affinity.namespaces.items():
                twin.put(namespace, labels)
        return twin

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Read all labels again if the policy names another one."""
        if self.label != cluster.policy.tenants.label:
            self.rebuild(cluster)
            cluster.inter_pod_affinity.outdate_all()

    def put(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Set the tenant of a namespace from its labels; return whether it changed."""
        if not self.label:
            return False
        value, before = labels.get(self.label, ""), self.named.get(namespace, "")
        tenant = f"{self.label}={value}" if value else ""
        if tenant == before:
            return False
        if before:
            del self.named[namespace]
            del self.members[before][namespace]
            if not self.members[before]:
                del self.members[before]
        if tenant:
            self.named[namespace] = tenant
            self.members.setdefault(tenant, {})[namespace] = None
        return True

    def tenant_of(self, namespace: str) -> str:
        """Return the tenant of a namespace."""
        return self.named.get(namespace, namespace)

    def namespaces_of(self, tenant: str) -> tuple[str, ...]:
        """Return the namespaces of a tenant."""
        if is_labelled(tenant):
            return tuple(self.members.get(tenant, ()))
        return () if tenant in self.named else (tenant,)
