"""Attribute an exception in muster's own code to the object for which it was raised.

Recorded are the type of the exception and the function that raised it: the same in every process, and without text
of users. The exception itself is passed to `OnError`; a daemon logs it.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, TypeAlias

from msgspec import Struct

CORE: Final = ("engine", "events", "projections", "scheduling")
"""Packages whose functions are named."""


class InternalError(Struct, frozen=True):
    """An exception in muster's own code."""

    subject: str
    """The object, `Kind/namespace/name`."""
    activity: str
    """The action of the policy that raised, or `report`, `requests`, `views`."""
    place: str
    """Type of the exception and the function that raised it."""
    error: Exception


OnError: TypeAlias = Callable[[InternalError], None]
"""Receives the exception with its subject."""


def ignore(_error: InternalError) -> None:
    """Do nothing: for replays and queries, because the log has recorded the error already."""


def place_of(error: Exception) -> str:
    """Return the type of an exception and the innermost function of muster in its traceback, without line numbers.

    Comprehensions are skipped, because only some versions of Python treat them as functions. If the stack is
    exceeded, the innermost function depends on the caller, so the outermost is named.
    """
    names = list(_functions(error.__traceback__))
    kind = type(error).__name__
    if not names:
        return kind
    return f"{kind} in {names[0] if isinstance(error, RecursionError) else names[-1]}"


def _functions(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in CORE and not code.co_name.startswith("<"):
            yield f"{module}.{code.co_name}"
        trace = trace.tb_next


def report(error: Exception, subject: str, activity: str, on_error: OnError) -> str:
    """Report an exception and return the text that is recorded. Raise MemoryError again: it is not caused by the
    subject."""
    if isinstance(error, MemoryError):
        raise error
    place = place_of(error)
    on_error(InternalError(subject, activity, place, error))
    return f"internal error of muster in {activity}: {place}"
