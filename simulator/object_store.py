"""The objects of the simulated API server, and the watch events that they give.

Manifests are never changed in place: a change is a new manifest that shares unchanged parts. So the store can
keep watch events as they were, and encode them only when they are read.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from events.duration import SECOND
from events.messages import DeletionSeen, ListCompleted, ObjectSeen, WatchMessage
from events.normalize_config_map import CONFIG_MAP, selection_of
from features.table import KINDS as OBSERVED
from features.table import SELECTIONS
from projections.volumes.facts import VOLUME_KINDS
from simulator.defaulting import Defaulting
from simulator.manifest import AUTOSCALER, COMMAND, EXPERIMENT, KINDS, Kind, Manifest
from simulator.manifest_fields import (
    changed,
    list_at,
    name_of,
    namespace_of,
    section,
    uid_of,
)

Key: TypeAlias = tuple[str, str, str]
"""Resource, namespace, name. The resource is the kind, with its group for the second kind of the same name."""

ALWAYS_LISTED: Final = (
    *("Node", "PriorityClass", "Namespace", "Queue", "PodGroup", "Pod"),
    *("Deployment", "ReplicaSet", "StatefulSet", "Job", "Job.batch.volcano.sh"),
)
"""Kinds that are listed even if no such object exists; any other one counts as not installed then, so that the records
of a scenario do not change with a kind that it does not name."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENCODER: Final = msgspec.json.Encoder()


_RESOURCE_OF: Final = {
    COMMAND: COMMAND.kind,
    AUTOSCALER: AUTOSCALER.kind,
    EXPERIMENT: EXPERIMENT.kind,
    **{
        Kind.of(one.resource): name
        for name, one in OBSERVED.items()
        if one.resource.selection is None
    },
}


def resource_of(kind: Kind) -> str:
    """The resource of a kind; where two kinds share a name, `Job` and `Job.batch.volcano.sh`."""
    return _RESOURCE_OF.get(kind) or f"{kind.kind}.{kind.group}"


RESOURCES: Final = tuple(resource_of(kind) for kind in KINDS)
WATCHED: Final = tuple(
    name
    for name, one in OBSERVED.items()
    if one.is_watched and (one.resource.selection is not None or name in RESOURCES)
)
"""Kinds that muster watches, in the order of the first lists; the others are only stored."""


def watched_name(key: "Key", manifest: Manifest) -> str:
    """Return the watched kind that shows an object; empty if none does."""
    resource, namespace, name = key
    found = selection_of(namespace, name, SELECTIONS) if resource == CONFIG_MAP else None
    kind = resource if found is None else found.kind
    if kind not in WATCHED:
        return ""
    selection = OBSERVED[kind].resource.selection
    if selection is None or not selection.label_selector:
        return kind
    label, _, value = selection.label_selector.partition("=")
    return kind if section(manifest, "metadata", "labels").get(label) == value else ""


class Change(Struct, frozen=True):
    """One object before and after a change; None if it did not exist."""

    key: Key
    before: Manifest | None
    after: Manifest | None
    is_restored: bool = False
    """Whether the object was restored from a snapshot: the change has no revision of its own."""


class Snapshot(Struct, frozen=True):
    """All objects at a revision."""

    revision: int
    objects: dict[str, dict[Key, Manifest]]


