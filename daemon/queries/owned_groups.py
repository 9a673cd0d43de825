"""The pod group that is meant by the name of its owner: a Job, a Deployment, or whatever owner references of pods name."""

from collections.abc import Iterator
from typing import Final

import msgspec

from daemon.log.contract import ReadableLog
from daemon.queries.history import History
from daemon.queries.moments import entries_at
from events.codec import event_of
from projections.api_resource import Resource
from projections.kinds.workload import WORKLOADS
from projections.objects import Metadata, Owner, PlainObject
from projections.pod_group_resolution import NAMED_BY_UID
from projections.state import State

DEPTH_MAX: Final = 4
"""Owners of owners that are followed: a pod of a ReplicaSet of a Deployment of something else."""


class OwnerName(msgspec.Struct, frozen=True):
    """A name that may be that of an owner; `kind` is empty if none was given."""

    kind: str
    namespace: str
    name: str


def owner_name(subject: str) -> OwnerName | None:
    """Return what `name`, `namespace/name` and `Kind/namespace/name` name; None for anything else."""
    parts = subject.strip().split("/")
    if len(parts) > 3 or not all(parts):
        return None
    *kind, namespace, name = ["default", *parts] if len(parts) == 1 else parts
    return OwnerName("".join(kind), namespace, name)


async def groups_of_owner(log: ReadableLog, owner: OwnerName, until: int) -> list[str]:
    """Return the pod groups of an owner at a position, by key; if there are none, the last one that it had."""
    state = await History(log).facts_at_position(until)
    uids = await _uids(log, owner, until)
    found = set(_groups_there(state, owner, uids))
    of_owner: dict[str, tuple[Owner, set[str]]] = {}
    for pod in state.cluster.pods.values():
        if pod.facts.owner is not None and pod.group_key.startswith(f"{owner.namespace}/"):
            direct = pod.facts.owner
            of_owner.setdefault(direct.uid, (direct, set()))[1].add(pod.group_key)
    for direct, keys in of_owner.values():
        if await _is_owned(log, direct, owner, until):
            found |= keys
    if found:
        return sorted(found)
    for uid in reversed(uids):
        for key in _keys_of(owner, uid):
            if await log.positions_of([f"PodGroup/{key}"], until):
                return [key]
    return []


def _groups_there(state: State, owner: OwnerName, uids: list[str]) -> Iterator[str]:
    """Yield the groups that are there and were made for an owner, with or without pods."""
    groups = state.cluster.groups
    for uid in uids:
        yield from (key for key in _keys_of(owner, uid) if key in groups)
    for group in groups.values():
        if group.observed.facts is not None and group.observed.facts.owner in uids:
            yield group.key


def _keys_of(owner: OwnerName, uid: str) -> tuple[str, str]:
    """Return the keys that Volcano's controllers give to the group of pods, and to that of a Job."""
    return (
        f"{owner.namespace}/{NAMED_BY_UID}{uid}",
        f"{owner.namespace}/{owner.name}-{uid}",
    )


async def _uids(log: ReadableLog, owner: OwnerName, until: int) -> list[str]:
    """Return the UIDs of all observed owners of a name, oldest first."""
    subjects = [
        f"{kind.resource.name}/{owner.namespace}/{owner.name}"
        for kind in WORKLOADS
        if not owner.kind or owner.kind.lower() in kind.resource.aliases
    ]
    entries = await entries_at(log, await log.positions_of(subjects, until))
    uids = (getattr(event_of(one.record), "uid", "") for one in entries)
    return list(dict.fromkeys(filter(None, uids)))


async def _is_owned(log: ReadableLog, direct: Owner, owner: OwnerName, until: int) -> bool:
    """Return whether an owner of pods is the one of a name, or belongs to it."""
    one: Owner | None = direct
    for _ in range(DEPTH_MAX):
        if one is None:
            return False
        if one.name == owner.name and _is_kind(one, owner.kind):
            return True
        one = await _owner_of(log, one, owner.namespace, until)
    return False


def _is_kind(one: Owner, kind: str) -> bool:
    if not kind or kind.lower() == one.kind.lower():
        return True
    known = _observed_kind(one)
    return known is not None and kind.lower() in known.aliases


async def _owner_of(log: ReadableLog, one: Owner, namespace: str, until: int) -> Owner | None:
    """Return the controller of an owner, as its last record has it."""
    known = _observed_kind(one)
    if known is None or not one.name:
        return None
    newest = await log.newest_objects([f"{known.name}/{namespace}/{one.name}"], until)
    content = next((entry.content for entry in await entries_at(log, [*newest.values()])), None)
    if content is None:
        return None
    try:
        metadata = msgspec.json.decode(content, type=PlainObject).metadata
    except msgspec.DecodeError:
        return None
    return _controller(metadata)


def _observed_kind(one: Owner) -> Resource | None:
    """Return the kind of an owner, if such owners are observed."""
    group = one.apiVersion.rpartition("/")[0]
    for kind in WORKLOADS:
        if (kind.resource.kind, kind.resource.group) == (one.kind, group):
            return kind.resource
    return None


def _controller(metadata: Metadata) -> Owner | None:
    return next((one for one in metadata.ownerReferences or () if one.controller), None)
