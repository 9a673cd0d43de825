"""The condition that a reduced scenario must still show, as `muster reduce --keep` names it.

    divergence [KEY=VALUE ...]    a decision differs from the record; the keys choose which one
    decision KEY=VALUE ...        a decision with these fields is made
    pending KEY=VALUE ...         a pod group waits at the end, with these fields
    error [KEY=VALUE ...]         deciding raises an exception: a bug of muster

Values are compared whole, except that of `message`, which is a part of the text. A value with spaces is quoted as in
a shell. Pods and pod groups are `NAMESPACE/NAME`; without a namespace they are in `default`.
"""

import shlex
from typing import Final

from msgspec import Struct

from events.decision import INTERNAL_ERROR, Decision, DecisionItem
from events.errors import UsageError
from events.union import EVENTS

DIVERGENCE: Final = "divergence"
DECISION: Final = "decision"
PENDING: Final = "pending"
ERROR: Final = "error"

_ITEM_KEYS: Final = (
    *("kind", "pod", "pod_group", "queue", "node", "code", "in_favour_of", "message"),
)
_KEYS: Final = {
    DIVERGENCE: _ITEM_KEYS,
    DECISION: _ITEM_KEYS,
    PENDING: ("pod_group", "queue", "code", "message"),
    ERROR: ("pod_group", "queue", "message"),
}
_NAMESPACED: Final = ("pod", "pod_group", "in_favour_of")

DECISION_WORDS: Final = tuple(
    sorted({one.word for one in EVENTS if issubclass(one, Decision) and one.is_in_document})
)
"""The kinds of decisions that can be named, as in the document of `simulate`."""


class Condition(Struct, frozen=True):
    """A parsed condition."""

    kind: str
    """`divergence`, `decision`, `pending` or `error`."""
    fields: dict[str, str]
    text: str
    """As it was given."""

    def matches(self, word: str, item: DecisionItem) -> bool:
        """Return True if an entry of a decision has the fields of this condition."""
        if self.kind == ERROR and item.code != INTERNAL_ERROR:
            return False
        if self.kind == DECISION and word not in DECISION_WORDS:
            return False
        return matches(self.fields, word, item)


def parse_condition(text: str) -> Condition:
    """Parse a condition. Raise UsageError that names the word or key that is wrong."""
    try:
        first, *rest = shlex.split(text) or [""]
    except ValueError as error:
        raise _refused(text, f"{error}: quote a value with spaces as in a shell") from None
    if first not in _KEYS:
        raise _refused(text, f"{first!r} is not known; known are {', '.join(_KEYS)}")
    fields: dict[str, str] = {}
    for word in rest:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise _refused(text, f"{word!r} is not KEY=VALUE")
        if key not in _KEYS[first]:
            known = ", ".join(_KEYS[first])
            raise _refused(text, f"{first} has no key {key!r}; known are {known}")
        if key in fields:
            raise _refused(text, f"{key} is given twice")
        is_bare = key in _NAMESPACED and "/" not in value
        fields[key] = f"default/{value}" if is_bare else value
    if first in (DECISION, PENDING) and not fields:
        raise _refused(text, f"{first} needs at least one KEY=VALUE")
    if "kind" in fields and fields["kind"] not in DECISION_WORDS:
        known = ", ".join(DECISION_WORDS)
        raise _refused(text, f"kind {fields['kind']!r} is not known; known are {known}")
    return Condition(first, fields, " ".join(text.split()))


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(f"--keep {text!r}: {reason}")


def matches(fields: dict[str, str], word: str, item: DecisionItem) -> bool:
    """Return True if an entry of a decision has these fields."""
    for key, value in fields.items():
        if key == "kind":
            is_equal = word == value
        elif key == "message":
            is_equal = value in item.message
        else:
            is_equal = getattr(item, key) == value
        if not is_equal:
            return False
    return True
