"""Fault injection into responses and into the lines of a watch."""

import asyncio
from typing import Final

import msgspec

from events.duration import SECOND
from simulator.api_server.api import Api
from simulator.api_server.faults import Fault, FaultKind
from simulator.api_server.http_message import Response, StatusError
from simulator.api_server.status_errors import expired

CLOCK_NS: Final = 3600 * SECOND
_DELAY_UNIT_SECONDS: Final = 0.01
_BUSY: Final = "Too many requests, please try again later."
_GONE: Final = expired("too old resource version: a fault")

FAILED: Final = StatusError(
    500, "InternalError", "Internal error occurred: etcdserver: leader changed", {}
).response
_ANSWERS: Final = {
    FaultKind.GONE: _GONE.response,
    FaultKind.THROTTLE: StatusError(429, "TooManyRequests", _BUSY, {}).response,
    FaultKind.CONFLICT: StatusError(
        409, "Conflict", "Operation cannot be fulfilled: a fault", {}
    ).response,
    FaultKind.FORBID: StatusError(403, "Forbidden", "no role allows this: a fault", {}).response,
    FaultKind.FAIL: FAILED,
    FaultKind.FAIL_TEXT: Response(500, b"Internal Server Error\n", "text/plain; charset=utf-8"),
}


class BrokenError(Exception):
    """The connection has to be broken off."""


async def apply_fault(fault: Fault, api: Api) -> Response | None:
    """Apply the part of a fault that precedes the request; returns a response if that is all. May raise
    BrokenError."""
    match fault.kind:
        case FaultKind.DROP:
            raise BrokenError
        case FaultKind.DELAY:
            await asyncio.sleep(fault.amount * _DELAY_UNIT_SECONDS)
        case FaultKind.CLOCK:
            api.simulated.store.set_clock(CLOCK_NS if fault.amount % 2 else -CLOCK_NS)
        case FaultKind.THROTTLE_LATER:
            seconds = max(1, fault.amount)
            return StatusError(
                429, "TooManyRequests", _BUSY, {"retryAfterSeconds": seconds}
            ).response
        case _:
            return _ANSWERS.get(fault.kind)
    return None


class StruckLines:
    """Passes a number of lines of a watch, then injects the fault."""

    def __init__(self, fault: Fault) -> None:
        self.kind = fault.kind
        self.has_struck = False
        self._left = fault.amount
        self._needs_line = fault.kind in (FaultKind.CUT, FaultKind.STALL)

    def feed(self, chunk: bytes) -> bytes:
        """Return what the client receives of whole lines; `has_struck` is set afterwards."""
        lines = chunk.splitlines(keepends=True)
        if len(lines) < self._left or (len(lines) == self._left and self._needs_line):
            self._left -= len(lines)
            return chunk
        shown = lines[: self._left]
        self.has_struck = True
        if self._needs_line:
            line = lines[self._left]
            shown.append(line[: len(line) // 2])
        elif self.kind is FaultKind.GONE_EVENT:
            document = msgspec.json.encode(_GONE.document)
            shown.append(b'{"type":"ERROR","object":' + document + b"}\n")
        return b"".join(shown)
