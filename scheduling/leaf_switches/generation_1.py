"""Leaf-switch affinity 1.0 (NSLB 1.0): under one switch, else whole switches, else logical switches.

The two arrays of the vendor's document: physical switches, those with most candidates first; and rows of positions, where
row `p` holds the candidates at position `p` of every switch. A logical switch is one column of the second array: nodes at
different positions, which do not compete for the same uplinks, normally under different switches.
"""

from collections.abc import Container

from scheduling.leaf_switches.plan import (
    NO_ROOM,
    FreeSwitch,
    Plan,
    SwitchJob,
    descending,
    smallest_sufficient,
)


def place(job: SwitchJob, switches: list[FreeSwitch]) -> Plan:
    """Return the plan of a job."""
    plan = Plan()
    physical = descending([one for one in switches if _is_available(job, one, plan)])
    if job.is_padding or job.count < job.servers_per_switch:
        if (found := smallest_sufficient(physical, job.count)) is not None:
            plan.walk.append("method 1, one switch: the smallest that is enough")
            plan.take(found, job.count)
            return plan
        plan.walk.append(f"method 1, one switch: none has {job.count} free")
        if job.is_padding:
            return plan.refuse(NO_ROOM)
    if _whole_switches(job, physical, plan) or _logical_switches(job, physical, plan):
        return plan
    if job.is_large:
        return plan.refuse(NO_ROOM)
    if sum(one.free for one in physical) < job.count:
        return plan.refuse(NO_ROOM)
    plan.walk.append("common job: any candidates, switch by switch")
    left = job.count
    for one in physical:
        if left:
            plan.take(one, min(left, one.free))
            left -= min(left, one.free)
    return plan


def _is_available(job: SwitchJob, switch: FreeSwitch, plan: Plan) -> bool:
    """Return whether the job may use a switch: one with a job that crosses switches only if the whole job fits under it,
    or if all of these jobs are common."""
    crossing = switch.state.crossing
    if not crossing or job.count <= switch.free:
        return True
    others: Container[str] = switch.state.large
    if not job.is_large and not any(one in others for one in crossing):
        return True
    plan.walk.append(f"{switch.name} is passed over: {crossing[0]} crosses it")
    return False


def _shape(job: SwitchJob) -> tuple[int, int]:
    """Return `row` and `col`: the job is `row` complete switches and one with `col + 1` servers."""
    n, m = job.count, job.servers_per_switch
    row, rest = divmod(n, m)
    return (row, rest - 1) if rest else (row - 1, m - 1)


def _whole_switches(job: SwitchJob, physical: list[FreeSwitch], plan: Plan) -> bool:
    """Take complete switches, and the last servers from another one of which all are candidates."""
    row, col = _shape(job)
    full = [one for one in physical if one.free >= job.servers_per_switch]
    plan.walk.append(f"method 1, {row + 1} whole switches: {len(full)} are free")
    if row + 1 > len(full):
        return False
    for one in full[:row]:
        plan.take(one, job.servers_per_switch)
    plan.take(full[row], col + 1)
    return True


def _logical_switches(job: SwitchJob, physical: list[FreeSwitch], plan: Plan) -> bool:
    """Take complete logical switches, and `col + 1` servers of another one."""
    row, col = _shape(job)
    most = job.servers_per_switch
    at: dict[int, list[tuple[FreeSwitch, str]]] = {}
    for switch in physical:
        for position, node in switch.servers:
            at.setdefault(position, []).append((switch, node))
    # Of rows with as many candidates, those of the first positions come first.
    positions = sorted(sorted(at), key=lambda position: -len(at[position]))[:most]
    lengths = [len(at[position]) for position in positions]
    plan.walk.append(f"method 2, {row + 1} logical switches: {lengths} free by position")
    if row == 0:
        # The columns get shorter: the last one that is long enough is the smallest sufficient.
        sizes = [sum(length > one for length in lengths) for one in range(max(lengths, default=0))]
        fitting = [index for index, size in enumerate(sizes) if size > col]
        if not fitting:
            return False
        columns = [(fitting[-1], col + 1)]
    else:
        if len(lengths) < most or lengths[col] <= row or lengths[most - 1] < row:
            return False
        columns = [*((index, most) for index in range(row)), (row, col + 1)]
    for index, count in columns:
        # Ranks follow the positions within a logical switch.
        chosen = sorted(position for position in positions[:count] if len(at[position]) > index)
        plan.servers += [at[position][index] for position in chosen]
        text = ", ".join(f"{at[one][index][0].name}[{one}]" for one in chosen)
        plan.walk.append(f"takes logical switch {index}: {text}")
    return True
