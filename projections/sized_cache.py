"""A cache of what a function returned, bounded by the size of what it was asked.

What was asked lately is kept in two generations: when the younger one has reached half of the bound, the older
one is dropped. So text that a user wrote costs a bounded number of bytes, whatever its length, and what is not
asked any more goes as other things are asked.
"""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

ENTRY_BYTES: Final = 256
"""What an entry costs beside its text: the entry itself, the tuple of arguments, and a small value."""

SHARE: Final = 512
"""What alone would take more than this part of a bound is not kept at all: a few large ones would drive all others
out, and pin the memory around them."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MISSING: Final = object()


def sized_cache(
    bytes_max: int, size_of: Callable[..., int]
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Keep what a function returns while the arguments (positional, hashable) stay within a number of bytes.

    `size_of` says how many bytes arguments take. Nothing is kept of a call that raises.
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
    """The size of texts."""
    return sum(map(len, texts))
