"""Every version of every object that a client may still read, each encoded once.

A version links to the one before it, so a list at an older revision is made by going back. Changes older
than the window are dropped: a client that needs them is answered 410 and has to list again.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import msgspec

from simulator.manifest import Manifest
from simulator.manifest_fields import section, text_at
from simulator.object_store import Change, Key, Store

WINDOW: Final = 10_000
"""The least number of changes of one resource that are kept."""

Completion: TypeAlias = Callable[[Manifest, Manifest | None], Manifest]

_ENCODER: Final = msgspec.json.Encoder()


class Version:
    """One object from a revision on; or its deletion, with the last state."""

    __slots__ = ("_body", "before", "is_gone", "key", "manifest", "revision")

    def __init__(
        self, key: Key, manifest: Manifest, *, is_gone: bool, before: "Version | None"
    ) -> None:
        self.key = key
        self.manifest = manifest
        self.is_gone = is_gone
        self.before = before
        self.revision = int(text_at(section(manifest, "metadata"), "resourceVersion") or 0)
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The object without kind and apiVersion, as in the items of a list (rule K1.4)."""
        if self._body is None:
            rest = {
                key: value
                for key, value in self.manifest.items()
                if key not in ("kind", "apiVersion")
            }
            self._body = _ENCODER.encode(rest)
        return self._body

    @property
    def raw(self) -> bytes:
        """The encoded object."""
        kind, api_version = self.manifest["kind"], self.manifest["apiVersion"]
        head = f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()
        return head + self.body[1:]


class VersionStore:
    """The versions of a store's objects, by resource."""

    def __init__(
        self, store: Store, window: int = WINDOW, complete: Completion | None = None
    ) -> None:
        """`complete` adds to a manifest what the store leaves out, from the manifest and its last version."""
        self._store = store
        self._complete = complete or _as_stored
        self._window = window
        self._current: dict[str, dict[Key, Version]] = defaultdict(dict)
        self._changes: dict[str, list[Version]] = defaultdict(list)
        self._sorted: dict[str, list[Key]] = {}
        self._forgotten: dict[str, int] = defaultdict(int)
        self._listeners: list[Callable[[str], None]] = []
        self.list_floor = store.revision
        """The oldest revision that can be listed."""
        self._watch_floor = 0
        self._begun = 0
        self.begin_again()
        store.listen(self._note)

    def begin_again(self) -> None:
        """Begin with what the store holds, without any history."""
        for kept in (self._current, self._changes, self._sorted, self._forgotten):
            kept.clear()
        for resource, objects in self._store.objects().items():
            for key, manifest in objects.items():
                whole = self._complete(manifest, None)
                version = Version(key, whole, is_gone=False, before=None)
                self._current[resource][key] = version
        self.list_floor = self._begun = self._watch_floor = self._store.revision

    @property
    def revision(self) -> int:
        """The latest revision."""
        return self._store.revision

    def watch_floor(self, resource: str) -> int:
        """The oldest revision from which a watch can start."""
        return max(self._watch_floor, self._forgotten[resource], self._begun)

    def listen(self, note: Callable[[str], None]) -> None:
        """Call `note` with the resource after each change."""
        self._listeners.append(note)

    def find(self, key: Key) -> Version | None:
        """Return the current version of an object."""
        return self._current[key[0]].get(key)

    def sorted_keys(self, resource: str) -> list[Key]:
        """The keys of the current objects, in the order of lists."""
        if (known := self._sorted.get(resource)) is None:
            known = self._sorted[resource] = sorted(self._current[resource], key=place_of)
        return known

    def there(self, resource: str) -> Collection[Version]:
        """The current objects, unordered."""
        return self._current[resource].values()

    def now(self, resource: str) -> list[Version]:
        """The current objects, in order."""
        current = self._current[resource]
        return [current[key] for key in self.sorted_keys(resource)]

    def at(self, resource: str, revision: int) -> list[Version]:
        """The objects at a revision that is not below the floor, in order."""
        changes = self.since(resource, revision)
        if not changes:
            return self.now(resource)
        there = dict(self._current[resource])
        for version in reversed(changes):
            if version.before is None or version.before.is_gone:
                there.pop(version.key, None)
            else:
                there[version.key] = version.before
        return [there[key] for key in sorted(there, key=place_of)]

    def since(self, resource: str, revision: int) -> list[Version]:
        """The changes after a revision, in order."""
        changes = self._changes[resource]
        return changes[bisect_right(changes, revision, key=_revision_of) :]

    def missed(self, resource: str, revision: int) -> bool:
        """Return True if changes after a revision were dropped."""
        return self._forgotten[resource] > revision

    def compact(self, revision: int | None = None) -> None:
        """Drop everything before a revision (None: the latest), for lists and watches."""
        self.list_floor = max(self.list_floor, self.revision if revision is None else revision)
        self._watch_floor = max(self._watch_floor, self.list_floor)
        for resource, changes in self._changes.items():
            self._drop(resource, bisect_right(changes, self._watch_floor, key=_revision_of))

    def age(self, revision: int) -> None:
        """Refuse lists of revisions before this one; watches are still possible."""
        self.list_floor = max(self.list_floor, revision)

    def _note(self, change: Change) -> None:
        if change.is_restored:
            return
        resource = change.key[0]
        current = self._current[resource]
        manifest = change.after or change.before
        assert manifest is not None
        before = current.get(change.key)
        is_gone = change.after is None
        whole = self._complete(manifest, None if before is None else before.manifest)
        version = Version(change.key, whole, is_gone=is_gone, before=before)
        if is_gone:
            current.pop(change.key, None)
        else:
            current[change.key] = version
        if is_gone or before is None:
            self._sorted.pop(resource, None)
        changes = self._changes[resource]
        changes.append(version)
        if len(changes) > 2 * self._window:
            self._drop(resource, self._window)
            self.list_floor = max(self.list_floor, self._forgotten[resource])
        for note in self._listeners:
            note(resource)

    def _drop(self, resource: str, count: int) -> None:
        changes = self._changes[resource]
        for version in changes[:count]:
            version.before = None
        if count:
            self._forgotten[resource] = changes[count - 1].revision
            del changes[:count]


def place_of(key: Key) -> str:
    """The sort key of an object in a list: as in etcd."""
    return f"{key[1]}/{key[2]}" if key[1] else key[2]


def _as_stored(manifest: Manifest, _before: Manifest | None) -> Manifest:
    return manifest


def _revision_of(version: Version) -> int:
    return version.revision