class Store:
    """The objects, by resource, namespace and name."""

    def __init__(self, origin_ns: int, era_ns: int = 0) -> None:
        """With an era, uids and revisions differ from those of any earlier era."""
        self.now_ns = 0
        self._origin_ns = origin_ns
        self._objects: dict[str, dict[Key, Manifest]] = defaultdict(dict)
        self._revision = era_ns // 1000
        part = era_ns % SECOND * 0x10000 // SECOND
        era = f"{era_ns // SECOND:08x}-{part:04x}-4000-8000-"
        self._lists_volumes = False
        """Whether the kinds are listed that are about volumes: a scenario without volumes has no records of them."""
        self._mint = era + "{:012}" if era_ns else "uid-{:06}"
        self._uids = 0
        self._defaulting = Defaulting()
        self._changes: list[Change] = []
        self._shown: list[tuple[bool, Manifest]] | None = None
        self._listeners: list[Callable[[Change], None]] = []

    @property
    def revision(self) -> int:
        """The revision of the latest change; one count for all kinds."""
        return self._revision

    def objects(self) -> Mapping[str, Mapping[Key, Manifest]]:
        """All objects, by resource."""
        return self._objects

    def listen(self, note: Callable[[Change], None]) -> None:
        """Call `note` for every change from now on."""
        self._listeners.append(note)

    def set_clock(self, later_ns: int) -> None:
        """Set the wall clock; virtual time is not changed."""
        self._origin_ns += later_ns

    def find(self, key: Key) -> Manifest | None:
        """Return the object with this key, or None."""
        return self._objects[key[0]].get(key)

    def begin_at(self, now_ns: int, revision: int, uid_prefix: str) -> None:
        """Begin an empty store at a time and a revision; UIDs of new objects begin with the prefix."""
        self.now_ns, self._revision = now_ns, revision
        self._mint = uid_prefix + "{:06}"

    def load(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Store an object of another API server as it is, without defaults, and return it as stored."""
        return self._stored(key_of(kind, manifest), manifest)

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Store an object and return it as stored; a new one gets its uid and defaults."""
        key = key_of(kind, manifest)
        if key not in self._objects[key[0]]:
            manifest = self._created(kind, manifest)
        return self._stored(key, manifest)

    def _stored(self, key: Key, manifest: Manifest) -> Manifest:
        before = self._objects[key[0]].get(key)
        self._revision += 1
        manifest = changed(manifest, "metadata", resourceVersion=str(self._revision))
        self._objects[key[0]][key] = manifest
        self._note(Change(key, before, manifest))
        return manifest

    def remove(self, key: Key) -> None:
        """Remove the object."""
        before = self._objects[key[0]].pop(key, None)
        if before is not None:
            self._revision += 1
            last = changed(before, "metadata", resourceVersion=str(self._revision))
            self._note(Change(key, last, None))

    def snapshot(self) -> Snapshot:
        """Return all objects, to be restored later."""
        return Snapshot(self._revision, {name: dict(one) for name, one in self._objects.items()})

    def restore(self, kept: Snapshot) -> None:
        """Restore a snapshot with its revision, like an etcd that is restored."""
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
        """Return the changes since the last call, for kubelets and controllers."""
        changes, self._changes = self._changes, []
        return changes

    def poll_watch(self) -> list[WatchMessage]:
        """Return the watch events since the last call; at first, all objects, kind by kind."""
        if self._shown is None:
            self._shown = []
            return self._listed()
        shown, self._shown = self._shown, []
        listed: list[WatchMessage] = []
        if not self._lists_volumes and any(_is_about_volumes(one) for _, one in shown):
            self._lists_volumes = True
            listed = [ListCompleted(one, str(self._revision), 0) for one in VOLUME_KINDS]
        return [
            *listed,
            *self._events(shown),
        ]

    def _events(self, shown: list[tuple[bool, Manifest]]) -> list[WatchMessage]:
        """Return the watch events of changes."""
        return [
            ObjectSeen(_ENCODER.encode(manifest))
            if is_there
            else DeletionSeen(_ENCODER.encode(manifest))
            for is_there, manifest in shown
        ]

    def relist(self) -> None:
        """The next `poll_watch` returns all objects, as for a client that starts."""
        self._shown = None

    def timestamp(self, later_ns: int = 0) -> str:
        """Now (or later), as in Kubernetes objects: whole seconds, UTC."""
        at = _EPOCH + timedelta(seconds=(self._origin_ns + self.now_ns + later_ns) // SECOND)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def unix_seconds(self) -> int:
        """Now, in seconds since the epoch."""
        return (self._origin_ns + self.now_ns) // SECOND

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
        manifest = change.after or change.before
        assert manifest is not None
        if self._shown is not None and watched_name(change.key, manifest):
            self._shown.append((change.after is not None, manifest))

    def _listed(self) -> list[WatchMessage]:
        messages: list[WatchMessage] = []
        kinds = (*VOLUME_KINDS, "Pod")
        self._lists_volumes = any(
            _is_about_volumes(one) for kind in kinds for one in self._objects[kind].values()
        )
        always = (*ALWAYS_LISTED, *(VOLUME_KINDS if self._lists_volumes else ()))
        for resource in WATCHED:
            stored = CONFIG_MAP if resource.startswith(f"{CONFIG_MAP}.") else resource
            objects = {
                key: one
                for key, one in self._objects[stored].items()
                if stored == resource or watched_name(key, one) == resource
            }
            if not objects and resource not in always:
                continue  # As on a cluster where the kind is not installed.
            messages += [ObjectSeen(_ENCODER.encode(objects[key])) for key in sorted(objects)]
            messages.append(ListCompleted(resource, str(self._revision), len(objects)))
        return messages


def _is_about_volumes(manifest: Manifest) -> bool:
    """Return True for a claim, volume, storage class or driver, and for a pod whose volumes name claims."""
    kind = manifest.get("kind")
    if kind != "Pod":
        return kind in VOLUME_KINDS
    volumes = list_at(section(manifest, "spec"), "volumes")
    return any(
        isinstance(one, dict) and ("persistentVolumeClaim" in one or "ephemeral" in one)
        for one in volumes
    )


def key_of(kind: Kind, manifest: Manifest) -> Key:
    """Return the key of an object."""
    return resource_of(kind), namespace_of(manifest), name_of(manifest)


def has_uid(manifest: Manifest, uid: str) -> bool:
    """Return True if a precondition on the uid holds; an empty uid is no precondition."""
    return uid in ("", uid_of(manifest))
