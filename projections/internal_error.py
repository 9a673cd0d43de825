"""An exception out of our own code, held to the object for which it was raised.

What is recorded of it is the type of the exception and the function that raised it: the same in every process
and, unlike the text of the exception, without anything that a user wrote. The whole of it goes to `OnError`,
which a daemon logs.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, TypeAlias

from msgspec import Struct

CORE: Final = ("engine", "events", "projections", "scheduling")
"""Packages of which functions are named."""


class InternalError(Struct, frozen=True):
    """One such exception."""

    subject: str
    """The object, `Kind/namespace/name`."""
    activity: str
    """What was being done: an action of the policy, or `report`, `requests`, `views`."""
    place: str
    """Type of the exception and the function that raised it."""
    error: Exception


OnError: TypeAlias = Callable[[InternalError], None]
"""Takes an exception that was held to its subject."""


def ignore(_error: InternalError) -> None:
    """For a replay and for questions: the log has recorded it already."""


def place_of(error: Exception) -> str:
    """Type of an exception and the innermost function of ours that it came through, without a line number.

    Comprehensions are left out, as they are functions of their own in some versions of Python only. Where the
    depth of the stack is exceeded, the innermost function depends on who called; so the outermost is named.
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
    """Report an exception. Returns the words by which it is recorded. Want of memory is no fault of a subject."""
    if isinstance(error, MemoryError):
        raise error
    place = place_of(error)
    on_error(InternalError(subject, activity, place, error))
    return f"internal error of muster in {activity}: {place}"
