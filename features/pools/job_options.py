"""What a job states for the pool deciders: annotations and labels of its PodGroup and pods (docs/pools.md).

The PodGroup counts before its pods, an annotation before a label, and of pods the one that was created first.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from re import compile as pattern
from typing import Final

from msgspec import Struct

from events.duration import nanoseconds
from events.limits import object_name_problem, whole_number
from projections.job_option_keys import (
    DETERMINED_POOL,
    DETERMINED_POSITION,
    DETERMINED_TASK,
    DETERMINED_TYPE,
    JOB,
    MAX_SLOTS,
    POOL,
    POSITION,
    PREEMPTIBLE,
    PRIORITY,
    SINGLE_NODE,
    SUBMITTED,
    TIMEOUT,
    WEIGHT,
    OptionProblems,
)
from projections.objects import nanoseconds_of
from projections.pod_terms import Labels
from projections.policy.pools import (
    FAIR_SHARE,
    PRIORITY_MAX,
    PRIORITY_MIN,
    ROUND_ROBIN,
    SESSION,
    Pool,
)
from projections.policy.pools import PRIORITY as PRIORITY_DECIDER

TRIAL: Final = "TRIAL"
NOT_PREEMPTIBLE: Final = (
    "NOTEBOOK",
    "SHELL",
    "COMMAND",
    "TENSORBOARD",
    "GENERIC",
    "CHECKPOINT_GC",
)
"""Task types that are not preempted."""

NUMBER_CHARS_MAX: Final = 40
_DECIMAL: Final = pattern(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_WEIGHT: Final = pattern(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
"""At most six decimals: all weights of a pool are brought to one denominator."""

INVALID_OPTION: Final = "InvalidJobOption"
"""Code of the configuration error for a value that cannot be used."""
USED_OPTIONS: Final = {
    PRIORITY_DECIDER: (PRIORITY, MAX_SLOTS, POSITION),
    FAIR_SHARE: (WEIGHT, MAX_SLOTS),
    ROUND_ROBIN: (),
    SESSION: (),
}
"""Decider to the options with an effect, of priority, weight, cap and queue position."""


class JobOptions(Struct, frozen=True):
    """What a job states. None where it states nothing."""

    pool: str = ""
    job: str = ""
    priority: int | None = None
    weight: tuple[int, int] | None = None
    max_slots: int | None = None
    position: Fraction | None = None
    submitted_ns: int | None = None
    is_preemptible: bool = True
    timeout_ns: int | None = None
    is_single_node: bool = False
    stated: tuple[str, ...] = ()
    """Those of the keys of priority, weight, cap and queue position that it states with a value that can be used."""
    problems: tuple[tuple[str, str], ...] = ()
    """Code and message of values that cannot be used; they count as not stated."""
    cuts: tuple[str, ...] = ()
    """Messages about values that are beyond a bound of the queue or pool, and what counts instead."""
    by_operator: tuple[str, ...] = ()
    """Those of the keys of pool, priority, weight, cap and queue position that an operator has set."""


def read_job_options(stated: Mapping[str, str]) -> JobOptions:
    """Return what keys and values state. What cannot be used is named in `problems`."""
    problems: list[tuple[str, str]] = []

    def wrong(key: str, wanted: str) -> None:
        shown = stated[key][:NUMBER_CHARS_MAX]
        problems.append(
            (INVALID_OPTION, f"{key}: {shown!r} is not {wanted}: it counts for nothing")
        )

    names = {POOL: "", JOB: ""}
    for key in names:
        if key in stated:
            if object_name_problem(stated[key]) or not stated[key]:
                wrong(key, "a valid name")
            else:
                names[key] = stated[key]
    pool = names[POOL] or _valid_name(stated.get(DETERMINED_POOL, ""))
    job = names[JOB]
    kind = stated.get(DETERMINED_TYPE, "").removeprefix("TASK_TYPE_")
    if not job and kind == TRIAL:
        experiment, dot, _ = stated.get(DETERMINED_TASK, "").partition(".")
        job = _valid_name(experiment) if dot else ""
    priority = whole_number(stated[PRIORITY]) if PRIORITY in stated else None
    if PRIORITY in stated and (priority is None or not PRIORITY_MIN <= priority <= PRIORITY_MAX):
        wrong(PRIORITY, f"a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}")
        priority = None
    weight = None
    if WEIGHT in stated and _WEIGHT.fullmatch(stated[WEIGHT]):
        weight = Fraction(stated[WEIGHT])
    if WEIGHT in stated and (weight is None or weight <= 0):
        wrong(WEIGHT, "a number above 0 with at most six decimals")
        weight = None
    most = whole_number(stated[MAX_SLOTS]) if MAX_SLOTS in stated else None
    if MAX_SLOTS in stated and (most is None or most < 0):
        wrong(MAX_SLOTS, "a whole number of at least 0")
        most = None
    key = POSITION if POSITION in stated else DETERMINED_POSITION
    position = _decimal(stated[key]) if key in stated else None
    if key in stated and position is None:
        wrong(key, "a number")
    submitted = (nanoseconds_of(stated[SUBMITTED]) or None) if SUBMITTED in stated else None
    if SUBMITTED in stated and submitted is None:
        wrong(SUBMITTED, "a time of RFC 3339")
    truths = {}
    for key, default in ((PREEMPTIBLE, kind not in NOT_PREEMPTIBLE), (SINGLE_NODE, False)):
        truths[key] = default
        if key in stated:
            if stated[key] in ("true", "false"):
                truths[key] = stated[key] == "true"
            else:
                wrong(key, "true or false")
    timeout = None
    if TIMEOUT in stated:
        try:
            timeout = nanoseconds(stated[TIMEOUT])
        except ValueError:
            wrong(TIMEOUT, "a time such as 90s or 1.5h")
    found = {PRIORITY: priority, WEIGHT: weight, MAX_SLOTS: most, POSITION: position}
    return JobOptions(
        pool=pool,
        job=job,
        priority=priority,
        weight=None if weight is None else (weight.numerator, weight.denominator),
        max_slots=most,
        position=position,
        submitted_ns=submitted,
        is_preemptible=truths[PREEMPTIBLE],
        timeout_ns=timeout,
        is_single_node=truths[SINGLE_NODE],
        stated=tuple([key for key, value in found.items() if key in stated and value is not None]),
        problems=tuple(problems),
    )


@lru_cache(maxsize=1 << 15)
def job_options(of_object: Labels, of_pods: tuple[Labels, ...]) -> JobOptions:
    """Return what a job states, from the keys of its PodGroup and of its pods, the first pod first."""
    stated: dict[str, str] = {}
    for one in reversed(of_pods):
        stated |= dict(one)
    return read_job_options({**stated, **dict(of_object)})


class OptionReader(OptionProblems):
    """Reads the options of jobs to find those that cannot be used."""

    def problems(self, stated: Labels) -> tuple[tuple[str, str], ...]:
        """Return code and message of values that cannot be used."""
        return job_options(stated, ()).problems


def unused_option(key: str, pool: Pool) -> str:
    """Return why an option of a job has no effect in its pool; "" if it has one."""
    used = USED_OPTIONS[pool.decider]
    if key in used:
        return ""
    listed = ", ".join(used) or "none of priority, weight, max-slots and queue-position"
    return f"{key} has no effect in pool {pool.name}: its decider {pool.decider} uses {listed}"


def _valid_name(name: str) -> str:
    return "" if object_name_problem(name) else name


def _decimal(text: str) -> Fraction | None:
    return Fraction(text) if _DECIMAL.fullmatch(text) else None
