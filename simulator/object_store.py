"""What the API server of the simulated cluster holds, and what a watch on it shows.

Manifests are never changed in place: a change is a new manifest that shares what stayed. So the watch
can keep what it will show as it was, and encode it only when someone looks.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from events.sighting import Gone, Listed, Seen, Sighting
from projections.duration import SECOND
from simulator.defaulting import Defaulting
from simulator.manifest import KINDS, VOLCANO_JOB, Kind, Manifest
from simulator.manifest_fields import (
    changed,
    name_of,
    namespace_of,
    section,
    uid_of,
)

Key: TypeAlias = tuple[str, str, str]
"""Resource, namespace, name. The resource is the kind, with its group for the second kind of a name."""

UNWATCHED: Final = ("ConfigMap", "Command", "HorizontalPodAutoscaler")
"""Kinds that are held, but that no watch of muster's asks for."""

OPTIONAL: Final = ("HyperNode", "PodDisruptionBudget")
"""Kinds that are listed only where there are such objects, as where nobody has any."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODER: Final = msgspec.json.Encoder()


_RESOURCE_OF: Final = {
    kind: f"{kind.kind}.{kind.group}" if kind == VOLCANO_JOB else kind.kind for kind in KINDS
}


def resource_of(kind: Kind) -> str:
    """How the kind is called where two kinds share a name: `Job` and `Job.batch.volcano.sh`."""
    return _RESOURCE_OF.get(kind) or f"{kind.kind}.{kind.group}"


RESOURCES: Final = tuple(_RESOURCE_OF.values())
WATCHED: Final = tuple(resource for resource in RESOURCES if resource not in UNWATCHED)


class Change(Struct, frozen=True):
    """One object before and after one change; None where it was not there."""

    key: Key
    before: Manifest | None
    after: Manifest | None
    is_restored: bool = False
    """Whether it is as it was in a snapshot that was restored: no revision of its own tells of the change."""


class Snapshot(Struct, frozen=True):
    """All objects as they were at a revision."""

    revision: int
    objects: dict[str, dict[Key, Manifest]]


class Store:
    """The objects, by resource, namespace and name."""

    def __init__(self, origin_ns: int, era_ns: int = 0) -> None:
        """With an era, no uid and no revision is one of an earlier era's."""
        self.now_ns = 0
        self._origin_ns = origin_ns
        self._objects: dict[str, dict[Key, Manifest]] = defaultdict(dict)
        self._revision = era_ns // 1000
        part = era_ns % SECOND * 0x10000 // SECOND
        era = f"{era_ns // SECOND:08x}-{part:04x}-4000-8000-"
        self._mint = era + "{:012}" if era_ns else "uid-{:06}"
        self._uids = 0
        self._defaulting = Defaulting()
        self._changes: list[Change] = []
        self._shown: list[tuple[bool, Manifest]] | None = None
        self._listeners: list[Callable[[Change], None]] = []

    @property
    def revision(self) -> int:
        """Of the latest change; one count for all kinds."""
        return self._revision

    def objects(self) -> Mapping[str, Mapping[Key, Manifest]]:
        """All there is, by resource."""
        return self._objects

    def listen(self, note: Callable[[Change], None]) -> None:
        """Tell of every change from now on, when it is made."""
        self._listeners.append(note)

    def set_clock(self, later_ns: int) -> None:
        """The clock on the wall is set; time itself goes on as before."""
        self._origin_ns += later_ns

    def find(self, key: Key) -> Manifest | None:
        """The object with this key."""
        return self._objects[key[0]].get(key)

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """The object as it is from now on: a new one gets its uid and passes admission."""
        key = key_of(kind, manifest)
        before = self._objects[key[0]].get(key)
        if before is None:
            manifest = self._created(kind, manifest)
        self._revision += 1
        manifest = changed(manifest, "metadata", resourceVersion=str(self._revision))
        self._objects[key[0]][key] = manifest
        self._note(Change(key, before, manifest))
        return manifest

    def remove(self, key: Key) -> None:
        """The object is gone."""
        before = self._objects[key[0]].pop(key, None)
        if before is not None:
            self._revision += 1
            last = changed(before, "metadata", resourceVersion=str(self._revision))
            self._note(Change(key, last, None))

    def snapshot(self) -> Snapshot:
        """All there is, to be restored later."""
        return Snapshot(self._revision, {name: dict(one) for name, one in self._objects.items()})

    def restore(self, kept: Snapshot) -> None:
        """Go back to what there was, revision and all, as an etcd does that is restored."""
        before, after = (
            self._objects,
            defaultdict(dict, {k: dict(v) for k, v in kept.objects.items()}),
        )
        self._objects, self._revision = after, kept.revision
        for resource in sorted({*before, *after}):
            was, now = before[resource], after[resource]
            for key in sorted({*was, *now}):
                if was.get(key) is not now.get(key):
                    self._note(Change(key, was.get(key), now.get(key), is_restored=True))

    def drain(self) -> list[Change]:
        """What changed since the last call: for those who act upon it."""
        changes, self._changes = self._changes, []
        return changes

    def poll_watch(self) -> list[Sighting]:
        """What a watch has shown since the last call; at first, all there is, kind by kind."""
        if self._shown is None:
            self._shown = []
            return self._listed()
        shown, self._shown = self._shown, []
        return [
            Seen(_ENCODER.encode(manifest)) if is_there else Gone(_ENCODER.encode(manifest))
            for is_there, manifest in shown
        ]

    def relist(self) -> None:
        """The next `take` begins anew, as for a client that starts."""
        self._shown = None

    def timestamp(self, later_ns: int = 0) -> str:
        """Now (or later), as Kubernetes writes it: whole seconds, UTC."""
        at = _EPOCH + timedelta(seconds=(self._origin_ns + self.now_ns + later_ns) // SECOND)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _created(self, kind: Kind, manifest: Manifest) -> Manifest:
        metadata = dict(section(manifest, "metadata"))
        if not metadata.get("uid"):
            self._uids += 1
            metadata["uid"] = self._mint.format(self._uids)
        metadata.setdefault("creationTimestamp", self.timestamp())
        return self._defaulting.with_defaults(kind, {**manifest, "metadata": metadata})

    def _note(self, change: Change) -> None:
        self._defaulting.on_change(change.key[0], change.before, change.after)
        self._changes.append(change)
        for note in self._listeners:
            note(change)
        if self._shown is not None and change.key[0] not in UNWATCHED:
            manifest = change.after or change.before
            assert manifest is not None
            self._shown.append((change.after is not None, manifest))

    def _listed(self) -> list[Sighting]:
        sightings: list[Sighting] = []
        for resource in WATCHED:
            objects = self._objects[resource]
            if resource in OPTIONAL and not objects:
                continue  # As where nobody has one.
            sightings += [Seen(_ENCODER.encode(objects[key])) for key in sorted(objects)]
            sightings.append(Listed(resource, str(self._revision), len(objects)))
        return sightings


def key_of(kind: Kind, manifest: Manifest) -> Key:
    """The key of an object."""
    return resource_of(kind), namespace_of(manifest), name_of(manifest)


def has_uid(manifest: Manifest, uid: str) -> bool:
    """Whether a precondition on the uid holds; an empty uid asks for nothing."""
    return uid in ("", uid_of(manifest))
