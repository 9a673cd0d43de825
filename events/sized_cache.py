"""A cache of function results, bounded by the size of the arguments.

Entries are in two generations: when the younger has reached half of the bound, the older is dropped. So text that
users wrote takes a bounded number of bytes, and entries that are no longer used are dropped.
"""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

ENTRY_BYTES: Final = 256
"""Memory of an entry in addition to its text: the entry, the tuple of arguments, and a small value."""

SHARE: Final = 512
"""Arguments larger than this part of the bound are not cached: a few of them would displace all others."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MISSING: Final = object()


def sized_cache(
    bytes_max: int, size_of: Callable[..., int]
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator that caches results by their (positional, hashable) arguments within a number of bytes.

    `size_of` returns the bytes of the arguments. Calls that raise are not cached.
    """

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        young: dict[object, _T] = {}
        old: dict[object, _T] = {}
        spent = 0

        @wraps(function)
        def cached(*args: _P.args, **named: _P.kwargs) -> _T:
            nonlocal young, old, spent
            found = young.get(args, _MISSING)
            if found is not _MISSING:
                return found  # type: ignore[return-value]  # what is there is what was returned
            value = old[args] if args in old else function(*args, **named)
            size = ENTRY_BYTES + size_of(*args, **named)
            if size * SHARE <= bytes_max:
                if (spent + size) * 2 > bytes_max:
                    young, old, spent = {}, young, 0
                young[args] = value
                spent += size
            return value

        return cached

    return decorate


def lengths(*texts: str | bytes) -> int:
    """Return the total length of texts."""
    return sum(map(len, texts))
