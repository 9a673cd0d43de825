"""Labels and owners of pods, as the objects in a log show them."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from daemon.log.entry import Entry
from daemon.log.store import SqlLog
from projections.device_families import NO_FAMILIES
from projections.objects import Owner
from projections.pod_group_resolution import group_key_of
from projections.pod_reading import pod_reader
from projections.views.now import owner_subject

OWNERS_MAX: Final = 8
"""The most owners above one another that are followed: Pod, Job, CronJob are two."""


class _Metadata(Struct):
    name: str = ""
    namespace: str | None = None
    labels: dict[str, str] | None = None
    ownerReferences: list[Owner] | None = None  # noqa: N815


class _Object(Struct):
    metadata: _Metadata


class RecordedPod(Struct, frozen=True):
    """A pod as one record shows it."""

    labels: Mapping[str, str]
    owner: str
    """Subject of its controller, or of the pod itself if it has none."""
    pod_group: str
    """Key of its pod group; empty if the pod cannot be read."""


_DECODER: Final = msgspec.json.Decoder(_Object)


class EarlierObjects:
    """The objects that stand where a log begins, as the records there show them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._pods: dict[str, list[tuple[int, RecordedPod]]] = {}
        """Name of each pod to its observations, by position."""
        self.contents: dict[str, bytes] = {}
        """Subject to the newest content."""
        for entry in entries:
            subject, content = entry.record.subject, entry.content
            if content is None:
                continue
            self.contents[subject] = content
            kind, _, name = subject.partition("/")
            if kind == "Pod" and (pod := _recorded_pod(subject, content)) is not None:
                self._pods.setdefault(name, []).append((entry.record.position, pod))

    def pod(self, name: str, until: int) -> RecordedPod | None:
        """Return a pod as it was at a position, or as it was first seen behind that; None if it does not stand there."""
        observed = self._pods.get(name, ())
        before = [pod for position, pod in observed if position <= until]
        return before[-1] if before else next((pod for _, pod in observed), None)

    @property
    def first_pods(self) -> list[RecordedPod]:
        """Return each pod as it was first seen, in the order of positions."""
        first = sorted((one[0] for one in self._pods.values()), key=lambda one: one[0])
        return [pod for _, pod in first]


async def pods_at(log: SqlLog, positions: Iterable[int]) -> dict[int, RecordedPod]:
    """Return the pods that the records at some positions show, by position. What cannot be read is left out."""
    found: dict[int, RecordedPod] = {}
    async for entries in log.entries_at(sorted(set(positions))):
        for entry in entries:
            if entry.content is None:
                continue
            pod = _recorded_pod(entry.record.subject, entry.content)
            if pod is not None:
                found[entry.record.position] = pod
    return found


def _recorded_pod(subject: str, content: bytes) -> RecordedPod | None:
    metadata = _metadata(content)
    if metadata is None:
        return None
    facts = pod_reader(NO_FAMILIES).read_facts(content)
    return RecordedPod(
        labels=metadata.labels or {},
        owner=_owner(metadata) or subject,
        pod_group="" if isinstance(facts, str) else group_key_of(facts[0]),
    )


async def top_owners(log: SqlLog, owners: Iterable[str], earlier: EarlierObjects) -> dict[str, str]:
    """Return the owner at the top for each owner: a Deployment for its ReplicaSet.

    The chain ends where the log holds no object of an owner, or that object names no controller.
    """
    found = {one: one for one in owners}
    above: dict[str, str] = {}
    open_ = set(found)
    for _ in range(OWNERS_MAX):
        asked = sorted(open_ - above.keys())
        if not asked:
            break
        newest = await log.newest_objects(asked)
        async for entries in log.entries_at(sorted(newest.values())):
            for entry in entries:
                metadata = _metadata(entry.content)
                above[entry.record.subject] = "" if metadata is None else _owner(metadata)
        for one in asked:
            metadata = _metadata(earlier.contents.get(one))
            above.setdefault(one, "" if metadata is None else _owner(metadata))
        open_ = {above[one] for one in asked if above[one]}
    for one in found:
        for _ in range(OWNERS_MAX):
            if not above.get(found[one]):
                break
            found[one] = above[found[one]]
    return found


async def pods_of_groups(
    log: SqlLog, groups: set[str], earlier: EarlierObjects
) -> dict[str, RecordedPod]:
    """Return the first pod of each pod group, as far as the log shows one."""
    found: dict[str, RecordedPod] = {}
    if not groups:
        return found
    pods = await pods_at(log, await log.first_and_last_objects("Pod"))
    for pod in (*earlier.first_pods, *(pods[position] for position in sorted(pods))):
        if pod.pod_group in groups:
            found.setdefault(pod.pod_group, pod)
    return found


def _metadata(content: bytes | None) -> _Metadata | None:
    """Return the metadata of an object; None if it was left out of the log or cannot be read."""
    if content is None:
        return None
    try:
        return _DECODER.decode(content).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _owner(metadata: _Metadata) -> str:
    """Return the subject of the controller of an object; empty if it has none."""
    owners = (one for one in metadata.ownerReferences or () if one.controller and one.name)
    return owner_subject(metadata.namespace or "", next(owners, None))
