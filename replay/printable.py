"""Text from a cluster made safe for a terminal: escaped, on one line, and of bounded length.

Names, annotations, messages, conditions and bodies can hold anything. A terminal obeys some of it: escape
sequences (ANSI, OSC), other control characters, marks that reverse the direction of text. Whatever
`str.isprintable` rejects is written as Python writes it in a literal: `\\x1b`, `\\n`, `\\u202e`. In JSON the
same characters are written as JSON escapes, which leaves the document equal to what it was.
"""

from typing import Final

LINE_CHARS_MAX: Final = 2_000
"""Characters of one line, or of one part of it: some 25 rows of a terminal. The longest lines of our own
(the reasons of a refusal) have a few hundred."""

CELL_CHARS_MAX: Final = 320
"""Characters of one cell of a table. A namespace and a name together have at most 317."""


def printable(text: str, most: int = LINE_CHARS_MAX) -> str:
    """Return the text escaped and on one line; of a longer text the beginning and the end.

    Printable text within the bound is returned as it is, so that a second call changes nothing.
    """
    if len(text) <= most:
        escaped = _escaped(text)
        if len(escaped) <= most:
            return escaped
    head, tail = most * 3 // 4, most // 4
    beginning, end = _escaped(text[:head])[:head], _escaped(text[-tail:])[-tail:]
    note = f" [... {len(text):,} characters in all ...] "
    return f"{beginning[: head - len(note)]}{note}{end}"


def printable_json(document: bytes) -> str:
    """Return a JSON document in which every character that is not printable is a JSON escape."""
    text = document.decode()
    if text.isprintable():
        return text
    return text.translate({ord(one): _json_escape(one) for one in _unprintable(text)})


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return text.translate(
        {ord(one): one.encode("unicode_escape").decode("ascii") for one in _unprintable(text)}
    )


def _unprintable(text: str) -> list[str]:
    return [one for one in dict.fromkeys(text) if not one.isprintable()]


def _json_escape(character: str) -> str:
    """A code point beyond the first 65,536 is a pair of surrogates in JSON."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
