"""The resources that the API serves: built-in ones, and those of CustomResourceDefinitions."""

from typing import Final

from msgspec import Struct

from features.table import KINDS as OBSERVED
from projections.api_resource import Resource
from projections.kinds.disruption_budget import BUDGETS
from projections.kinds.namespace import NAMESPACES
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.priority_class import PRIORITY_CLASSES
from simulator.api_server.printer_columns import Column, custom_columns
from simulator.manifest import COMMAND, KINDS, Kind, Manifest
from simulator.manifest_fields import list_at, section, text_at
from simulator.object_store import resource_of


class ServedResource(Struct, frozen=True):
    """A resource. Revisions, generations and subresources are as in kube-apiserver."""

    kind: Kind
    plural: str
    short_names: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """Subresources."""
    is_custom: bool = False
    needs_revision: bool = False
    """Whether a PUT must name the revision that it replaces."""
    has_generation: bool = False
    columns: tuple[Column, ...] = ()
    """Columns of a custom resource, besides its name."""
    categories: tuple[str, ...] = ()
    is_core_event: bool = False
    """Whether the objects are the Events of `events.k8s.io`, with the field names of the core group."""

    @property
    def resource(self) -> str:
        """The name of the resource in the store."""
        return resource_of(EVENT if self.is_core_event else self.kind)

    @property
    def qualified(self) -> str:
        """`pods`; `leases.coordination.k8s.io`"""
        return f"{self.plural}.{self.kind.group}" if self.kind.group else self.plural

    @property
    def is_virtual(self) -> bool:
        """Whether objects are answered and never stored."""
        return self.kind in (REVIEW, TOKEN_REVIEW, SUBJECT_REVIEW)


CRD: Final = Kind("CustomResourceDefinition", "apiextensions.k8s.io", "v1", is_namespaced=False)
LEASE: Final = Kind("Lease", "coordination.k8s.io", "v1")
EVENT: Final = Kind("Event", "events.k8s.io", "v1")
CORE_EVENT: Final = Kind("Event", "", "v1")
REVIEW: Final = Kind("SelfSubjectAccessReview", "authorization.k8s.io", "v1", is_namespaced=False)
TOKEN_REVIEW: Final = Kind("TokenReview", "authentication.k8s.io", "v1", is_namespaced=False)
SUBJECT_REVIEW: Final = Kind(
    "SubjectAccessReview", "authorization.k8s.io", "v1", is_namespaced=False
)
NAMESPACE: Final = Kind.of(NAMESPACES)
POD: Final = Kind.of(PODS)
NODE: Final = Kind.of(NODES)
BUDGET: Final = Kind.of(BUDGETS)
PRIORITY_CLASS: Final = Kind.of(PRIORITY_CLASSES)


def _built_in(resource: Resource) -> ServedResource:
    return ServedResource(
        Kind.of(resource),
        resource.plural,
        resource.short_names,
        resource.subresources,
        needs_revision=resource.needs_revision,
        has_generation=resource.has_generation,
        categories=("all",) if resource.kind in _IN_ALL else (),
    )


_IN_ALL: Final = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
"""What `kubectl get all` shows."""

BUILT_IN: Final = (
    *(
        _built_in(one.resource)
        for one in OBSERVED.values()
        if not one.resource.is_custom and one.resource.selection is None
    ),
    ServedResource(EVENT, "events", ("ev",)),
    ServedResource(CORE_EVENT, "events", ("ev",), is_core_event=True),
    ServedResource(LEASE, "leases", needs_revision=True),
    ServedResource(
        CRD,
        "customresourcedefinitions",
        ("crd", "crds"),
        ("status",),
        has_generation=True,
        categories=("api-extensions",),
    ),
    ServedResource(REVIEW, "selfsubjectaccessreviews"),
    ServedResource(SUBJECT_REVIEW, "subjectaccessreviews"),
    ServedResource(TOKEN_REVIEW, "tokenreviews"),
)


