"""What can go wrong between a server and its clients, chosen by a seed.

Which request is struck by what comes from SHA-256 over the seed and the number of the request, so the
same seed and the same requests give the same faults. Who carries bytes carries the faults out.
"""

from enum import Enum
from hashlib import sha256
from typing import Final, Protocol

from msgspec import Struct


class FaultKind(Enum):
    """A fault."""

    DROP = "drop"
    """The connection breaks before anything is done."""
    LOSE = "lose"
    """It is done, and the connection breaks before the answer; a watch breaks after some events."""
    DELAY = "delay"
    TWICE = "twice"
    """The request arrives a second time; the second answer is the one that is seen."""
    CUT = "cut"
    """The answer ends in the middle of a line, and the connection breaks."""
    STALL = "stall"
    """Half a line, and then silence."""
    GONE = "gone"
    """410 as status."""
    GONE_EVENT = "gone_event"
    """410 as an event of a watch."""
    THROTTLE = "throttle"
    """429 without Retry-After"""
    THROTTLE_LATER = "throttle_later"
    """429 with Retry-After"""
    CONFLICT = "conflict"
    """409, and nothing is done."""
    FORBID = "forbid"
    """403, as of a server that has just begun and has not read its roles; nothing is done."""
    FAIL = "fail"
    """500 as a Status, and nothing is done."""
    FAIL_AFTER = "fail_after"
    """500 as a Status, and it is done all the same."""
    FAIL_TEXT = "fail_text"
    """500 as plain text, and nothing is done."""
    EMPTY = "empty"
    """It is done; the status is good, and there is no body."""
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
"""What can befall a watch."""
UNDER_WAY: Final = (FaultKind.LOSE, FaultKind.CUT, FaultKind.STALL, FaultKind.GONE_EVENT)
"""What can befall a watch after some events."""
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
"""What can befall the reading of an object or a list."""
LIST: Final = (*READ, FaultKind.GONE)
WRITE: Final = (*READ, FaultKind.CONFLICT, FaultKind.FAIL_AFTER)
ALL: Final = tuple(FaultKind)


class FaultContext(Struct, frozen=True):
    """A request as the one who strikes sees it. `index` counts requests from 1."""

    index: int
    verb: str
    plural: str
    part: str = ""

    @property
    def possible(self) -> tuple[FaultKind, ...]:
        """What can befall it."""
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
    """What befalls a request. `amount` is how many events come before it, or how long it takes."""

    kind: FaultKind
    amount: int = 0
    """Events of a watch before it breaks; hundredths of a second of a delay; seconds to wait."""


class Faults(Protocol):
    """Who strikes."""

    def pick(self, ask: FaultContext) -> Fault | None:
        """What befalls a request; None: nothing."""
        ...


class NoFaults:
    """Nothing goes wrong."""

    def pick(self, ask: FaultContext) -> Fault | None:
        """Nothing."""
        return None


class SeededFaults:
    """So many of a thousand requests are struck, by a seed."""

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
        """Every watch breaks before so many events; 0: no more often than other requests."""
        self._per_thousand = per_thousand
        self._kinds = kinds
        self._spared = spared
        """Resources to which nothing happens."""
        self.is_on = True

    def pick(self, ask: FaultContext) -> Fault | None:
        """What befalls a request."""
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
        """A watch that was opened well still breaks some time."""
        possible = [kind for kind in UNDER_WAY if kind in self._kinds]
        if ask.verb != "watch" or not self._watch_events or not possible:
            return None
        kind = possible[int.from_bytes(chance[9:13], "big") % len(possible)]
        return Fault(kind, int.from_bytes(chance[13:17], "big") % self._watch_events)


class ScriptedFaults:
    """What tests ask for: the next so many requests of some kind are struck."""

    def __init__(self) -> None:
        self._script: list[tuple[str, str, Fault, int]] = []

    def add(self, fault: Fault, verb: str = "", resource: str = "", times: int = 1) -> None:
        """The next `times` requests with this verb and resource (`pods/binding`) are struck."""
        self._script.append((verb, resource, fault, times))

    def pick(self, ask: FaultContext) -> Fault | None:
        """What befalls a request: the first of the script that is meant for it."""
        resource = ask.plural + (f"/{ask.part}" if ask.part else "")
        for index, (verb, wanted, fault, times) in enumerate(self._script):
            if verb in ("", ask.verb) and wanted in ("", resource):
                if times > 1:
                    self._script[index] = (verb, wanted, fault, times - 1)
                else:
                    del self._script[index]
                return fault
        return None
