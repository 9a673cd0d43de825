"""Exceptions out of our own code that were held to one object: logged, and counted."""

import traceback
from collections.abc import Callable
from typing import Final

import structlog

from projections.internal_error import InternalError

PLACES_MAX: Final = 256
"""Places in the code of which it is remembered that their traceback was logged; with more, all are forgotten."""

TRACE_MAX: Final = 16_384
"""Characters of a traceback that are logged: the last ones."""

_logger: Final = structlog.get_logger("muster")


class InternalErrorLog:
    """Logs each error in one line, and the traceback of the first from each place; tells `count` its activity."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._places: dict[tuple[str, str], None] = {}

    def __call__(self, internal: InternalError) -> None:
        """Log and count one error."""
        self._count(internal.activity)
        key = (internal.activity, internal.place)
        trace = {}
        if key not in self._places:
            if len(self._places) >= PLACES_MAX:
                self._places.clear()
            self._places[key] = None
            lines = traceback.format_exception(internal.error)
            trace["traceback"] = "".join(lines)[-TRACE_MAX:]
        _logger.error(
            "internal error",
            subject=internal.subject,
            activity=internal.activity,
            place=internal.place,
            **trace,
        )
