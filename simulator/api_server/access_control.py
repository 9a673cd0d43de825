"""Authentication and authorization: bearer tokens that expire, RBAC rules, and verbs that tests withdraw."""

from collections.abc import Mapping

from msgspec import Struct

from events.normalize import Json, JsonObject
from simulator.api_server.http_message import Request, Response, StatusError, json_response
from simulator.api_server.request_target import Address
from simulator.manifest_fields import section, text_at

ANYONE = "system:anonymous"


class Rule(Struct, frozen=True):
    """What a rule allows; `*` stands for everything. Resources are named as `pods` or `pods/binding`."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    namespace: str = ""
    """The only namespace in which the rule applies; empty for all."""
    names: tuple[str, ...] = ()
    """The only object names to which the rule applies; empty for all."""

    def allows(self, address: Address) -> bool:
        """Return True if the rule covers a request."""
        resource = address.plural + (f"/{address.part}" if address.part else "")
        return (
            _covers(self.verbs, address.verb)
            and _covers(self.groups, address.group)
            and _covers(self.resources, resource)
            and self.namespace in ("", address.namespace)
            and (not self.names or address.name in self.names)
        )


class User(Struct, frozen=True):
    """The user that a token authenticates."""

    name: str
    rules: tuple[Rule, ...] | None = None
    """None: everything is allowed."""
    expires_ns: int | None = None
    """When the token is no longer good; None: never."""


class AccessControl:
    """The tokens and rules of a server. Without tokens every request is allowed."""

    def __init__(self) -> None:
        self.tokens: dict[str, User] = {}
        self.denied: set[tuple[str, str]] = set()
        """Verbs withdrawn from every user: (`create`, `pods/binding`)."""

    def authenticate(self, request: Request, now_ns: int) -> User:
        """Return the user of a request. Raises StatusError (401) for an unknown or expired token."""
        if not self.tokens:
            return User("admin")
        if not request.token:
            return User(ANYONE, ())
        user = self.tokens.get(request.token)
        if user is None or (user.expires_ns is not None and now_ns >= user.expires_ns):
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return user

    def allows(self, user: User, address: Address) -> bool:
        """Return True if a user may make a request."""
        resource = address.plural + (f"/{address.part}" if address.part else "")
        if (address.verb, resource) in self.denied:
            return False
        if address.plural == "selfsubjectaccessreviews" and user.name != ANYONE:
            return True
        return user.rules is None or any(rule.allows(address) for rule in user.rules)

    def check(self, user: User, address: Address) -> None:
        """Raise StatusError (403), which names the missing verb, if a user may not make a request."""
        if self.allows(user, address):
            return
        resource = address.plural + (f"/{address.part}" if address.part else "")
        qualified = f"{address.plural}.{address.group}" if address.group else address.plural
        subject = f'{qualified} "{address.name}"' if address.name else qualified
        scope = f'in the namespace "{address.namespace}"' if address.namespace else ""
        details: JsonObject = {"name": address.name} if address.name else {}
        if address.group:
            details["group"] = address.group
        details["kind"] = address.plural
        raise StatusError(
            403,
            "Forbidden",
            f'{subject} is forbidden: User "{user.name}" cannot {address.verb} resource '
            f'"{resource}" in API group "{address.group}" {scope or "at the cluster scope"}',
            details,
        )

    def review(self, user: User, document: JsonObject, kind: str, now_ns: int) -> Response:
        """Answer a review: whether the requesting or the named user may do something, or whose a token is."""
        spec = section(document, "spec")
        if kind == "TokenReview":
            version, status = "authentication.k8s.io/v1", self._token_status(spec, now_ns)
        else:
            version, status = "authorization.k8s.io/v1", self._access_status(user, spec, kind)
        return json_response(
            {
                "kind": kind,
                "apiVersion": version,
                "metadata": {},
                "spec": dict(spec),
                "status": status,
            },
            201,
        )

    def _token_status(self, spec: Mapping[str, Json], now_ns: int) -> dict[str, Json]:
        token = text_at(spec, "token")
        user = self.tokens.get(token) if self.tokens else User("admin")
        if user is None or (user.expires_ns is not None and now_ns >= user.expires_ns):
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": {"username": user.name, "groups": []}}

    def _access_status(self, user: User, spec: Mapping[str, Json], kind: str) -> dict[str, Json]:
        asked = section(spec, "resourceAttributes")
        address = Address(
            group=text_at(asked, "group"),
            version=text_at(asked, "version"),
            plural=text_at(asked, "resource"),
            namespace=text_at(asked, "namespace"),
            name=text_at(asked, "name"),
            part=text_at(asked, "subresource"),
            verb=text_at(asked, "verb"),
        )
        if kind == "SubjectAccessReview":
            named = text_at(spec, "user")
            known = (one for one in self.tokens.values() if one.name == named)
            user = next(known, User(named, () if self.tokens else None))
        return {"allowed": self.allows(user, address)}


def _covers(known: tuple[str, ...], asked: str) -> bool:
    return "*" in known or asked in known
