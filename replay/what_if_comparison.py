"""Comparison of two runs of a branch: the first decision that differs, and the pods that were placed elsewhere."""

from itertools import zip_longest

from msgspec import Struct

from events.record import Head
from replay.what_if_figures import RunFigures, TimedDecision


class Branch(Struct, frozen=True):
    """The part of a log behind a position: as it happened, and as a simulated cluster runs it once more."""

    place: str
    """The log."""
    decider: int
    """Version of the deciding code that decided the log."""
    head: Head
    """The last record that stands."""
    start_ns: int
    """When the log began."""
    at_ns: int
    """When the branch begins."""
    end_ns: int
    """When the log ends, and so do the runs."""
    recorded: RunFigures
    """What happened."""
    model: RunFigures
    """What the simulated cluster does without the change."""
    changed: RunFigures
    """What it does with the change."""

    def baseline(self, name: str) -> RunFigures:
        """Return the run that the change is compared with: `record` or `model`."""
        return self.recorded if name == "record" else self.model


class DecisionPair(Struct, frozen=True):
    """The first decision that differs in two runs; None where a run decides nothing more."""

    one: TimedDecision | None
    other: TimedDecision | None


class PlacementPair(Struct, frozen=True):
    """A pod and its last node in two runs; an empty name if it was given none."""

    pod: str
    one: str
    other: str


def first_difference(one: RunFigures, other: RunFigures) -> DecisionPair | None:
    """Return the first decision that differs; None if there is none.

    Times and texts are not compared: the cycles of a recorded daemon are held some milliseconds late.
    """
    for left, right in zip_longest(one.decisions, other.decisions):
        if left is None or right is None or left.decision != right.decision:
            return DecisionPair(left, right)
    return None


def moved_pods(one: RunFigures, other: RunFigures) -> list[PlacementPair]:
    """Return the pods whose last node differs, in the order in which they were placed."""
    pods = dict.fromkeys((*one.nodes, *other.nodes))
    pairs = [PlacementPair(pod, one.nodes.get(pod, ""), other.nodes.get(pod, "")) for pod in pods]
    return [pair for pair in pairs if pair.one != pair.other]
