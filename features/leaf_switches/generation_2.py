"""Leaf-switch affinity 2.0 (NSLB 2.0): switches are idle, shared or exclusive, and shared ones healthy or unhealthy.

    from                        event                                              to
    idle                        a crossing job takes all free servers              exclusive
    idle                        a crossing job takes some of them                  shared, healthy
    idle                        a job under this switch alone                      idle
    shared, healthy             more crossing jobs, each within the limit          shared, healthy
    shared healthy, exclusive   a common job above the limit (no foundation job)   shared, unhealthy
    any                         the last crossing job on it is gone                idle

Foundation jobs use at most `shared-tor-num` shared switches, and none that is unhealthy. What a switch is follows from the
jobs on it (`features/leaf_switches/index.py`).
"""

from bisect import bisect_left
from typing import Final

from features.leaf_switches.index import EXCLUSIVE, IDLE, SHARED
from features.leaf_switches.plan import (
    NO_ROOM,
    NO_ROOM_FOR_REST,
    NO_ROOM_LARGE,
    NO_ROOM_NORMAL,
    FreeSwitch,
    Plan,
    SwitchJob,
    ascending,
    descending,
    take_used,
)

_SMALL_ORDER: Final = (
    ("exclusive", EXCLUSIVE, False),
    ("shared unhealthy", SHARED, True),
    ("shared healthy", SHARED, False),
    ("idle", IDLE, False),
)
"""In which switches a job that fits under one is put first."""


def place(job: SwitchJob, switches: list[FreeSwitch]) -> Plan:
    """Return the plan of a job."""
    plan = Plan()
    if job.is_padding or job.count < job.servers_per_switch:
        if _under_one(job, switches, plan):
            return plan
        if job.is_padding:
            return plan.refuse(NO_ROOM)
    idle = _of(switches, IDLE)
    shared = ascending(_of(switches, SHARED, is_unhealthy=False))
    most = sum(one.free for one in idle) + _best_shared(shared, job.shared_limit)
    plan.walk.append(f"idle switches and {job.shared_limit} shared ones have {most} free")
    if job.count <= most:
        _within_limit(job, idle, shared, plan)
        return plan
    if job.is_large:
        return plan.refuse(NO_ROOM_LARGE)
    return _above_limit(job, switches, idle, shared, plan)


def place_rest(job: SwitchJob, used: list[FreeSwitch], others: list[FreeSwitch]) -> Plan:
    """Return the plan of the remaining pods of a job that crosses the switches `used`: there first, then under idle switches
    that it fills, under healthy shared ones within the limit, and under a part of an idle one."""
    plan = Plan()
    left = take_used(plan, used, job.count)
    rest: list[FreeSwitch] = []
    for one in ascending(_of(others, IDLE)) if left else ():
        if left < one.free:
            rest.append(one)
            continue
        plan.take(one, one.free, EXCLUSIVE)
        left -= one.free
    if not left:
        return plan
    limit = max(0, job.shared_limit - sum(one.state.is_shared == SHARED for one in used))
    shared = ascending(_of(others, SHARED, is_unhealthy=False)) if limit else []
    plan.walk.append(
        f"{limit} more shared switches may be used, which have {_best_shared(shared, limit)} free"
    )
    if left <= _best_shared(shared, limit):
        for one in _closest(shared, left, limit):
            count = min(left, one.free)
            plan.take(one, count, SHARED)
            left -= count
        return plan
    if not rest:
        return plan.refuse(NO_ROOM_FOR_REST)
    plan.take(rest[0], left, SHARED if limit else EXCLUSIVE)
    return plan


def _of(
    switches: list[FreeSwitch], is_shared: int, *, is_unhealthy: bool | None = None
) -> list[FreeSwitch]:
    return [
        one
        for one in switches
        if one.state.is_shared == is_shared
        and (is_unhealthy is None or one.state.is_unhealthy == is_unhealthy)
    ]


def _under_one(job: SwitchJob, switches: list[FreeSwitch], plan: Plan) -> bool:
    """Take one switch with enough candidates; it stays what it is."""
    for text, is_shared, is_unhealthy in _SMALL_ORDER:
        if is_unhealthy and job.is_large and not job.is_padding:
            plan.walk.append("unhealthy switches are passed over: it is a foundation job")
            continue
        of_kind = _of(
            switches, is_shared, is_unhealthy=is_unhealthy if is_shared == SHARED else None
        )
        found = next((one for one in ascending(of_kind) if one.free >= job.count), None)
        if found is not None:
            plan.walk.append(f"one {text} switch is enough")
            plan.take(found, job.count)
            return True
        plan.walk.append(f"no {text} switch has {job.count} free")
    return False


def _best_shared(shared: list[FreeSwitch], limit: int) -> int:
    """Return how many candidates as many shared switches as a job may use have at most; they are given in ascending
    order."""
    return sum(one.free for one in shared[-limit:]) if limit else 0


def _within_limit(
    job: SwitchJob, idle: list[FreeSwitch], shared: list[FreeSwitch], plan: Plan
) -> None:
    """Take idle switches whole, and the rest from shared ones or from one more idle one, which becomes shared."""
    left, rest = job.count, descending(idle)
    while rest and left >= rest[0].free:
        one = rest.pop(0)
        plan.take(one, one.free, EXCLUSIVE)
        left -= one.free
    if not left:
        return
    if left <= _best_shared(shared, job.shared_limit):
        for one in _closest(shared, left, job.shared_limit):
            count = min(left, one.free)
            plan.take(one, count, SHARED)
            left -= count
        return
    # More than the shared switches have: an idle one, as the job is within the sum of both.
    plan.walk.append(f"shared switches have less than {left} free")
    one = next(one for one in ascending(rest) if one.free >= left)
    plan.take(one, left, SHARED)


def _closest(shared: list[FreeSwitch], count: int, limit: int) -> list[FreeSwitch]:
    """Return the one or two switches with the fewest candidates that are enough together; of equal ones the two. They are
    given in ascending order."""
    free = [one.free for one in shared]
    found: list[tuple[int, int, list[FreeSwitch]]] = []
    if (at := bisect_left(free, count)) < len(shared):
        found.append((free[at], 1, [shared[at]]))
    for index in range(len(shared) - 1 if limit > 1 else 0):
        at = bisect_left(free, count - free[index], index + 1)
        if at < len(shared):
            found.append((free[index] + free[at], 0, [shared[index], shared[at]]))
    return min(found, key=lambda one: one[:2])[2]


def _above_limit(
    job: SwitchJob,
    switches: list[FreeSwitch],
    idle: list[FreeSwitch],
    shared: list[FreeSwitch],
    plan: Plan,
) -> Plan:
    """Place a common job that is too large for the limit: all idle switches, then unhealthy ones, then others on which no
    foundation job crosses; they become unhealthy."""
    plan.walk.append("common job above the limit: switches may become unhealthy")
    left = job.count
    for one in descending(idle):
        plan.take(one, min(left, one.free), EXCLUSIVE)
        left -= min(left, one.free)
    unhealthy = ascending(_of(switches, SHARED, is_unhealthy=True))
    exclusive = ascending(_of(switches, EXCLUSIVE))
    for one in (*unhealthy, *shared, *exclusive):
        if not left:
            break
        if one.state.large:
            plan.walk.append(f"{one.name} is passed over: {one.state.large[0]} crosses it")
            continue
        plan.take(one, min(left, one.free), SHARED, is_unhealthy=True)
        left -= min(left, one.free)
    return plan.refuse(NO_ROOM_NORMAL) if left else plan
