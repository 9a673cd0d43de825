"""What was decided in a log, apart from positions and texts, and a digest of it."""

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from events.cycle import CycleOpened
from events.decision import Decision
from events.record import Record
from events.union import Event

COUNTED: Final = (
    "bind",
    "enqueue",
    "pipeline",
    "withdraw",
    "evict",
    "release",
    "reschedule",
    "restart_ended",
    "mark",
)
REFUSED: Final = "refuse"
DIGITS: Final = 16


class Decided(Struct, array_like=True):
    """One decision about a pod or pod group."""

    kind: str
    at_ns: int
    pod: str
    pod_group: str
    node: str
    cards: dict[str, int]
    devices: tuple[str, ...]
    in_favour_of: str
    code: str


class Decisions:
    """The decisions of one log, in order."""

    def __init__(self) -> None:
        self._at_ns = 0
        self.all: list[Decided] = []
        self.refusals = 0

    def add(self, record: Record, event: Event) -> None:
        """Add those of a record, if it is a decision."""
        if isinstance(event, CycleOpened):
            self._at_ns = event.at_ns
        if not isinstance(event, Decision):
            return
        if event.word == REFUSED:
            self.refusals += 1
        if event.word not in COUNTED:
            return
        for item in event.items():
            self.all.append(
                Decided(
                    event.word,
                    self._at_ns,
                    item.pod,
                    item.pod_group,
                    item.node,
                    dict(sorted(item.cards.items())),
                    item.devices,
                    item.in_favour_of,
                    item.code,
                )
            )

    @property
    def line(self) -> str:
        """Return number, digest and number of refusals."""
        digest = sha256(msgspec.json.encode(self.all)).hexdigest()[:DIGITS]
        return f"{len(self.all)} {digest} {self.refusals}"
