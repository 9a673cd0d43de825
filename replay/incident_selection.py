"""Which incidents are asked for: all, or those of a moment, a node, a fault or a pod group."""

import re
from typing import Final

from msgspec import Struct

from events.errors import UsageError
from replay.log_time import LogTime

_FAULT: Final = re.compile(r"(?P<place>[^@]+)(?:@(?P<position>[0-9]{1,18}))?")


class Selection(Struct, frozen=True):
    """What is asked for; everything is empty for all incidents."""

    moment: LogTime | None = None
    node: str = ""
    place: str = ""
    """`NODE/DEVICE`, `NODE`, or the key of a pod group."""
    position: int = 0
    """Position of the fault; 0 for any."""
    pod_group: str = ""

    @property
    def is_everything(self) -> bool:
        """Return whether all incidents are asked for."""
        return self == Selection()

    @property
    def text(self) -> str:
        """Return what is asked for, for people."""
        if self.place:
            return f"fault {self.place}" + (f"@{self.position}" if self.position else "")
        if self.node:
            return f"node {self.node}"
        return f"pod group {self.pod_group}" if self.pod_group else "the log"


def parse_fault(text: str) -> Selection:
    """Parse `NODE/DEVICE@POSITION`, `NODE@POSITION`, or either without a position. Raises UsageError."""
    found = _FAULT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"--fault {text!r} names no fault: give NODE/DEVICE@POSITION or NODE@POSITION, as `muster incident LOG` lists them"
        )
    return Selection(place=found["place"], position=int(found["position"] or 0))


def parse_pod_group(text: str) -> Selection:
    """Parse `namespace/name`, or a name in the namespace default. Raises UsageError."""
    parts = text.strip().removeprefix("PodGroup/").split("/")
    if len(parts) > 2 or not all(parts):
        raise UsageError(f"--pod-group {text!r} names no pod group: give NAMESPACE/NAME")
    return Selection(pod_group="/".join(parts) if len(parts) == 2 else f"default/{parts[0]}")
