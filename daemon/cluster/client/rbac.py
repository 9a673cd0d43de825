"""What an API server must allow muster, made from the table of calls: no more and no less (rule K15.3)."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from daemon.cluster.client.calls import CALLS, CLUSTER, OWN, Call
from features.table import KINDS

NAME: Final = "muster"
"""How the roles, the service account and the Lease are called."""

WHY: Final[Mapping[str, str]] = {
    **{one.resource.plural: one.why for one in KINDS.values() if one.is_watched},
    "pods/binding": "bind",
    "pods/eviction": "evict, within disruption budgets",
    "pods/status": "the condition `PodScheduled`, and the node that a pod waits for",
    "queues/status": "what of its quota a queue uses",
    "podgroups/status": "their phase, where it is a part of its own",
    "events": "what `kubectl describe` shows",
    "leases": "which of several daemons leads",
    "selfsubjectaccessreviews": "to say at the start what of all this is missing",
    "tokenreviews": "whose token a tenant's question brings",
    "subjectaccessreviews": "whether that tenant may get the pod or pod group asked about",
}
"""Why a resource, or a part of one, is in the table."""


class Rule(Struct, frozen=True):
    """One rule of a role: what may be done with some resources of an API group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def document(self) -> dict[str, list[str]]:
        """As it stands in a role."""
        named = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            **named,
            "verbs": list(self.verbs),
        }


def cluster_rules(calls: Iterable[Call] = CALLS) -> list[Rule]:
    """What is asked of the cluster as a whole."""
    return _rules([call for call in calls if call.scope == CLUSTER])


def own_rules(calls: Iterable[Call] = CALLS) -> list[Rule]:
    """What is asked of the namespace that muster is in. A name cannot bound what is yet to be created."""
    own = [call for call in calls if call.scope == OWN]
    return [
        *_rules([call for call in own if call.verb == "create"]),
        *_rules([call for call in own if call.verb != "create"], names=(NAME,)),
    ]


def namespace_rules(calls: Iterable[Call] = CALLS) -> dict[str, list[Rule]]:
    """What is asked of single namespaces, by their names."""
    found: dict[str, list[Call]] = {}
    for call in calls:
        if call.namespace:
            found.setdefault(call.namespace, []).append(call)
    return {
        namespace: [
            *_rules([call for call in asked if not call.only]),
            *_rules([call for call in asked if call.only], names=_names(asked)),
        ]
        for namespace, asked in found.items()
    }


def _names(calls: list[Call]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.only for call in calls if call.only))


def table() -> list[tuple[str, str, str, str, str]]:
    """Verbs, resource, group, scope and reason, a row a resource, in the order of the calls."""
    verbs: dict[tuple[str, str, str], dict[str, None]] = {}
    for call in CALLS:
        verbs.setdefault((target(call), call.resource.group, call.scope), {})[call.verb] = None
    return [
        (", ".join(found), name, group, scope, WHY[name])
        for (name, group, scope), found in verbs.items()
    ]


def target(call: Call) -> str:
    """What a rule calls that which is called: `pods`, `pods/binding`."""
    return "/".join(filter(None, (call.resource.plural, call.subresource)))


def _rules(calls: list[Call], names: tuple[str, ...] = ()) -> list[Rule]:
    """Resources of one group that are used alike share a rule; rules come in the order of the calls."""
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for call in calls:
        verbs.setdefault((call.resource.group, target(call)), {})[call.verb] = None
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), found in verbs.items():
        alike.setdefault((group, tuple(found)), []).append(resource)
    return [
        Rule(group=group, resources=tuple(resources), verbs=found, names=names)
        for (group, found), resources in alike.items()
    ]
