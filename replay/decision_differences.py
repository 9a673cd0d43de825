"""All decisions that differ between two runs: made in one only, with another result, or at another time.

The n-th decision of a kind about a pod (or about a pod group as a whole) in one run is compared with the n-th one in the
other; refusals of a pod group are told apart by their code. Times count from the beginning of each run. Messages are not compared,
nor the pod at which a refusal was found.
"""

from collections import Counter
from typing import Final, TypeAlias

from msgspec import Struct

from replay.what_if_figures import RunFigures, TimedDecision

LATE_NS: Final = 500_000_000
"""How much earlier or later a decision of a real daemon may be without counting as different: its cycles are held late by
some milliseconds, and by more on a busy machine."""

ONLY_IN_ONE: Final = "only in one"
ONLY_IN_OTHER: Final = "only in other"
ELSEWHERE: Final = "elsewhere"
OTHERWISE: Final = "otherwise"
EARLIER: Final = "earlier"
LATER: Final = "later"
WHATS: Final = (ONLY_IN_ONE, ONLY_IN_OTHER, ELSEWHERE, OTHERWISE, EARLIER, LATER)

_Key: TypeAlias = tuple[str, str, str]


class DecisionDifference(Struct, frozen=True):
    """A decision that differs. One side is None where only the other run decides it."""

    what: str
    """One of `WHATS`: of the other run, as seen from the one."""
    one: TimedDecision | None
    other: TimedDecision | None
    later_ns: int = 0
    """How much later it comes in the other run; negative if earlier, 0 if only one run decides it."""

    @property
    def shown(self) -> TimedDecision:
        """Return the decision, of the first run that has it."""
        found = self.one or self.other
        assert found is not None
        return found


def decision_differences(
    one: RunFigures, other: RunFigures, one_start_ns: int, other_start_ns: int, late_ns: int = 0
) -> list[DecisionDifference]:
    """Return the decisions that differ, in the order of their times. Up to `late_ns` no time differs from another."""
    left, right = _by_key(one, one, other), _by_key(other, one, other)
    found: list[tuple[int, DecisionDifference]] = []
    for key in dict.fromkeys((*left, *right)):
        before, after = left.get(key), right.get(key)
        times_ns = [
            timed.at_ns - start_ns
            for timed, start_ns in ((before, one_start_ns), (after, other_start_ns))
            if timed is not None
        ]
        at_ns = min(times_ns)
        if before is None or after is None:
            what = ONLY_IN_OTHER if before is None else ONLY_IN_ONE
            found.append((at_ns, DecisionDifference(what, before, after)))
            continue
        later_ns = times_ns[1] - times_ns[0]
        what = _what(before, after, later_ns, late_ns)
        if what:
            found.append((at_ns, DecisionDifference(what, before, after, later_ns)))
    return [difference for _, difference in sorted(found, key=lambda pair: pair[0])]


def counts_of(differences: list[DecisionDifference]) -> dict[str, int]:
    """Return how many differ in what way, in the order of `WHATS`."""
    counts = Counter(one.what for one in differences)
    return {what: counts[what] for what in WHATS if counts[what]}


def _what(before: TimedDecision, after: TimedDecision, later_ns: int, late_ns: int) -> str:
    """Return how the other decision differs; empty if it does not."""
    one, other = before.decision, after.decision
    if (one.node, one.devices) != (other.node, other.devices):
        return ELSEWHERE
    if (one.queue, one.in_favour_of, one.code) != (other.queue, other.in_favour_of, other.code):
        return OTHERWISE
    if abs(later_ns) <= late_ns:
        return ""
    return LATER if later_ns > 0 else EARLIER


def _by_key(
    run: RunFigures, one: RunFigures, other: RunFigures
) -> dict[tuple[_Key, int], TimedDecision]:
    """Return the decisions of a run by what they are about, and how many of these came before."""
    found: dict[tuple[_Key, int], TimedDecision] = {}
    counts: Counter[_Key] = Counter()
    for timed in run.decisions:
        decision = timed.decision
        group = decision.pod_group
        if group not in one.named or group not in other.named:
            # Its name may be made of a UID, which differs between runs.
            group = run.first_pod.get(group, group)
        is_of_pod = bool(decision.node) or not group
        about = (decision.pod, "") if is_of_pod else (group, decision.code)
        key = (decision.kind, *about)
        found[key, counts[key]] = timed
        counts[key] += 1
    return found
