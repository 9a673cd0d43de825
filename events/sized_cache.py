"""A cache of function results, bounded by the size of the arguments.

Entries are in two generations: when the younger has reached half of the bound, the older is dropped. So text that
users wrote takes a bounded number of bytes, and entries that are no longer used are dropped.
"""

from collections.abc import Callable, Iterable, Sized
from typing import Final, TypeVar

ENTRY_BYTES: Final = 256
"""Memory of an entry in addition to its text: the entry, the tuple of arguments, and a small value."""

SHARE: Final = 512
"""Arguments larger than this part of the bound are not cached: a few of them would displace all others."""

_K = TypeVar("_K")
_T = TypeVar("_T")


class _Generations(dict[_K, _T]):
    """The results of a function with one argument. Looking one up that is there calls no Python code."""

    def __init__(self, function: Callable[[_K], _T], bytes_max: int, size_of: Callable[..., int]):
        self._function, self._bytes_max, self._size_of = function, bytes_max, size_of
        self._old: dict[_K, _T] = {}
        self._spent = 0

    def __missing__(self, argument: _K) -> _T:
        old = self._old
        value = old[argument] if argument in old else self._function(argument)
        size = ENTRY_BYTES + self._size_of(argument)
        if size * SHARE <= self._bytes_max:
            if (self._spent + size) * 2 > self._bytes_max:
                self._old, self._spent = dict(self), 0
                self.clear()
            self[argument] = value
            self._spent += size
        return value


def sized_cache(
    bytes_max: int, size_of: Callable[..., int]
) -> Callable[[Callable[[_K], _T]], Callable[[_K], _T]]:
    """Return a decorator that caches results by the (hashable) argument within a number of bytes.

    `size_of` returns the bytes of the argument. Calls that raise are not cached.
    """

    def decorate(function: Callable[[_K], _T]) -> Callable[[_K], _T]:
        return _Generations(function, bytes_max, size_of).__getitem__

    return decorate


def length(text: Sized) -> int:
    """Return the length of a text."""
    return len(text)


def lengths(texts: Iterable[Sized]) -> int:
    """Return the total length of texts."""
    return sum(map(len, texts))
