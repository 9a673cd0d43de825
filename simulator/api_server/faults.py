"""Faults between a server and its clients, chosen by a seed.

SHA-256 over the seed and the number of a request decides which fault it gets, so the same seed and the
same requests give the same faults. The HTTP server carries them out.
"""

from enum import Enum
from hashlib import sha256
from typing import Final, Protocol

from msgspec import Struct


class FaultKind(Enum):
    """A kind of fault."""

    DROP = "drop"
    """The connection breaks before the request is executed."""
    LOSE = "lose"
    """The request is executed and the connection breaks before the response; a watch breaks after some events."""
    DELAY = "delay"
    TWICE = "twice"
    """The request arrives a second time; the client sees the second response."""
    CUT = "cut"
    """The response ends in the middle of a line, and the connection breaks."""
    STALL = "stall"
    """Half a line, and then nothing more."""
    GONE = "gone"
    """410 as status."""
    GONE_EVENT = "gone_event"
    """410 as an event of a watch."""
    THROTTLE = "throttle"
    """429 without Retry-After"""
    THROTTLE_LATER = "throttle_later"
    """429 with Retry-After"""
    CONFLICT = "conflict"
    """409; the request is not executed."""
    FORBID = "forbid"
    """403, as from a server that has just started and has not read its roles; the request is not executed."""
    FAIL = "fail"
    """500 as a Status; the request is not executed."""
    FAIL_AFTER = "fail_after"
    """500 as a Status; the request is executed."""
    FAIL_TEXT = "fail_text"
    """500 as plain text; the request is not executed."""
    EMPTY = "empty"
    """The request is executed; the status is good, and the body is empty."""
    CLOCK = "clock"
    """The server's clock is set by an hour; the request is answered as usual."""


WATCH: Final = (
    *(
        FaultKind.DROP,
        FaultKind.LOSE,
        FaultKind.DELAY,
        FaultKind.CUT,
        FaultKind.STALL,
        FaultKind.GONE,
        FaultKind.GONE_EVENT,
    ),
    *(
        FaultKind.THROTTLE,
        FaultKind.THROTTLE_LATER,
        FaultKind.FAIL,
        FaultKind.FAIL_TEXT,
        FaultKind.EMPTY,
        FaultKind.CLOCK,
    ),
    FaultKind.FORBID,
)
"""Faults that a watch can get."""
UNDER_WAY: Final = (FaultKind.LOSE, FaultKind.CUT, FaultKind.STALL, FaultKind.GONE_EVENT)
"""Faults that a watch can get after some events."""
READ: Final = (
    *(
        FaultKind.FORBID,
        FaultKind.DROP,
        FaultKind.LOSE,
        FaultKind.DELAY,
        FaultKind.TWICE,
        FaultKind.CUT,
        FaultKind.STALL,
        FaultKind.THROTTLE,
    ),
    *(
        FaultKind.THROTTLE_LATER,
        FaultKind.FAIL,
        FaultKind.FAIL_TEXT,
        FaultKind.EMPTY,
        FaultKind.CLOCK,
    ),
)
"""Faults that reading an object or a list can get."""
LIST: Final = (*READ, FaultKind.GONE)
WRITE: Final = (*READ, FaultKind.CONFLICT, FaultKind.FAIL_AFTER)
ALL: Final = tuple(FaultKind)


class FaultContext(Struct, frozen=True):
    """A request as fault injection sees it. `index` counts requests from 1."""

    index: int
    verb: str
    plural: str
    part: str = ""

    @property
    def possible(self) -> tuple[FaultKind, ...]:
        """The faults that this request can get."""
        match self.verb:
            case "watch":
                return WATCH
            case "get":
                return READ
            case "list":
                return LIST
            case _:
                return WRITE


class Fault(Struct, frozen=True):
    """The fault of one request."""

    kind: FaultKind
    amount: int = 0
    """Events of a watch before it breaks; hundredths of a second of a delay; seconds to wait."""


class Faults(Protocol):
    """Chooses the fault of each request."""

    def pick(self, ask: FaultContext) -> Fault | None:
        """Return the fault of a request, or None."""
        ...


class NoFaults:
    """No faults."""

    def pick(self, ask: FaultContext) -> Fault | None:
        """Return None."""
        return None


class SeededFaults:
    """A share of the requests, in thousandths, gets a fault, chosen by a seed."""

    def __init__(
        self,
        seed: int,
        per_thousand: int,
        kinds: tuple[FaultKind, ...] = ALL,
        spared: tuple[str, ...] = (),
        *,
        watch_events: int = 0,
    ) -> None:
        self._seed = seed
        self._watch_events = watch_events
        """Every watch breaks before this number of events; 0: no more often than other requests."""
        self._per_thousand = per_thousand
        self._kinds = kinds
        self._spared = spared
        """Resources that get no faults."""
        self.is_on = True

    def pick(self, ask: FaultContext) -> Fault | None:
        """Return the fault of a request, or None."""
        if not self.is_on or ask.plural in self._spared:
            return None
        chance = sha256(f"{self._seed}/{ask.index}".encode()).digest()
        if int.from_bytes(chance[:4], "big") % 1000 >= self._per_thousand:
            return self._later(ask, chance)
        possible = [kind for kind in ask.possible if kind in self._kinds]
        if not possible:
            return None
        kind = possible[int.from_bytes(chance[4:8], "big") % len(possible)]
        return Fault(kind, chance[8] % 8)

    def _later(self, ask: FaultContext, chance: bytes) -> Fault | None:
        """A watch that was opened without a fault still breaks later."""
        possible = [kind for kind in UNDER_WAY if kind in self._kinds]
        if ask.verb != "watch" or not self._watch_events or not possible:
            return None
        kind = possible[int.from_bytes(chance[9:13], "big") % len(possible)]
        return Fault(kind, int.from_bytes(chance[13:17], "big") % self._watch_events)


class ScriptedFaults:
    """Faults that a test sets for the next requests of a kind."""

    def __init__(self) -> None:
        self._script: list[tuple[str, str, Fault, int]] = []

    def add(self, fault: Fault, verb: str = "", resource: str = "", times: int = 1) -> None:
        """Give a fault to the next `times` requests with this verb and resource (`pods/binding`)."""
        self._script.append((verb, resource, fault, times))

    def pick(self, ask: FaultContext) -> Fault | None:
        """Return the first scripted fault that matches a request."""
        resource = ask.plural + (f"/{ask.part}" if ask.part else "")
        for index, (verb, wanted, fault, times) in enumerate(self._script):
            if verb in ("", ask.verb) and wanted in ("", resource):
                if times > 1:
                    self._script[index] = (verb, wanted, fault, times - 1)
                else:
                    del self._script[index]
                return fault
        return None
