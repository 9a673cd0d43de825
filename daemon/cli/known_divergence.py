"""The divergence that a recorded log is known to have, in a file beside it: `names.muster.diverges.yaml` for `names.muster`.

    position: 20
    what: another decision
    decider: 3
    reason: since version 4 a text that cannot be a name puts a pod into no queue

The log passes `muster verify` if it diverges there, and in this way, and was decided by that version. It fails if it diverges
elsewhere, or not at all.
"""

from pathlib import Path
from typing import Final

from msgspec import Struct

from daemon.limits import limits_of
from daemon.text_file import read_text
from events.yaml_document import read_document
from replay.log_replay import Divergence
from scheduling.decide import DECIDER

SUFFIX: Final = ".diverges.yaml"
_KEYS: Final = ("position", "what", "decider", "reason")


class KnownDivergence(Struct, frozen=True):
    """What the file says."""

    place: str
    position: int
    what: str
    decider: int
    """Version of the deciding code that decided the log."""
    reason: str
    """Why the present version decides otherwise."""

    def problem(self, found: Divergence | None) -> str:
        """Return how a replay differs from what is known; empty if it does not."""
        known = f"{self.place} states a divergence at position {self.position}: {self.what}"
        if found is None:
            return f"{known}; there is none"
        if (found.position, found.what) != (self.position, self.what):
            return f"{known}; the first is at position {found.position}: {found.what}"
        if found.decider != self.decider:
            return f"{known}, decided by version {self.decider}; it was decided by version {found.decider}"
        if not found.is_of_another_version:
            return f"{known}; the present version decided it, so it is a bug"
        return ""


def known_divergence(log: Path) -> KnownDivergence | None:
    """Return the divergence that the file beside a log states; None if there is no such file.

    Raises DocumentError with file and line for a file that states none.
    """
    path = log.with_name(f"{log.name}{SUFFIX}")
    if not path.is_file():
        return None
    document = read_document(read_text(path), str(path), limits_of().yaml_nodes)
    fields = document.fields("a known divergence", _KEYS)
    for key in _KEYS:
        if key not in fields:
            raise document.error(f"a known divergence must have the key {key}")
    decider = fields["decider"].whole("decider", 1)
    if decider >= DECIDER:
        raise fields["decider"].error(
            f"decider must be an earlier version than {DECIDER}, the present one: a divergence under the same is a bug"
        )
    return KnownDivergence(
        place=path.name,
        position=fields["position"].whole("position", 1),
        what=fields["what"].text("what"),
        decider=decider,
        reason=fields["reason"].text("reason"),
    )


def log_of(path: Path) -> Path:
    """Return the log that a file beside it is about."""
    return path.with_name(path.name.removesuffix(SUFFIX))
