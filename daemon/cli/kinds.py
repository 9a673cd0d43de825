"""The kinds of objects that a log can hold, by their names in kubectl."""

from typing import Final

from events.errors import UsageError
from features.table import KINDS
from projections.api_resource import Resource

_RESOURCES: Final = tuple(
    one.resource for one in sorted(KINDS.values(), key=lambda one: not one.is_watched)
)
"""Those that are watched come first."""


def kinds_named(text: str, option: str = "--redact") -> list[str]:
    """The kinds that a name means, as records call them. Raises UsageError where there is none.

    A name is a kind, a plural or a short name, in any case, and may be followed by `.GROUP` or
    `.VERSION.GROUP`. Without a group, `job` and `jobs` mean the Jobs of both groups: a kind that is to be
    left out is better left out twice.
    """
    name, _, qualifier = text.strip().lower().partition(".")
    found = [
        one.name
        for one in _RESOURCES
        if name in one.aliases and qualifier in ("", one.group, f"{one.version}.{one.group}")
    ]
    if not found:
        known = ", ".join(dict.fromkeys(_shown(one) for one in _RESOURCES))
        raise UsageError(
            f"{option} {text}: no log holds objects of such a kind; it may hold {known}"
        )
    return found


def _shown(resource: Resource) -> str:
    short = "".join(f" ({one})" for one in resource.short_names[:1])
    return f"{resource.qualified}{short}"
