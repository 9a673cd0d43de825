"""Bounds on what is read out of Kubernetes objects, and the functions that apply them.

An object is text that a tenant wrote. Every reader uses these, so that reading ends within work proportional to
the length of the text and with a value or a fault. All bounds with their reasons are listed in `docs/limits.md`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeVar

import msgspec

NAME_BYTES_MAX: Final = 253
"""Bytes of the name of an object, a queue, a pod group, a card: what Kubernetes allows for names."""

RESOURCE_BYTES_MAX: Final = 317
"""Bytes of a resource name: a DNS name (253), a slash, and a name (63)."""

CHOICE_BYTES_MAX: Final = 1024
"""Bytes of the names of cards that a pod accepts, together. They are part of the key of a database row."""

DEPTH_MAX: Final = 100
"""Levels of arrays and objects in JSON. The schemas of Kubernetes have about 20."""

DIGITS_MAX: Final = 64
"""Digits of a number that are read. A number with more is beyond every amount that there is."""

QUOTED_CHARS_MAX: Final = 100
"""Characters of foreign text that a message quotes."""

MESSAGE_CHARS_MAX: Final = 1024
"""Characters of a message in a fault or a refusal."""

ITEMS_MAX: Final = 1000
"""Entries of a list that cost work later: tolerations, terms, expressions, constraints, policies."""

VALUES_MAX: Final = 5000
"""Values of one label expression, and members of one HyperNode: as many nodes as Kubernetes supports."""

RESOURCES_MAX: Final = 256
"""Resource or card names in one map of amounts; each is a row in the database and a column in memory."""

INT32_MAX: Final = 2**31 - 1
"""The largest value of an integer field of the Kubernetes API (`int32`)."""

WEIGHT_MAX: Final = 100
"""The largest weight of a preferred affinity, as the API server has it."""

TIME_CHARS_MAX: Final = 100
"""Characters of a time or a duration."""

CUT: Final = "muster.sh/left-out: nested too deep"
"""Stands in the log's copy of an object for what was nested deeper than DEPTH_MAX."""

SPEC_FIELD_BYTES_MAX: Final = 256 * 1024
"""Bytes of one field of a pod's spec, apart from what says what the pod takes of its node: as many as Kubernetes allows
for all annotations together. An affinity that names 5,000 nodes has some 200 KB."""

