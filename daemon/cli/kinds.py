"""The kinds of objects that a log can hold, by their names in kubectl."""

from typing import Final

from daemon.cluster.client.calls import (
    CONFIG_MAPS,
    VOLCANO_JOB,
    WATCHED,
    Resource,
)
from events.errors import UsageError

_SHORT_NAMES: Final = {
    "Node": ("no",),
    "Pod": ("po",),
    "PriorityClass": ("pc",),
    "Namespace": ("ns",),
    "ConfigMap": ("cm",),
    "PodDisruptionBudget": ("pdb",),
    "Queue": ("q",),
    "HyperNode": ("hn",),
    "PodGroup": ("pg",),
    "Deployment": ("deploy",),
    "ReplicaSet": ("rs",),
    "StatefulSet": ("sts",),
    "DaemonSet": ("ds",),
    VOLCANO_JOB.name: ("vcjob", "vj"),
}
"""The names of Kubernetes, of the definitions under deploy/, and of Volcano's Job."""

_RESOURCES: Final = (*WATCHED, CONFIG_MAPS)


def kinds_named(text: str) -> list[str]:
    """The kinds that a name means, as records call them. Raises UsageError where there is none.

    A name is a kind, a plural or a short name, in any case, and may be followed by `.GROUP` or
    `.VERSION.GROUP`. Without a group, `job` and `jobs` mean the Jobs of both groups: a kind that is to be
    left out is better left out twice.
    """
    name, _, qualifier = text.strip().lower().partition(".")
    found = [
        one.name
        for one in _RESOURCES
        if name in _names(one) and qualifier in ("", one.group, f"{one.version}.{one.group}")
    ]
    if not found:
        known = ", ".join(dict.fromkeys(_shown(one) for one in _RESOURCES))
        raise UsageError(
            f"--redact {text}: no log holds objects of such a kind; it may hold {known}"
        )
    return found


def _names(resource: Resource) -> tuple[str, ...]:
    return (resource.kind.lower(), resource.plural, *_SHORT_NAMES.get(resource.name, ()))


def _shown(resource: Resource) -> str:
    name = f"{resource.plural}.{resource.group}" if resource.plural == "jobs" else resource.plural
    short = "".join(f" ({one})" for one in _SHORT_NAMES.get(resource.name, ())[:1])
    return f"{name}{short}"
