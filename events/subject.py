"""Subjects of records as text."""

from typing import Final

_KINDS: Final = {"Node": "node", "Pod": "pod", "PodGroup": "pod group", "Queue": "queue"}


def subject_text(subject: str) -> str:
    """Return `pod group default/a` for `PodGroup/default/a`, `node n1` for `Node//n1`."""
    kind, _, name = subject.partition("/")
    return f"{_KINDS.get(kind, kind)} {name.strip('/')}"
