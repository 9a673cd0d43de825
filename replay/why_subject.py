"""The subject of a `why`: a pod, a pod group, a node or a queue, named in one of several ways."""

from typing import Final

from events.errors import UsageError
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUE

_KINDS: Final = {
    alias: one.name for one in (PODS, POD_GROUPS, NODES, QUEUE.resource) for alias in one.aliases
}


def candidates(text: str) -> list[tuple[str, str]]:
    """Return what a name may mean, as kind and key, likeliest first. Raises UsageError.

    `namespace/name` is a pod or a pod group; a bare `name` is one in namespace default, or a node or queue;
    `Pod/namespace/name`, `PodGroup/...`, `Node/name`, `Queue/name` name the kind.
    """
    parts = text.strip().split("/")
    kind = _KINDS.get(parts[0].lower(), "") if len(parts) > 1 else ""
    # A namespace may be called `node`, but not `Node` or `HyperNode`.
    is_kind = len(parts) == 3 or (len(parts) == 2 and parts[0][:1].isupper())
    if not all((*parts[:1], parts[-1])) or len(parts) > 3 or (is_kind and not kind):
        raise UsageError(
            f"{text!r} names nothing: give namespace/name of a pod or pod group,"
            " Pod/namespace/name, PodGroup/namespace/name, Node/name or Queue/name"
        )
    if len(parts) == 1:
        name = parts[0]
        spaced = f"default/{name}"
        return [("Pod", spaced), ("PodGroup", spaced), ("Node", name), ("Queue", name)]
    if not kind:
        return _spaced("/".join(parts))
    key = parts[-1]
    if kind in ("Pod", "PodGroup"):
        key = f"{(parts[1] if len(parts) == 3 else '') or 'default'}/{key}"
    meant = [(kind, key)]
    return meant if is_kind else [*_spaced(text.strip()), *meant]


def _spaced(key: str) -> list[tuple[str, str]]:
    return [("Pod", key), ("PodGroup", key)]


def why_command(subject: str, position: int) -> str:
    """Return the command that explains a subject (`PodGroup/default/a`, `Node/n1`) at a position; empty without one."""
    return f"muster why {subject} --at {position}" if subject else ""
