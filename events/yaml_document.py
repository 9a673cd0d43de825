"""YAML documents whose values know their file and line, for error messages.

Scalars are read as in JSON: only `true` and `false` are booleans, so that a label `yes` stays a text; dates and
sexagesimal numbers stay texts too. Duplicate keys are errors.
"""

import math
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import yaml
from msgspec import Struct

from events.duration import nanoseconds
from events.errors import DocumentError
from events.normalize import Json

DEPTH_MAX: Final = 100
"""Deeper nesting is refused, as is an alias that contains itself."""
NODES_MAX: Final = 2_000_000
"""Values of one text, with repetitions by aliases counted each time: some 600 MB of memory."""
DIGITS_MAX: Final = 100
"""Characters of a number; a longer one is an error."""

_PREFIX: Final = "tag:yaml.org,2002:"
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")

Node: TypeAlias = yaml.nodes.Node


class YamlValue:
    """A value of a document, with its place."""

    def __init__(self, node: Node, source: str, depth: int = 0, key: Node | None = None) -> None:
        self._node = node
        self._source = source
        self._depth = depth
        self._line: int = (key or node).start_mark.line + 1
        if depth > DEPTH_MAX:
            raise self.error(f"nested deeper than {DEPTH_MAX} levels")

    @property
    def place(self) -> str:
        """`FILE:LINE`; the line of its key, if it has one."""
        return f"{self._source}:{self._line}"

    def error(self, reason: str) -> DocumentError:
        """Return an error at this place, to be raised."""
        # A name in it may hold a line break; a message is one line.
        return DocumentError(f"{self.place}: {' '.join(reason.split())}")

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self._node, yaml.MappingNode)

    @property
    def is_scalar(self) -> bool:
        """Whether it is a scalar."""
        return isinstance(self._node, yaml.ScalarNode)

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return self.is_scalar and self.plain() is None

    def mapping(self, what: str) -> "dict[str, YamlValue]":
        """The entries of a mapping, in order. `what` names the value in error messages."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.error(f"{what} must be a mapping")
        entries: dict[str, YamlValue] = {}
        for key_node, value_node in self._node.value:
            key = YamlValue(key_node, self._source, self._depth + 1)
            name = key.scalar(f"a key of {what}")
            if name in entries:
                raise key.error(f"{name} stands twice in {what}")
            if key_node.tag == _PREFIX + "merge":
                raise key.error("merge keys (<<) are not read")
            entries[name] = YamlValue(value_node, self._source, self._depth + 1, key_node)
        return entries

    def fields(self, what: str, known: Collection[str]) -> "dict[str, YamlValue]":
        """The entries of a mapping, all of which must be known."""
        entries = self.mapping(what)
        for name, value in entries.items():
            if name not in known:
                raise value.error(f"{what} has no key {name!r}; known are {', '.join(known)}")
        return entries

    def items(self, what: str) -> "list[YamlValue]":
        """The items of a sequence."""
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.error(f"{what} must be a list")
        return [YamlValue(item, self._source, self._depth + 1) for item in self._node.value]

    def scalar(self, what: str) -> str:
        """The scalar as it is written, whatever its type."""
        if not isinstance(self._node, yaml.ScalarNode):
            raise self.error(f"{what} must be a single value")
        return str(self._node.value)

    def text(self, what: str) -> str:
        """A text, which must not be empty."""
        value = self.plain() if self.is_scalar else None
        if not isinstance(value, str) or not value:
            raise self.error(f"{what} must be a text")
        return value

    def whole(self, what: str, least: int = 0) -> int:
        """A whole number of at least `least`."""
        value = self.plain()
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(f"{what} must be a whole number of at least {least}")
        return value

    def time_ns(self, what: str) -> int:
        """A duration in nanoseconds."""
        try:
            return nanoseconds(self.scalar(what))
        except ValueError as error:
            raise self.error(f"{what}: {error}") from error

    def plain(self) -> Json:
        """The value as JSON data."""
        if isinstance(self._node, yaml.MappingNode):
            return {name: value.plain() for name, value in self.mapping("a mapping").items()}
        if isinstance(self._node, yaml.SequenceNode):
            return [value.plain() for value in self.items("a list")]
        return self._scalar(str(self._node.value), self._node.tag.removeprefix(_PREFIX))

    def _scalar(self, text: str, tag: str) -> Json:
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if tag in ("int", "float") and len(text) > DIGITS_MAX:
            raise self.error(f"a number of {len(text):,} characters; at most {DIGITS_MAX} are read")
        if tag == "int" and _DECIMAL.fullmatch(text):
            return int(text)
        if tag == "float" and _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                raise self.error(f"{text} is too large a number")
            return number
        if tag == "float" and text.lower().lstrip("+-") in (".inf", ".nan"):
            raise self.error(f"{text} is not a number")
        return text


def read_document(text: str, source: str, nodes_max: int = NODES_MAX) -> YamlValue:
    """Read the only document of a YAML text."""
    with _named(source):
        node = compose(text, source, nodes_max)
    if node is None:
        raise DocumentError(f"{source}:1: the file is empty")
    return YamlValue(node, source)


def read_documents(text: str, source: str, nodes_max: int = NODES_MAX) -> list[YamlValue]:
    """Read all documents of a YAML text, without empty ones."""
    with _named(source):
        _check_size(text, source, nodes_max)
        nodes = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    documents = [YamlValue(node, source) for node in nodes]
    found = [one for one in documents if not one.is_scalar or one.plain() is not None]
    if not found:
        raise DocumentError(f"{source}:1: the file is empty")
    return found


def read_data(text: str, source: str, nodes_max: int = NODES_MAX) -> object:
    """Read the only document of a YAML text as `yaml.safe_load` does; None if it is empty."""
    with _named(source):
        node = compose(text, source, nodes_max)
        _refuse_repeated_keys(node, source)
        try:
            return (
                None
                if node is None
                else yaml.constructor.SafeConstructor().construct_document(node)
            )
        except ValueError as error:
            # A number with too many digits, an invalid date.
            raise DocumentError(f"{source}:1: not YAML: {error}") from error


def _refuse_repeated_keys(root: Node | None, source: str) -> None:
    """Refuse a mapping that has a key twice: YAML forbids it, and PyYAML takes the last."""
    waiting = [] if root is None else [root]
    looked_at: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in looked_at:
            continue
        looked_at.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, value in node.value:
                waiting.append(value)
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if (key.tag, key.value) in keys:
                    line = key.start_mark.line + 1
                    raise DocumentError(f"{source}:{line}: the key {key.value!r} stands twice")
                keys.add((key.tag, key.value))


def compose(text: str, source: str, nodes_max: int) -> Node | None:
    """Return the node graph of the only document of a text that is within the bounds."""
    _check_size(text, source, nodes_max)
    node: Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    return node


class _Part(Struct):
    """A mapping or list that is being read, or a finished one that aliases may repeat."""

    anchor: str | None
    nodes: int = 1
    """The number of values in it, itself included."""
    height: int = 0
    """The depth of mappings and lists in it, without itself."""


def _check_size(text: str, source: str, nodes_max: int) -> None:
    """Refuse a text that nests too deep or expands to too much, before nodes are made.

    Only the parser's events are read, which needs little memory and no recursion: the composer of libyaml ends the
    process on a text that nests 100,000 deep.
    """
    finished: dict[str, _Part] = {}
    stack = [_Part(None)]
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        repeated: _Part | None = None
        if isinstance(event, yaml.ScalarEvent):
            stack[-1].nodes += 1
            if event.anchor is not None:
                finished[event.anchor] = _Part(event.anchor, height=-1)
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Part(event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            repeated = stack.pop()
            if repeated.anchor is not None:
                finished[repeated.anchor] = repeated
        elif isinstance(event, yaml.AliasEvent):
            if any(part.anchor == event.anchor for part in stack):
                raise _refused(event, source, f"*{event.anchor} contains itself")
            # The composer reports an unknown anchor.
            repeated = finished.get(event.anchor or "")
        elif isinstance(event, yaml.DocumentStartEvent):
            finished = {}
        if repeated is not None:
            stack[-1].nodes += repeated.nodes
            stack[-1].height = max(stack[-1].height, repeated.height + 1)
        if len(stack) + stack[-1].height > DEPTH_MAX + 2:
            raise _refused(event, source, f"nested deeper than {DEPTH_MAX} levels")
        # Unfinished parts are added to their parents when they end.
        if stack[-1].nodes > nodes_max:
            raise _refused(event, source, f"more than {nodes_max:,} values, repeated ones counted")


def _refused(event: yaml.Event, source: str, reason: str) -> DocumentError:
    line = 1 if event.start_mark is None else event.start_mark.line + 1
    return DocumentError(f"{source}:{line}: {reason}")


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Return an error of a text with its file and line."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        is_second = error.context == "expected a single document in the stream"
        reason = "a second document in one file" if is_second else _reason(str(error.problem))
        raise DocumentError(f"{source}:{line}: {reason}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise DocumentError(f"{source}:1: {_reason(' '.join(str(error).split()))}") from error


def _reason(problem: str) -> str:
    """Return what is wrong with a text that the parser refuses. Newer ones have a limit of nesting themselves."""
    if "nesting depth" in problem:
        return f"nested deeper than {DEPTH_MAX} levels"
    return f"not YAML: {problem}"