TOO_LONG: Final = "muster.sh/left-out: too long"
"""Stands in the log's copy of a pod for a field of its spec that is longer than SPEC_FIELD_BYTES_MAX."""

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoders raise for JSON that is malformed, not Unicode, or nested too deep."""

T = TypeVar("T")

_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = [1 if one in b"[{" else -1 for one in range(256)]
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_SURROGATE: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_WHOLE: Final = re.compile(r"([+-]?)([0-9]++)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


class TooLongError(ValueError):
    """A list or a map has more entries than are read."""


def quoted(text: object) -> str:
    """Foreign text for a message: escaped, and cut where it is long."""
    text = str(text)
    if len(text) <= QUOTED_CHARS_MAX:
        return repr(text)
    return f"{text[:QUOTED_CHARS_MAX]!r}... ({len(text)} characters)"


def clipped(message: str) -> str:
    """A message, cut where it is long."""
    if len(message) <= MESSAGE_CHARS_MAX:
        return message
    return f"{message[:MESSAGE_CHARS_MAX]}... ({len(message)} characters)"


def storable(text: str) -> str:
    """Foreign text for a column of a database: control characters and what is no Unicode are replaced, and the
    text is cut where it is long. PostgreSQL refuses a NUL, and with it the batch."""
    return clipped(_CONTROL.sub("\ufffd", text))


is_plain_name: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,62}").fullmatch
"""Matches most names, which are certainly valid, whatever they name; `name_problem` tells of any other."""


def name_problem(name: str, bytes_max: int = NAME_BYTES_MAX) -> str:
    """Why a text cannot be a name, which identifies rows of the log and of views; empty where it can."""
    if len(name) <= bytes_max // 4 and name.isprintable():
        return ""
    if len(name) > bytes_max or len(name.encode(errors="replace")) > bytes_max:
        return f"{quoted(name)} is longer than {bytes_max} bytes"
    if _CONTROL.search(name):
        return f"{quoted(name)} has control characters"
    return ""


def object_name_problem(name: str) -> str:
    """Why a text cannot be the name of an object, such as a queue or a pod group; empty where it can."""
    if "/" in name:
        return f"{quoted(name)} has a slash"
    if name != name.strip():
        return f"{quoted(name)} begins or ends with a blank"
    return name_problem(name)


def check_length(items: Sequence[object] | Mapping[str, object], most: int) -> None:
    """Raise TooLongError where there are more than `most` entries."""
    if len(items) > most:
        raise TooLongError(f"{len(items)} entries are more than {most}")


def whole_number(text: str | None, most: int = INT32_MAX) -> int | None:
    """A whole decimal number, held within -most and most; None where the text is none."""
    found = _WHOLE.fullmatch(text) if text else None
    if found is None:
        return None
    sign, digits = found[1], found[2].lstrip("0") or "0"
    number = most if len(digits) > DIGITS_MAX else min(int(digits), most)
    return -number if sign == "-" else number


def may_be_too_deep(raw: bytes) -> bool:
    """Whether JSON has enough brackets for more than DEPTH_MAX levels."""
    return raw.count(b"{") + raw.count(b"[") > DEPTH_MAX


def is_too_deep(raw: bytes) -> bool:
    """Whether JSON has more than DEPTH_MAX levels."""
    if not may_be_too_deep(raw):
        return False
    brackets = _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > DEPTH_MAX


def is_nested_too_deep(decoded: object) -> bool:
    """Whether decoded JSON has more than DEPTH_MAX levels."""
    level: list[object] = [decoded]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)  # type: ignore[attr-defined]  # a list
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def tame(raw: bytes, depth_max: int = DEPTH_MAX) -> bytes:
    """JSON that every reader can decode: what is nested deeper than `depth_max` is replaced by `CUT`, a number
    that no integer or float holds by its text, and what is not Unicode by the replacement character.

    What is not JSON stays so. The work is proportional to the length.
    """
    if not raw.isascii():
        raw = raw.decode(errors="replace").encode()
    kept: list[bytes] = []
    depth = begin = 0
    for found in _TOKEN.finditer(raw):
        first = raw[found.start()]
        if first in b"[{":
            depth += 1
            if depth == depth_max + 1:
                kept.append(raw[begin : found.start()])
        elif first in b"]}":
            depth -= 1
            if depth == depth_max:
                kept.append(b'"%b"' % CUT.encode())
                begin = found.end()
        elif depth <= depth_max and (changed := _tamed(found[0])) is not None:
            kept += (raw[begin : found.start()], changed)
            begin = found.end()
    if depth <= depth_max:
        kept.append(raw[begin:])
    return b"".join(kept)


def _tamed(token: bytes) -> bytes | None:
    """A string or a number that no decoder refuses; None where it is one already."""
    if token[:1] == b'"':
        if b"\\u" not in token:
            return None
        return _SURROGATE.sub(lambda one: rb"\ufffd" if one[1] else one[0], token)
    is_plain = len(token) <= DIGITS_MAX and abs(_float(token)) < float("inf")
    return None if is_plain else b'"%b"' % token


def _float(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return 0.0


def decode_deep(raw: bytes, decode: Callable[[bytes], T]) -> T:
    """What a decoder makes of JSON that may be nested too deep; it then lacks what is deeper than DEPTH_MAX.

    Nothing new enters a log so deep, but logs of release 0.1 may hold it.
    """
    try:
        return decode(raw)
    except RecursionError:
        return decode(tame(raw))


def decode_hostile(raw: bytes, decode: Callable[[bytes], T], depth_max: int = DEPTH_MAX) -> T:
    """Decode JSON; where that fails, decode the same JSON with what the decoder refuses taken out.

    Otherwise one object that is nested too deep makes the list, the watch event or the answer that contains it
    unreadable. Raises one of `UNDECODABLE` for what is not JSON of the expected type.
    """
    try:
        return decode(raw)
    except UNDECODABLE:
        return decode(tame(raw, depth_max))


def decode_text(text: str, decode: Callable[[bytes], T]) -> T:
    """JSON in a string of an object, decoded. Raises ValueError; msgspec.DecodeError is one."""
    raw = text.encode(errors="replace")
    if is_too_deep(raw):
        raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
    return decode(raw)
