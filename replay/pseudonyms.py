"""Pseudonyms for names and values: consistent under a key, and in the order of what they stand for.

A pseudonym is `<letters><rank>-<code>x[-<number>]`, such as `s0042-9f1c03ab77d1x-0`. The code is the beginning of an HMAC-SHA256 of
the text without its trailing number, so that equal texts have equal codes in all bundles that are made with the same key.
The rank is that of the text among all texts of the bundle: decisions whose ties end in a name are the same under
pseudonyms. The trailing number stays, for it is the index of a pod in its job, and so does whether it is a part of its own, behind `-`. `train-0` has the pseudonym of `train` with `-0`, if there is a
`train` and nothing sorts between the two but other numbers: what a controller makes of `train` under its pseudonym has that name, too.

Names of `WELL_KNOWN` stay. The letters are such that pseudonyms sort among them as their texts do.
"""

import hmac
import re
from bisect import bisect_right
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

WELL_KNOWN: Final = (
    *("default", "kube-node-lease", "kube-public", "kube-system", "mindx-dl"),
    *("muster-system", "podgroup-", "root", "volcano-system"),
)
"""Names that every cluster has, in order; `podgroup-` is the beginning of those that muster and Volcano derive from a UID."""

_LETTERS: Final = ("a", "e", "kube-o", "kube-r", "l", "mp", "o", "q", "s", "w")
"""Letters of the texts before the first well-known name, between the first and the second, ..., and behind the last."""

CODE_DIGITS: Final = 12
"""Hexadecimal digits of a code: 48 bits, so that among a million texts two share a code with a chance of 0.2 %; their ranks differ."""

_NUMBER: Final = re.compile(r"[-_.]?([0-9]{1,18})\Z")
_INDEX: Final = re.compile(r"-(?:0|[1-9][0-9]{0,17})")
_NAMESPACE_END: Final = "/"


class Pseudonyms:
    """The pseudonyms of texts. All of them have to be known before the first is asked for."""

    def __init__(self, key: bytes, texts: Iterable[str], namespaces: Iterable[str]) -> None:
        self._key = key
        self._texts = _ranks(sorted(set(texts)))
        self._owners = _owners(list(self._texts))
        # `a-b/x` comes before `a/x`: namespaces are ordered as they are in `namespace/name`.
        self._namespaces = _ranks(sorted(namespaces, key=lambda one: one + _NAMESPACE_END))
        self._found: dict[tuple[bool, str], str] = {}

    def of(self, text: str, *, is_namespace: bool = False) -> str:
        """Return the pseudonym of a text; the text itself if it is well known."""
        found = self._found.get((is_namespace, text))
        if found is None:
            found = self._found[is_namespace, text] = self._make(text, is_namespace=is_namespace)
        return found

    def made(self) -> dict[str, str]:
        """Return the texts whose pseudonyms were asked for, by pseudonym."""
        return {made: text for (_, text), made in self._found.items() if made != text}

    def knows(self, text: str) -> bool:
        """Return True if a text, which is no namespace, has a pseudonym."""
        return text in self._texts

    def _make(self, text: str, *, is_namespace: bool) -> str:
        if not text or text in WELL_KNOWN:
            return text
        if not is_namespace and text in self._owners:
            owner = self._owners[text]
            return self.of(owner) + text.removeprefix(owner)
        ranks = self._namespaces if is_namespace else self._texts
        end = _NAMESPACE_END if is_namespace else ""
        letters = _letters_of(text, end)
        number = _NUMBER.search(text)
        stem = text if number is None else text[: number.start()]
        code = hmac.digest(self._key, stem.encode(errors="replace"), sha256).hex()[:CODE_DIGITS]
        width = len(str(len(ranks)))
        made = f"{letters}{ranks[text]:0{width}}-{code}x"  # A digit at the end would be an index.
        if number is None:
            return made
        # Only digits that are a whole part of the name make it numbered (`PodFacts.is_numbered`).
        is_part = text.rpartition("-")[2].isdecimal()
        return f"{made}{'-' if is_part else ''}{number.group(1)}"


def _ranks(texts: list[str]) -> dict[str, int]:
    return {text: rank for rank, text in enumerate(texts, 1)}


def _owners(texts: list[str]) -> dict[str, str]:
    """Return, for each text that is another with an index and comes right behind it or its like, this other."""
    owners: dict[str, str] = {}
    owner = ""
    for text in texts:
        is_index = text.startswith(owner) and _INDEX.fullmatch(text, len(owner)) is not None
        if owner and is_index and _letters_of(owner) == _letters_of(text):
            owners[text] = owner
        else:
            owner = text
    return owners


def _letters_of(text: str, end: str = "") -> str:
    return _LETTERS[bisect_right([one + end for one in WELL_KNOWN], text + end)]
