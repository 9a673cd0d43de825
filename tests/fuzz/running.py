"""Run cases, and say how one fails."""

import asyncio
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.fuzz.case import Case, written
from tests.fuzz.databases import Fresh, in_memory
from tests.fuzz.generator import generated
from tests.fuzz.harness import Outcome, run
from tests.fuzz.shrink import shrunk

CASE_SECONDS: Final = 60.0
"""CPU time after which a case is taken to stand still."""

SHRINK_SECONDS: Final = 5.0
"""The same while a case is made smaller."""

STALL_SECONDS: Final = 1.0
"""CPU time of one step that is reported as a stall."""


TRIES: Final = 300
"""Runs of smaller cases when a test fails."""


class StandstillError(BaseException):
    """A case took too long. No handler of exceptions is to catch it."""


def run_case(case: Case, fresh: Fresh = in_memory) -> Outcome:
    """Run a case on a fresh log."""
    return asyncio.run(run(case, fresh(), with_views=fresh is not in_memory))


def failure_of(case: Case, fresh: Fresh = in_memory, seconds: float = CASE_SECONDS) -> str:
    """How a case fails, as `Type file:line function`; empty where it does not."""
    try:
        with limited(seconds):
            outcome = run_case(case, fresh)
    except (Exception, StandstillError) as error:
        return place_of(error)
    if outcome.longest_seconds > STALL_SECONDS:
        return f"stall in {outcome.longest}"
    return ""


def message_of(case: Case, fresh: Fresh = in_memory) -> str:
    """What a failing case raises."""
    try:
        with limited(CASE_SECONDS):
            run_case(case, fresh)
    except (Exception, StandstillError) as error:
        return str(_inner(error))[:400]
    return ""


def smallest(case: Case, failure: str, fresh: Fresh, tries: int) -> Case:
    """The smallest case found that fails in the same way."""
    return shrunk(case, lambda one: failure_of(one, fresh, SHRINK_SECONDS) == failure, tries)


def checked(seed: int, fresh: Fresh) -> Outcome:
    """Run the case of a seed. One that fails is made smaller, and shown in the form of a regression test."""
    case = generated(seed)
    try:
        return run_case(case, fresh)
    except Exception as error:
        small = smallest(case, place_of(error), fresh, TRIES)
        raise AssertionError(f"seed {seed}: {_inner(error)!r}\n{written(small)}") from error


def _inner(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def place_of(error: BaseException) -> str:
    """The type of an exception, and where in the project it was raised."""
    error = _inner(error)
    ours = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
    ]
    last = ours[-1]
    if isinstance(error, StandstillError):
        return f"StandstillError {Path(last.filename).name} {last.name}"
    return f"{type(error).__name__} {Path(last.filename).name}:{last.lineno} {last.name}"


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `StandstillError` after so many seconds of CPU time."""

    def stop(*_: object) -> None:
        raise StandstillError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
