"""Server-side apply: field ownership, and conflicts between field managers (K13).

A field is known by its path, an item of a merged list by its key; any other list is one field. Ownership
is kept beside the objects and not as `managedFields`, which clients of muster do not read.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from events.normalize import Json, JsonObject
from simulator.api_server.http_message import Request, StatusError
from simulator.api_server.patch import MERGE_KEYS
from simulator.manifest import Manifest
from simulator.manifest_fields import section, uid_of

Path: TypeAlias = tuple[str, ...]
_SYSTEM: Final = ("apiVersion", "kind")
_IDENTITY: Final = (
    *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"),
    *("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"),
)


def manager_of(request: Request) -> str:
    """Return the field manager of a request: the parameter, else the client's name."""
    return request.query.get("fieldManager") or request.user_agent.partition("/")[0] or "unknown"


class FieldOwners:
    """The owners of fields, by the uid of the object."""

    def __init__(self) -> None:
        self._applied: dict[str, dict[str, set[Path]]] = {}
        """uid -> manager -> paths it applied."""
        self._written: dict[str, dict[Path, str]] = {}
        """uid -> path -> the manager that last wrote it without apply."""

    def apply(
        self,
        found: Manifest | None,
        document: JsonObject,
        manager: str,
        *,
        is_forced: bool,
    ) -> Manifest:
        """Return the object with the document applied. Raises StatusError (409) for fields of other managers."""
        if found is None:
            return dict(document)
        uid = uid_of(found)
        wanted = dict(_leaves(document, ()))
        there = dict(_leaves(found, ()))
        if not is_forced:
            self._check(uid, manager, wanted, there)
        result = _joined(found, document, ())
        assert isinstance(result, dict)
        before = self._applied.get(uid, {}).get(manager, set())
        others = {
            path
            for other, paths in self._applied.get(uid, {}).items()
            if other != manager
            for path in paths
        }
        for path in sorted(before - set(wanted) - others):
            _remove(result, path)
        return result

    def note_applied(
        self, before: Manifest | None, written: Manifest, document: JsonObject, manager: str
    ) -> None:
        """Record an apply: the applying manager takes over the fields that it changed."""
        uid = uid_of(written)
        wanted = dict(_leaves(document, ()))
        there = {} if before is None else dict(_leaves(before, ()))
        taken = {path for path, value in wanted.items() if there.get(path) != value}
        by_manager = self._applied.setdefault(uid, {})
        for paths in by_manager.values():
            paths -= taken
        by_manager[manager] = set(wanted)
        writers = self._written.get(uid, {})
        for path in taken:
            writers.pop(path, None)

    def note_written(self, before: Manifest, after: Manifest, manager: str) -> None:
        """Record a change that was no apply: the writer owns the changed fields."""
        uid = uid_of(after)
        if uid not in self._applied:
            return
        old, new = dict(_leaves(before, ())), dict(_leaves(after, ()))
        written = self._written.setdefault(uid, {})
        for path, value in new.items():
            if path not in old or old[path] != value:
                written[path] = manager
                for other, paths in self._applied[uid].items():
                    if other != manager:
                        paths.discard(path)

    def _check(
        self, uid: str, manager: str, wanted: dict[Path, Json], there: dict[Path, Json]
    ) -> None:
        conflicts: list[tuple[str, str]] = []
        for path, value in wanted.items():
            if path in there and there[path] == value:
                continue
            others = (owner for owner in self._owners_of(uid, path) if owner != manager)
            conflicts += [(owner, "." + ".".join(path)) for owner in others]
        if conflicts:
            raise _conflicting(sorted(conflicts))

    def _owners_of(self, uid: str, path: Path) -> list[str]:
        owners = [manager for manager, paths in self._applied.get(uid, {}).items() if path in paths]
        if (writer := self._written.get(uid, {}).get(path)) is not None:
            owners.append(writer)
        return owners


def _conflicting(conflicts: list[tuple[str, str]]) -> StatusError:
    count = len(conflicts)
    if count == 1:
        detail = f'conflict with "{conflicts[0][0]}": {conflicts[0][1]}'
    else:
        lines = [f'conflicts with "{owner}":\n- {path}' for owner, path in conflicts]
        detail = "\n".join(lines)
    causes: list[Json] = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{owner}"', "field": path}
        for owner, path in conflicts
    ]
    plural = "" if count == 1 else "s"
    text = f"Apply failed with {count} conflict{plural}: {detail}"
    return StatusError(409, "Conflict", text, {"causes": causes})


def _leaves(value: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    """The fields of an object with their paths, without those that identify it."""
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            if (not path and key in _SYSTEM) or (path == ("metadata",) and key in _IDENTITY):
                continue
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and (by := MERGE_KEYS.get(path[-1] if path else "")):
        for item in value:
            if isinstance(item, dict):
                yield from _leaves(item, (*path, f"[{item.get(by)}]"))
    else:
        yield path, value


def _joined(there: Json, value: Json, path: Path) -> Json:
    if isinstance(value, dict) and isinstance(there, dict):
        result: JsonObject = dict(there)
        for key, inner in value.items():
            if path == ("metadata",) and key in _IDENTITY and key != "resourceVersion":
                continue
            result[key] = _joined(there.get(key), inner, (*path, key))
        return result
    by = MERGE_KEYS.get(path[-1]) if path else None
    if by and isinstance(value, list) and isinstance(there, list):
        return _joined_list(by, there, value, path)
    return value


def _joined_list(by: str, there: list[Json], value: list[Json], path: Path) -> list[Json]:
    changes = {str(one.get(by)): one for one in value if isinstance(one, dict)}
    kept: list[Json] = []
    for item in there:
        change = changes.pop(str(item.get(by)), None) if isinstance(item, dict) else None
        kept.append(item if change is None else _joined(item, change, (*path, "[]")))
    return [*kept, *changes.values()]


def _remove(result: JsonObject, path: Path) -> None:
    """Remove a field that its manager no longer applies and that has no other owner."""
    holder: Json = result
    for part in path[:-1]:
        if not isinstance(holder, dict) or not isinstance(holder.get(part), dict):
            return  # An item of a list stays as long as the list does.
        copy = dict(section(holder, part))
        holder[part] = copy
        holder = copy
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
