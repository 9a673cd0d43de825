"""What a job may state, as the policy bounds it for a queue (`queues`) or a pool (`pools`): priority, weight, preemption timeout,
that it is not preemptible, a queue position, a submission time.

A job's bounds are those of its queue and of its pool together. What a job states beyond them is cut to the bound, with a
configuration error of the job alone. A queue position and a submission time count only where the policy says that they may
be stated: with them a job would put itself before all others. What an operator sets (`GroupOverride`) is not bounded.
"""

import re
from fractions import Fraction
from typing import Final

from msgspec import Struct

from events.duration import SECOND
from events.errors import PolicyError
from events.limits import INT32_MAX, quoted
from projections.policy.policy_values import JsonObject, fraction_at, span_at, truth_at

KEYS: Final = (
    "priorityMax",
    "priorityFromPods",
    "weightMax",
    "preemptionTimeoutMax",
    "preemptible",
    "position",
    "submissionTime",
)
"""Keys of the policy, of an entry of `queues` and of `pools`."""

TIMEOUT_MAX_NS: Final = 3600 * SECOND
"""Longest preemption timeout that a job may state where the policy bounds none, unless the pool's own is longer."""

SYSTEM_PRIORITY_MIN: Final = 1_000_000_000
"""The highest priority that users may give to a PriorityClass: those above are of Kubernetes itself."""
SYSTEM_NAMESPACE: Final = "kube-system"

DECIMALS: Final = 1_000_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,10}")


class JobBounds(Struct, frozen=True):
    """Bounds of one queue or pool; None: it states none."""

    priority_max: int | None = None
    """The most important priority that a job may have."""
    priority_from_pods: bool = False
    """Whether the priority of a PodGroup is at most the highest one of its pods, once it has any."""
    weight_max: tuple[int, int] | None = None
    timeout_max_ns: int | None = None
    may_refuse_preemption: bool | None = None
    """Whether a job may state that it is not preemptible."""
    may_state_position: bool | None = None
    may_state_submission: bool | None = None


UNBOUNDED: Final = JobBounds()


def read_job_bounds(given: JsonObject, path: str) -> JobBounds:
    """Return the bounds of an entry of the policy. Raise PolicyError, which names the path."""
    if given.keys().isdisjoint(KEYS):
        return UNBOUNDED
    weight: tuple[int, int] | None = None
    if "weightMax" in given:
        stated = fraction_at(given["weightMax"], f"{path}.weightMax")
        if stated <= 0 or (stated * DECIMALS).denominator != 1:
            raise PolicyError(
                f"{path}.weightMax: expected a number above 0 with at most six decimals"
            )
        weight = (stated.numerator, stated.denominator)
    timeout: int | None = None
    if "preemptionTimeoutMax" in given:
        timeout = span_at(given["preemptionTimeoutMax"], f"{path}.preemptionTimeoutMax")

    def truth(key: str) -> bool | None:
        return truth_at(given[key], f"{path}.{key}") if key in given else None

    return JobBounds(
        priority_max=_priority_at(given["priorityMax"], f"{path}.priorityMax")
        if "priorityMax" in given
        else None,
        priority_from_pods=truth("priorityFromPods") is True,
        weight_max=weight,
        timeout_max_ns=timeout,
        may_refuse_preemption=truth("preemptible"),
        may_state_position=truth("position"),
        may_state_submission=truth("submissionTime"),
    )


def is_permitted(stated: tuple[bool | None, ...], *, default: bool) -> bool:
    """Return whether something may be stated: where one of queue and pool forbids it, not; else where one permits it."""
    if False in stated:
        return False
    return True in stated or default


def smaller_weight(one: tuple[int, int] | None, other: tuple[int, int] | None) -> Fraction | None:
    """Return the smaller of two bounds of weights; None without any."""
    found = [Fraction(*stated) for stated in (one, other) if stated is not None]
    return min(found, default=None)


def _priority_at(value: object, path: str) -> int:
    is_number = isinstance(value, (int, str)) and not isinstance(value, bool)
    if not is_number or not _WHOLE.fullmatch(str(value)) or abs(int(str(value))) > INT32_MAX:
        shown = quoted(str(value)[:40])
        raise PolicyError(f"{path}: expected a whole number of 32 bits, got {shown}")
    return int(str(value))
