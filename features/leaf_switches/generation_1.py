"""Leaf-switch affinity 1.0 (NSLB 1.0): under one switch, else whole switches, else logical switches.

The two arrays of the vendor's document: physical switches, those with most candidates first; and rows of positions, where
row `p` holds the candidates at position `p` of every switch. A logical switch is one column of the second array: nodes at
different positions, which do not compete for the same uplinks, normally under different switches.
"""

from collections import Counter

from features.leaf_switches.plan import (
    NO_ROOM,
    NO_ROOM_FOR_REST,
    FreeSwitch,
    Plan,
    SwitchJob,
    ascending,
    beside_its_pods,
    descending,
    smallest_sufficient,
)
from features.leaf_switches.restart import PlacedJob, Replacement


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


def place_rest(job: SwitchJob, placed: PlacedJob, pods: list[Replacement]) -> Plan:
    """Return the plan of pods of a job that has others: each at a position that the job misses.

    That is the position of the pod that it replaces, else one that the fewest other pods of the job have.
    """
    if job.is_padding:
        return beside_its_pods(job, placed.used)
    plan = Plan(stays_crossing=placed.crosses)
    used, counts = list(placed.used), Counter(placed.positions)
    others = ascending(placed.others) if _may_cross(job, placed, plan) else []
    others = [one for one in others if _carries_only_common(job, one, plan)]
    left = {one.name: list(one.servers) for one in (*used, *others)}
    for pod in pods:
        least = min((counts[at] for at in placed.all_positions), default=0)
        missing = [at for at in placed.all_positions if counts[at] == least]
        wanted = [*([pod.position] if pod.position >= 0 else ()), *missing]
        found = _at_positions(used, others, left, wanted)
        if found is None and not job.is_large:
            found = next(
                ((one, left[one.name][0]) for one in (*used, *others) if left[one.name]), None
            )
        if found is None:
            shown = ", ".join(map(str, dict.fromkeys(wanted)))
            plan.walk.append(f"no server is free at position {shown}")
            return plan.refuse(NO_ROOM_FOR_REST)
        switch, (position, node) = found
        left[switch.name].remove((position, node))
        counts[position] += 1
        if switch in others:
            others.remove(switch)
            used.append(switch)
        plan.servers.append((switch, node))
        plan.walk.append(f"takes {node} at position {position} under {switch.name}")
    return plan


def _at_positions(
    used: list[FreeSwitch],
    others: list[FreeSwitch],
    left: dict[str, list[tuple[int, str]]],
    wanted: list[int],
) -> tuple[FreeSwitch, tuple[int, str]] | None:
    """Return the first free server at the first of the positions: under a switch that the job uses, else under another."""
    for switches in (used, others):
        for position in wanted:
            for one in switches:
                for server in left[one.name]:
                    if server[0] == position:
                        return one, server
    return None


def _may_cross(job: SwitchJob, placed: PlacedJob, plan: Plan) -> bool:
    """Return whether a job may go under further switches: it crosses switches already, or no other job does so under its
    own."""
    return placed.crosses or all(_carries_only_common(job, one, plan) for one in placed.used)


def _carries_only_common(job: SwitchJob, switch: FreeSwitch, plan: Plan) -> bool:
    """Return whether a job may cross a switch beside the jobs that do: none, or all of them are common, and so is this."""
    crossing, large = switch.state.crossing, switch.state.large
    if not crossing or (not job.is_large and not large):
        return True
    plan.walk.append(f"{switch.name} is passed over: {crossing[0]} crosses it")
    return False


def _is_available(job: SwitchJob, switch: FreeSwitch, plan: Plan) -> bool:
    """Return whether the job may use a switch: one with a job that crosses switches only if the whole job fits under it,
    or if all of these jobs are common."""
    return job.count <= switch.free or _carries_only_common(job, switch, plan)


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
