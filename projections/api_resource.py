"""A resource of the Kubernetes API: what its objects are called, and where they are."""

from msgspec import Struct

from events.normalize_config_map import Selection


class Resource(Struct, frozen=True):
    """A resource of the API, such as `nodes`."""

    kind: str
    plural: str
    group: str = ""
    """API group; empty for the core group."""
    version: str = "v1"
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    """What kubectl also calls it."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition defines it, which need not be installed."""
    is_name_shared: bool = False
    """Whether another observed resource has the same kind and plural."""
    subresources: tuple[str, ...] = ("status",)
    field_selectors: tuple[str, ...] = ()
    """Fields that a list can select by, besides name and namespace."""
    has_generation: bool = True
    """Whether the API server counts changes of the spec in `metadata.generation`."""
    selection: Selection | None = None
    """Which of its objects are meant, if not all."""
    needs_revision: bool = False
    """Whether a PUT must name the revision that it replaces."""

    @property
    def api_version(self) -> str:
        """`v1`, `policy/v1`"""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The kind as records call it: with its group for a custom resource that shares its kind with another one, and
        with the name of the selection for a part of the objects of a resource."""
        if self.selection is not None:
            return self.selection.kind
        is_qualified = self.is_name_shared and self.is_custom
        return f"{self.kind}.{self.group}" if is_qualified else self.kind

    @property
    def qualified(self) -> str:
        """The plural, with its group where two resources share it: `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.is_name_shared else self.plural

    @property
    def aliases(self) -> tuple[str, ...]:
        """What kubectl calls it: kind, plural and short names, in lower case."""
        return (self.kind.lower(), self.plural, *self.short_names)

    @property
    def discovery_name(self) -> str:
        """As `server_discovered` records it: `policy/v1/poddisruptionbudgets`."""
        return f"{self.api_version}/{self.plural}"

    @property
    def path(self) -> str:
        """The path of the collection of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.plural}"

    def object_path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object. Names are DNS names and need no escape."""
        root = self.path.removesuffix(self.plural)
        within = f"namespaces/{namespace}/" if self.is_namespaced else ""
        below = f"/{subresource}" if subresource else ""
        return f"{root}{within}{self.plural}/{name}{below}"

    def collection_path(self, namespace: str) -> str:
        """Return the path of the collection of one namespace."""
        root = self.path.removesuffix(self.plural)
        return f"{root}namespaces/{namespace}/{self.plural}"
