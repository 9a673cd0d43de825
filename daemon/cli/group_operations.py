"""Change the priority, weight, cap, queue position or pool of jobs through the Kubernetes API.

Each operation writes a GroupOverride for each pod group of the job, which the daemon observes like any other object. Tenants
cannot write it, so what it sets counts before what the job states.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from secrets import SystemRandom
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from daemon.cli.failure import reason_of
from daemon.clock import WallClock
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.errors import UnreachableError
from daemon.cluster.client.http_client import Client
from daemon.cluster.group_overrides import (
    Counts,
    Job,
    Member,
    Override,
    Value,
    counts_nothing,
    delete_override,
    find_job,
    jobs_of,
    list_overrides,
    list_pod_groups,
    list_pods,
    override,
)
from daemon.version import VERSION
from events.errors import MusterError, UsageError
from events.limits import INT32_MAX, object_name_problem, quoted
from features.pools.group_overrides import NO_CAP
from projections.job_option_keys import (
    DETERMINED_POOL,
    DETERMINED_POSITION,
    MAX_SLOTS,
    POOL,
    POSITION,
    PRIORITY,
    WEIGHT,
)
from projections.policy.pools import PRIORITY_MAX, PRIORITY_MIN

if TYPE_CHECKING:
    from daemon.queries.jobs import KnownPools

PRIORITY_OF: Final = "priority"
WEIGHT_OF: Final = "weight"
MAX_SLOTS_OF: Final = "max-slots"
POOL_OF: Final = "pool"
AHEAD_OF: Final = "ahead-of"
BEHIND: Final = "behind"
"""What an operation changes; the keys of `muster group update`."""
CHANGES: Final = (PRIORITY_OF, WEIGHT_OF, MAX_SLOTS_OF, POOL_OF, AHEAD_OF, BEHIND)
_OTHER_NAMES: Final = {"resource-pool": POOL_OF, "behind-of": BEHIND}
"""Names that Determined has for some of them."""
_KEYS: Final = {PRIORITY_OF: PRIORITY, WEIGHT_OF: WEIGHT, MAX_SLOTS_OF: MAX_SLOTS, POOL_OF: POOL}
"""Change to the annotation by which a job states the same."""
_FIELDS: Final = {PRIORITY_OF: "priority", WEIGHT_OF: "weight", MAX_SLOTS_OF: "maxSlots"}
"""Change to the field of the override."""

NONE: Final = "none"
"""Value by which a job has no cap, whatever it states."""
VOID_MAX: Final = 1_000
"""Overrides that are void which one command deletes at most."""
WEIGHT_MAX: Final = 1_000_000
FRACTION_DIGITS: Final = 20
"""Digits after the point that the daemon reads in positions."""
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
"""Weights as the daemon reads them."""
STEP: Final = Fraction(1, 10**FRACTION_DIGITS)
"""Smallest step between two positions."""
HEAD: Final = Fraction(0)
"""Position of the virtual head of a queue."""
MICROSECOND: Final = 1000
AT_SUBMISSION: Final = "queue position reset to the submission time"

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GROUP: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_WHOLE: Final = re.compile(r"[0-9]{1,10}")
_DECIMAL: Final = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")


class Operation(Struct, frozen=True):
    """One change of one job."""

    group: str
    """`namespace/name`"""
    change: str
    """One of `CHANGES`."""
    value: str
    """The new value in its normal form; `none` for no cap; `namespace/name` of the anchor of a move."""


class Done(Struct, frozen=True):
    """What an operation did."""

    group: str
    change: str
    is_changed: bool
    message: str
    values: dict[str, Value] = {}
    """Fields of the overrides that were set; None for removed ones."""
    objects: tuple[str, ...] = ()
    """Kind and name of the overrides that were written."""


class Failed(Struct, frozen=True):
    """Why an item of a batch was not done."""

    group: str
    change: str
    error: str


class Place(Struct, frozen=True):
    """Where a move puts a job."""

    position: Fraction
    neighbour: str
    """The job on the other side; "" for the head or the tail of the queue."""


def operation(group: str, change: str, value: str) -> Operation:
    """Return a valid operation. Raise UsageError, which names what is wrong."""
    return Operation(group=_group(group), change=change, value=_value(change, value))


def parse_item(text: str) -> Operation:
    """Return the operation that an item of a batch states: `NAMESPACE/GROUP.priority=80`."""
    left, equals, value = text.partition("=")
    group, _, change = left.rpartition(".")
    change = _OTHER_NAMES.get(change, change).replace("_", "-")
    if not equals or change not in CHANGES:
        raise UsageError(
            f"{quoted(text)} is not NAMESPACE/GROUP.KEY=VALUE with one of the keys {', '.join(CHANGES)}"
        )
    return operation(group, change, value)


def parse_items(texts: Sequence[str]) -> list[Operation]:
    """Return the operations of a batch. Raise UsageError for all items that are wrong, before anything is changed."""
    found: list[Operation] = []
    wrong: list[str] = []
    for text in texts:
        try:
            found.append(parse_item(text))
        except UsageError as error:
            wrong.append(str(error))
    if wrong:
        raise UsageError("; ".join(wrong))
    return found


def run_one(access: Access, one: Operation, known: "KnownPools | None" = None) -> Done:
    """Do one operation, unless it has no effect in the pools that are known. Raise MusterError if it fails."""

    async def run() -> Done:
        client = await _connect(access)
        try:
            return await _apply(client, one, known)
        finally:
            await client.close()

    return asyncio.run(run())


def run_all(
    access: Access, operations: Sequence[Operation], known: "KnownPools | None" = None
) -> list[Done | Failed]:
    """Do operations one after the other. One that fails does not end the others, unless the server is not reached."""

    async def run() -> list[Done | Failed]:
        results: list[Done | Failed] = []
        client = await _connect(access)
        try:
            for one in operations:
                try:
                    results.append(await _apply(client, one, known))
                except UnreachableError:
                    raise
                except MusterError as error:
                    results.append(Failed(one.group, one.change, reason_of(error)[0]))
        finally:
            await client.close()
        return results

    return asyncio.run(run())


class OverrideRow(Struct, frozen=True):
    """What an operator has set for a pod group."""

    name: str
    group: str
    """`namespace/name` of the pod group; "" if the object does not say it."""
    values: dict[str, Value]
    void: str
    """Why it does not count; "" if it does."""


def override_rows(access: Access) -> list[OverrideRow]:
    """Return all overrides, by name. Raise MusterError if a request fails."""

    async def run() -> list[OverrideRow]:
        client = await _connect(access)
        try:
            return await _override_rows(client)
        finally:
            await client.close()

    return asyncio.run(run())


def reset_job(access: Access, group: str) -> Done:
    """Delete what operators have set for a job. Raise MusterError if it fails."""
    key = _group(group)

    async def run() -> Done:
        client = await _connect(access)
        try:
            overrides = await list_overrides(client)
            groups = {key}
            if all(one.group != key for one in overrides):
                groups = set((await find_job(client, key)).groups)
            names = [one.name for one in overrides if one.group in groups]
            gone = [name for name in names if await delete_override(client, name)]
        finally:
            await client.close()
        objects = tuple(f"GroupOverride {name}" for name in gone)
        text = (
            f"what operators had set is removed: {', '.join(objects)}"
            if gone
            else "no operator has set anything: nothing changed"
        )
        return Done(key, "reset", bool(gone), text, objects=objects)

    return asyncio.run(run())


def reset_void(access: Access, most: int = VOID_MAX) -> list[OverrideRow]:
    """Delete overrides that are void, at most so many; return them."""

    async def run() -> list[OverrideRow]:
        client = await _connect(access)
        try:
            void = [one for one in await _override_rows(client) if one.void]
            return [one for one in void[:most] if await delete_override(client, one.name)]
        finally:
            await client.close()

    return asyncio.run(run())


async def _override_rows(client: Client) -> list[OverrideRow]:
    overrides = await list_overrides(client)
    if not overrides:
        return []
    uids: dict[str, set[str]] = {}
    members: list[Member] = await list_pod_groups(client, with_ended=True)
    have_object = {one.group for one in members}
    pods = [one for one in await list_pods(client) if one.group not in have_object]
    for member in (*members, *pods):
        uids.setdefault(member.group, set()).update(member.uids)
    return [_override_row(one, uids.get(one.group)) for one in overrides]


def _override_row(one: Override, uids: set[str] | None) -> OverrideRow:
    void = one.problem
    if not void and uids is None:
        void = f"there is no pod group {one.group}"
    elif not void and uids is not None and one.spec.uid not in uids:
        void = f"it is for an earlier pod group {one.group}, of UID {one.spec.uid}"
    return OverrideRow(one.name, one.group.strip("/"), one.values, void)


def place_beside(
    job: Job, anchor: Job, queue: Sequence[Job], now_ns: int, *, is_ahead: bool
) -> Place | None:
    """Return the place right ahead of or behind the anchor; None if the job is there already.

    `queue` are the jobs of the anchor's pool and priority, the job and the anchor among them. The new position is the
    average of the anchor's and its neighbour's (determined 6.3): virtually, position 0 is ahead of all and now is behind
    all. If there is no number between the two, it is one smallest step beside the anchor's.
    """
    ordered = sorted(
        {one.key: one for one in (*queue, job, anchor)}.values(), key=lambda one: one.order
    )
    keys = [one.key for one in ordered]
    step = -1 if is_ahead else 1
    has_same_priority = job.priority == anchor.priority
    if has_same_priority and keys.index(job.key) == keys.index(anchor.key) + step:
        return None
    others = [one for one in ordered if one.key != job.key]
    at = [one.key for one in others].index(anchor.key) + step
    neighbour = others[at] if 0 <= at < len(others) else None
    if neighbour is not None:
        far = neighbour.position
    else:
        far = HEAD if is_ahead else Fraction(now_ns, MICROSECOND)
    average = _rounded((anchor.position + far) / 2)
    is_beside = average < anchor.position if is_ahead else average > anchor.position
    position = average if is_beside else _rounded(anchor.position) + step * STEP
    return Place(position, "" if neighbour is None else neighbour.key)


def decimal_text(number: Fraction) -> str:
    """Return a number with at most 20 digits after the point as a decimal, exactly."""
    scaled = number * 10**FRACTION_DIGITS
    assert scaled.denominator == 1, number
    whole, rest = divmod(abs(scaled.numerator), 10**FRACTION_DIGITS)
    digits = f".{rest:0{FRACTION_DIGITS}}".rstrip("0").rstrip(".")
    return f"{'-' if number < 0 else ''}{whole}{digits}"


def _rounded(number: Fraction) -> Fraction:
    """Return a number rounded down to the digits that the daemon reads."""
    return Fraction(number * 10**FRACTION_DIGITS // 1, 10**FRACTION_DIGITS)


async def _connect(access: Access) -> Client:
    return await Client.connect(access, SystemRandom().random, f"muster/{VERSION}")


async def _apply(client: Client, one: Operation, known: "KnownPools | None") -> Done:
    job = await find_job(client, one.group, _counts(known))
    if one.change in (AHEAD_OF, BEHIND):
        return await _move(client, one, job, known)
    if one.change == POOL_OF:
        return await _change_pool(client, one, job, known)
    if one.value != NONE:
        _check_option(known, one, _pool(job, known), _KEYS[one.change], one.value)
    field = _FIELDS[one.change]
    value: Value = one.value if one.change == WEIGHT_OF else _number(one.value)
    values: dict[str, Value] = {field: value}
    text = f"{one.change} {_text(job, one.change)} -> {one.value}"
    if one.change == PRIORITY_OF:
        values["position"] = _reset(job)
        text += f"; {AT_SUBMISSION}"
    return await _set(client, one, job, values, text)


def _number(text: str) -> int:
    return NO_CAP if text == NONE else int(text)


def _counts(known: "KnownPools | None") -> Counts:
    """Return what tells whether a job may state a position and a submission time; without a log that it may not."""
    return counts_nothing if known is None else known.counts


def _pool(job: Job, known: "KnownPools | None") -> str:
    """Return the pool of a job: the one that it states, else the one that the daemon found; "" if neither is known."""
    return job.options.pool or ("" if known is None else known.pool_of(job.groups))


def _check_option(
    known: "KnownPools | None", one: Operation, pool: str, key: str, value: str
) -> None:
    """Raise UsageError if it is known that an option has no effect in a pool."""
    if known is not None and (problem := known.option_problem(pool, key, value)):
        raise UsageError(f"group {one.group}: {problem}")


async def _change_pool(
    client: Client, one: Operation, job: Job, known: "KnownPools | None"
) -> Done:
    if known is not None:
        known.check_pool(one.value)
    if job.options.pool == one.value:
        return Done(one.group, one.change, False, f"already in pool {one.value}: nothing changed")
    text = f"pool {job.options.pool or 'not stated'} -> {one.value}; {AT_SUBMISSION}"
    return await _set(client, one, job, {"pool": one.value, "position": _reset(job)}, text)


async def _move(client: Client, one: Operation, job: Job, known: "KnownPools | None") -> Done:
    side = "ahead of" if one.change == AHEAD_OF else "behind"
    anchor = await find_job(client, one.value, _counts(known))
    if anchor.key == job.key:
        return Done(one.group, one.change, False, f"the same job as {one.value}: nothing changed")
    pools = _pool(job, known), _pool(anchor, known)
    _check_option(known, one, pools[1], POSITION, "")
    if all(pools) and pools[0] != pools[1]:
        raise UsageError(
            f"group {one.group} is in pool {pools[0]} and {one.value} in pool {pools[1]}: change its pool first"
        )
    queue = [
        other for other in await _jobs(client, job, anchor, known) if _may_share(other, anchor)
    ]
    now_ns = WallClock().now_ns()
    place = place_beside(job, anchor, queue, now_ns, is_ahead=one.change == AHEAD_OF)
    if place is None:
        return Done(
            one.group, one.change, False, f"already right {side} {one.value}: nothing changed"
        )
    position = decimal_text(place.position)
    values: dict[str, Value] = {"position": position}
    text = f"moved {side} {one.value}, queue position {position}"
    before, after = (_known_priority(each, known) for each in (job, anchor))
    if before is not None and after is not None and before != after and _is_settable(after):
        values["priority"] = after
        text += f"; priority {before} -> {after}, as {one.value} has"
    elif job.priority != anchor.priority:
        text += (
            f"; its priority may differ from that of {one.value}, and only among jobs of one priority does a position count:"
            f" give --log, or set the priority"
        )
    return await _set(client, one, job, values, text)


def _known_priority(job: Job, known: "KnownPools | None") -> int | None:
    """Return the priority of a job, if it is known: where an operator or the job sets it, or the log says it."""
    if PRIORITY in job.options.by_operator:
        return job.options.priority
    found = None if known is None else known.priority_of(job.groups)
    if found is None and not job.priority_class:
        return job.options.priority
    return found


def _is_settable(priority: int) -> bool:
    return PRIORITY_MIN <= priority <= PRIORITY_MAX


async def _jobs(client: Client, job: Job, anchor: Job, known: "KnownPools | None") -> list[Job]:
    """List the jobs among which a job is moved. Pods are listed only if one of the two has no PodGroup."""
    members = await list_pod_groups(client)
    without = [one for each in (job, anchor) for one in each.members if one.is_pod]
    for scheduler in dict.fromkeys(one.scheduler for one in without):
        members += await list_pods(client, scheduler=scheduler)
    return jobs_of(members, await list_overrides(client), _counts(known))


def _may_share(one: Job, anchor: Job) -> bool:
    """Return whether a job may be in the anchor's pool and of its priority. A value that is not stated is a default that
    is not known here. The position is right even if a job is taken that is elsewhere: it is closer to the anchor."""
    priorities = {one.priority, anchor.priority}
    pools = {one.options.pool, anchor.options.pool}
    return (len(priorities) == 1 or None in priorities) and (len(pools) == 1 or "" in pools)


async def _set(
    client: Client, one: Operation, job: Job, values: dict[str, Value], text: str
) -> Done:
    names = await override(client, job, values)
    objects = tuple(f"GroupOverride {name}" for name in names)
    return Done(one.group, one.change, True, text, values, objects)


def _reset(job: Job) -> str | None:
    """Return the position that sets a job back to its submission time: none, unless it states another, which may count."""
    stated = {key for one in job.members for key, _ in one.stated}
    if stated.isdisjoint((POSITION, DETERMINED_POSITION)):
        return None
    return decimal_text(Fraction(job.submitted_ns, MICROSECOND))


def _text(job: Job, change: str) -> str:
    """Return the value that a job has now, by an operator or as it states."""
    if change in _FIELDS:
        values = job.overrides[0].values if job.overrides else {}
        if (value := values.get(_FIELDS[change])) is not None:
            return NONE if (change, value) == (MAX_SLOTS_OF, NO_CAP) else str(value)
    elif job.options.pool:
        return job.options.pool
    stated: Mapping[str, str] = dict(job.members[0].stated)
    keys = (POOL, DETERMINED_POOL) if change == POOL_OF else (_KEYS[change],)
    return next((stated[key] for key in keys if key in stated), "not stated")


def _group(text: str) -> str:
    namespace, slash, name = text.partition("/")
    if not slash or not _NAMESPACE.fullmatch(namespace) or not _GROUP.fullmatch(name):
        raise UsageError(f"{quoted(text)} is not NAMESPACE/GROUP")
    return text


def _value(change: str, text: str) -> str:
    """Return a value in its normal form. Raise UsageError if it is wrong."""
    match change:
        case "priority":
            number = int(text) if _WHOLE.fullmatch(text) else 0
            if not PRIORITY_MIN <= number <= PRIORITY_MAX:
                wanted = f"a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}"
                raise UsageError(f"priority {quoted(text)} is not {wanted}")
            return str(number)
        case "weight":
            weight = Fraction(text) if _WEIGHT.fullmatch(text) else Fraction(0)
            if not 0 < weight <= WEIGHT_MAX:
                wanted = (
                    f"a decimal number above 0 and at most {WEIGHT_MAX}, with at most six decimals"
                )
                raise UsageError(f"weight {quoted(text)} is not {wanted}")
            return decimal_text(weight)
        case "max-slots":
            if text == NONE:
                return text
            if not _WHOLE.fullmatch(text) or int(text) > INT32_MAX:
                wanted = f"a whole number from 0 to {INT32_MAX}, or `{NONE}`"
                raise UsageError(f"max-slots {quoted(text)} is not {wanted}")
            return str(int(text))
        case "pool":
            if not text or (problem := object_name_problem(text)):
                raise UsageError(f"pool: {problem if text else 'the name is empty'}")
            return text
        case _:
            return _group(text)
