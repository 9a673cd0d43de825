"""Who changed an object, and when: from `metadata.managedFields`, of which no other part enters the log.

The API server keeps an entry for each field manager (the program that wrote, such as `kubectl-edit`), with the time of its last change.
The newest entry is that of the change which brought the object into the form that is observed.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from events.limits import storable

MANAGER_CHARS_MAX: Final = 128
"""Characters of a manager, as the API server allows them; a longer one is cut."""

ENTRIES_MAX: Final = 1_000
"""Entries that are read."""

_OPERATIONS: Final = ("Apply", "Update")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,18}(Z|[+-][0-9]{2}:[0-9]{2})")


class FieldChange(Struct, frozen=True, array_like=True, gc=False):
    """The newest change of an object, as its API server tells it."""

    manager: str
    operation: str
    """`Update` or `Apply`."""
    time: str
    """RFC 3339, whole seconds."""
    subresource: str = ""
    """`status`, `scale`, or empty for the object itself."""

    @property
    def text(self) -> str:
        """Return it for people: `kubectl-edit (Update)`, `kubelet (Update of status)`."""
        of = f" of {self.subresource}" if self.subresource else ""
        return f"{self.manager} ({self.operation}{of})"


class _Entry(Struct):
    manager: str = ""
    operation: str = ""
    time: str | None = None
    subresource: str = ""


_ENTRIES: Final = msgspec.json.Decoder(list[_Entry])


def newest_change(entries: object) -> FieldChange | None:
    """Return the newest entry of decoded managed fields; None if there is none that can be read."""
    try:
        return _newest(msgspec.convert(entries, list[_Entry]))
    except (msgspec.ValidationError, RecursionError):
        return None


def newest_change_of(raw: bytes) -> FieldChange | None:
    """Return the newest entry of managed fields as JSON, of which nothing else is decoded."""
    try:
        return _newest(_ENTRIES.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _newest(entries: list[_Entry]) -> FieldChange | None:
    """Return the newest entry; of those of one second one of the object itself before one of its status, then the last."""
    found: _Entry | None = None
    for one in entries[:ENTRIES_MAX]:
        if one.operation not in _OPERATIONS or not one.time or not _TIME.fullmatch(one.time):
            continue
        if found is None or _order(one) >= _order(found):
            found = one
    if found is None:
        return None
    return FieldChange(
        storable(found.manager[:MANAGER_CHARS_MAX]),
        found.operation,
        found.time or "",
        storable(found.subresource[:MANAGER_CHARS_MAX]),
    )


def _order(entry: _Entry) -> tuple[str, bool]:
    return entry.time or "", not entry.subresource