class ResourceCatalogue:
    """The resources served now, by group, version and plural."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str], ServedResource] = {
            (one.kind.group, one.kind.version, one.plural): one for one in BUILT_IN
        }

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Return the resource at a path."""
        return self._served.get((group, version, plural))

    def all(self) -> list[ServedResource]:
        """All resources, by group, version and name."""
        return [self._served[key] for key in sorted(self._served)]

    def of_kind(self, kind: str) -> ServedResource | None:
        """Return the first resource whose objects are of a kind."""
        return next((one for one in self._served.values() if one.kind.kind == kind), None)

    def define(self, definition: Manifest) -> None:
        """Serve the resources of a new or changed definition."""
        self.withdraw(definition)
        for served in resources_of_definition(definition):
            key = (served.kind.group, served.kind.version, served.plural)
            self._served[key] = served

    def withdraw(self, definition: Manifest) -> list[ServedResource]:
        """Stop serving a deleted definition's resources; returns them."""
        spec = section(definition, "spec")
        group, plural = text_at(spec, "group"), text_at(section(spec, "names"), "plural")
        gone = [
            one
            for one in self._served.values()
            if one.is_custom and (one.kind.group, one.plural) == (group, plural)
        ]
        for one in gone:
            del self._served[one.kind.group, one.kind.version, one.plural]
        return gone

    def is_served(self, served: ServedResource) -> bool:
        """Return True if a resource is still served."""
        return (served.kind.group, served.kind.version, served.plural) in self._served


def resources_of_definition(definition: Manifest) -> list[ServedResource]:
    """Return the resources of a definition: one for each served version."""
    spec = section(definition, "spec")
    names = section(spec, "names")
    short_names = names.get("shortNames")
    return [
        ServedResource(
            Kind(
                text_at(names, "kind"),
                text_at(spec, "group"),
                text_at(version, "name"),
                text_at(spec, "scope") == "Namespaced",
            ),
            text_at(names, "plural"),
            tuple(map(str, short_names)) if isinstance(short_names, list) else (),
            ("status",) if "status" in section(version, "subresources") else (),
            is_custom=True,
            needs_revision=True,
            has_generation=True,
            columns=custom_columns(version),
        )
        for version in list_at(spec, "versions")
        if version.get("served") is not False
    ]


def volcano_definitions() -> list[Manifest]:
    """CustomResourceDefinitions of the kinds that scenarios may hold, in the order of `simulator.manifest.KINDS`."""
    known = {Kind.of(one.resource): one.resource for one in OBSERVED.values()}
    resources = [known.get(kind, _COMMANDS if kind == COMMAND else None) for kind in KINDS]
    return [_definition(one) for one in resources if one is not None and one.is_custom]


_COMMANDS: Final = Resource(
    COMMAND.kind, "commands", COMMAND.group, COMMAND.version, is_custom=True
)


_COLUMNS: Final = {
    "Queue": (
        ("Parent", "string", ".spec.parent"),
        ("Weight", "integer", ".spec.weight"),
        ("State", "string", ".status.state"),
    ),
    "PodGroup": (
        ("Phase", "string", ".status.phase"),
        ("Minimum", "integer", ".spec.minMember"),
        ("Running", "integer", ".status.running"),
        ("Queue", "string", ".spec.queue"),
    ),
    "GroupOverride": (
        ("Namespace", "string", ".spec.namespace"),
        ("Group", "string", ".spec.name"),
        ("Pool", "string", ".spec.pool"),
        ("Priority", "integer", ".spec.priority"),
        ("Weight", "string", ".spec.weight"),
        ("Slots", "integer", ".spec.maxSlots"),
        ("Position", "string", ".spec.position"),
    ),
    "HyperNode": (
        ("Tier", "integer", ".spec.tier"),
        ("Nodes", "integer", ".status.nodeCount"),
    ),
}
"""As in the definitions under `deploy/kustomize`."""
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


def _definition(resource: Resource) -> Manifest:
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": list(resource.short_names),
            },
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {name: {} for name in resource.subresources},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path}
                        for name, kind, path in (*_COLUMNS.get(resource.kind, ()), _AGE)
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
