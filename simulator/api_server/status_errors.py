"""The `Status` responses of an API server, worded as by kube-apiserver 1.34 (compared with it)."""

from events.normalize import Json, JsonObject
from simulator.api_server.http_message import StatusError
from simulator.api_server.served_resources import ServedResource


class FieldError:
    """An error of one field."""

    def __init__(self, field: str, kind: str, message: str) -> None:
        self.field = field
        self.kind = kind
        """`Invalid`, `Required`, `Forbidden`, `NotSupported`"""
        self.message = message

    @property
    def cause(self) -> JsonObject:
        """Return an entry of `details.causes`."""
        return {
            "reason": f"FieldValue{self.kind}",
            "message": self.message,
            "field": self.field,
        }


def invalid_field(field: str, value: Json, why: str) -> FieldError:
    """An invalid value."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return FieldError(field, "Invalid", f"Invalid value: {shown}: {why}")


def required_field(field: str, why: str = "") -> FieldError:
    """A missing value."""
    return FieldError(field, "Required", f"Required value: {why}" if why else "Required value")


def details_of(served: ServedResource, name: str, kind: str = "") -> JsonObject:
    """`Status.details` of one object."""
    details: JsonObject = {"name": name} if name else {}
    if served.kind.group:
        details["group"] = served.kind.group
    details["kind"] = kind or served.plural
    return details


def invalid(served: ServedResource, name: str, faults: list[FieldError]) -> StatusError:
    """422: invalid fields."""
    messages = [f"{fault.field}: {fault.message}" for fault in faults]
    message = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    # kube-apiserver names Events by the core group in these errors.
    has_group = served.kind.group and served.kind.kind != "Event"
    group = f".{served.kind.group}" if has_group else ""
    details = details_of(served, name, served.kind.kind)
    if not has_group:
        details.pop("group", None)
    details["causes"] = [fault.cause for fault in faults]
    text = f'{served.kind.kind}{group} "{name}" is invalid: {message}'
    return StatusError(422, "Invalid", text, details)


def invalid_options(what: str, faults: list[FieldError]) -> StatusError:
    """422: invalid query parameters."""
    messages = [f"{fault.field}: {fault.message}" for fault in faults]
    message = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return StatusError(
        422,
        "Invalid",
        f'{what}.meta.k8s.io "" is invalid: {message}',
        {"group": "meta.k8s.io", "kind": what, "causes": [fault.cause for fault in faults]},
    )


def not_found(served: ServedResource, name: str) -> StatusError:
    """404: no such object."""
    text = f'{served.qualified} "{name}" not found'
    return StatusError(404, "NotFound", text, details_of(served, name))


def no_such_resource() -> StatusError:
    """404: the group is served, the resource is not."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed() -> StatusError:
    """405: the method is not allowed."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, {})


def already_exists(served: ServedResource, name: str) -> StatusError:
    """409: the name is in use."""
    text = f'{served.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, details_of(served, name))


def conflict(served: ServedResource, name: str, why: str, *, kind: str = "") -> StatusError:
    """409: a precondition failed."""
    text = f'Operation cannot be fulfilled on {kind or served.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", text, details_of(served, name, kind))


def modified(served: ServedResource, name: str) -> StatusError:
    """409: the object has another revision than the one sent."""
    return conflict(
        served,
        name,
        "the object has been modified; please apply your changes to the latest version "
        "and try again",
    )


def forbidden(
    served: ServedResource, name: str, why: str, causes: list[Json] | None = None
) -> StatusError:
    """403: admission refuses."""
    details = details_of(served, name)
    if causes:
        details["causes"] = causes
    return StatusError(
        403, "Forbidden", f'{served.qualified} "{name}" is forbidden: {why}', details
    )


def bad_request(message: str) -> StatusError:
    """400"""
    return StatusError(400, "BadRequest", message)


def expired(message: str, *, continue_token: str = "") -> StatusError:
    """410: the revision is compacted."""
    return StatusError(410, "Expired", message, continue_token=continue_token)


def too_large(wanted: int, current: int) -> StatusError:
    """504: the revision is not reached yet."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        {
            "causes": [
                {
                    "reason": "ResourceVersionTooLarge",
                    "message": "Too large resource version",
                }
            ],
            "retryAfterSeconds": 1,
        },
    )
