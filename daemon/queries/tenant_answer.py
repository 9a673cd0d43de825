"""The part of an answer of `why` that a tenant may know.

Left out are the nodes by name and score, the holders of a quota, the pod groups ahead in line, and long lists. In what remains, every
`NAMESPACE/NAME` of another namespace becomes `(another namespace)`. Numbers of the own queue, counts of nodes and
reason codes stay; so do the names of nodes and queues in texts, which are no tenant's objects.
"""

import re
from typing import Final

import msgspec
from msgspec import structs

from replay.why_answer import Answer

OTHER: Final = "(another namespace)"

_KEY: Final = re.compile(r"(?<![\w./-])(?:[A-Z]\w*/)?([a-z0-9][-a-z0-9]*)/[a-z0-9][-a-z0-9.]*")
"""A key of a namespaced object, with its kind or without. A resource (`nvidia.com/gpu`) has a dot before the slash."""

_COUNT: Final = re.compile(r"\d+/\d+")


def tenant_answer(answer: Answer) -> Answer:
    """Return the answer as a tenant of the subject's namespace may see it."""
    namespace = answer.subject.split("/")[1]
    waiting = answer.waiting
    if waiting is not None:
        nodes, line = waiting.nodes, waiting.line
        waiting = structs.replace(
            waiting,
            held=(),
            nodes=None if nodes is None else structs.replace(nodes, nearest=()),
            line=None if line is None else structs.replace(line, ahead=()),
        )
    kept = structs.replace(
        answer,
        waiting=waiting,
        choices=(),
        nodes=(),
        lists={},
        steps=tuple(structs.replace(one, details=[]) for one in answer.steps),
    )
    return msgspec.convert(_redacted(msgspec.to_builtins(kept), namespace), Answer)


def redacted_text(text: str, namespace: str) -> str:
    """Replace the keys of objects of other namespaces."""

    def replaced(found: re.Match[str]) -> str:
        if found[1] == namespace or _COUNT.fullmatch(found[0]):
            return found[0]
        return OTHER

    return _KEY.sub(replaced, text)


def _redacted(value: object, namespace: str) -> object:
    match value:
        case str():
            return redacted_text(value, namespace)
        case dict():
            return {
                _redacted(key, namespace): _redacted(one, namespace) for key, one in value.items()
            }
        case list() | tuple():
            return [_redacted(one, namespace) for one in value]
        case _:
            return value
