"""The resource, object and subresource that a request path names."""

from msgspec import Struct

from simulator.api_server.served_resources import ResourceCatalogue, ServedResource
from simulator.object_store import Key


class Address(Struct, frozen=True):
    """A path split into its parts, served or not. `verb` is RBAC's verb."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    part: str
    verb: str


class Target(Struct, frozen=True):
    """The served resource and object of a request."""

    served: ServedResource
    namespace: str
    name: str
    part: str

    @property
    def key(self) -> Key:
        """The key of the object in the store."""
        namespace = self.namespace if self.served.kind.is_namespaced else ""
        return self.served.resource, namespace, self.name


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def address_of(method: str, path: str, *, is_watch: bool) -> Address | None:
    """Return the address of a path; None if it names no resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if rest[0] == "watch" and len(rest) > 1:
        rest, is_watch = rest[1:], True
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    plural, name, part = (*rest, "", "")[:3]
    return Address(group, version, plural, namespace, name, part, _verb(method, name, is_watch))


def _verb(method: str, name: str, is_watch: bool) -> str:
    if method in _VERBS:
        return _VERBS[method]
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    if name and not is_watch:
        return "get"
    return "watch" if is_watch else "list"


def target_of(address: Address, catalogue: ResourceCatalogue) -> Target | None:
    """Return what is served at an address, or None."""
    served = catalogue.find(address.group, address.version, address.plural)
    if served is None or (address.namespace and not served.kind.is_namespaced):
        return None
    if address.part and address.part not in served.parts:
        return None
    if served.kind.is_namespaced and address.name and not address.namespace:
        return None
    return Target(served, address.namespace, address.name, address.part)
