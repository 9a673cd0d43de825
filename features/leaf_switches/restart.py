"""Where pods of a job under leaf switches go that come while it has others, or that replace pods after a fault.

1. A job that is restarted as a whole waits until the nodes of its healthy pods are free again, at most 10 s.
2. Pods that replace healthy ones return to their nodes.
3. The others are placed as if those had been kept:

       one layer of switches, padding jobs,         under the switch of the job
       jobs under one switch by the rules 2.0
       rules 1.0                                    at a position that the job misses, under its switches, else under
                                                    one that no other job crosses; common jobs: else anywhere
       rules 2.0                                    under its switches, else by `generation_2.place_rest`

4. Nodes on which pods of the job were faulty, and those that have pods of it or are kept for others of them, are taken
   where no other is left.
5. A job that has no pods left is placed like a new one if that finds no room.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from features.leaf_switches.plan import FreeSwitch, Plan, SwitchJob, Taken

WAIT_FOR_NODES: Final = "waits for the nodes of its healthy pods, which are not free yet"


@dataclass(frozen=True)
class Replacement:
    """A pod that is to be placed."""

    node: str = ""
    """Node of the healthy pod that it replaces; empty for others."""
    position: int = -1
    """Position of the node of the pod that it replaces; -1 for others."""


@dataclass(frozen=True)
class PlacedJob:
    """What a job has, or had before it was restarted."""

    used: list[FreeSwitch]
    """The switches of its pods, and of those that it lost."""
    others: list[FreeSwitch]
    crosses: bool
    positions: Counter[int] = field(default_factory=Counter)
    """Position to the number of its pods there."""
    all_positions: tuple[int, ...] = ()
    """Positions of the servers of the switches that it uses, sorted."""
    avoided: Mapping[str, str] = field(default_factory=dict)
    """Nodes that its pods get where no other is left, each with the name of its switch."""


RestRules: TypeAlias = Callable[[SwitchJob, PlacedJob, list[Replacement]], Plan]
"""Rules for the pods that do not return to a node."""


def place_again(
    job: SwitchJob, placed: PlacedJob, pods: list[Replacement], rules: RestRules
) -> Plan:
    """Return the plan of pods of a job, in their order."""
    at = {node: one for one in placed.used for _, node in one.servers}
    kept = {one.node: at[one.node] for one in pods if one.node in at}
    rest = [one for one in pods if one.node not in kept]
    found = Plan()
    if rest:
        is_kept = without(placed, {node: one.name for node, one in kept.items()})
        of_rest = replace(job, count=len(rest))
        found = rules(of_rest, without(is_kept, placed.avoided), rest)
        if found.problem:
            found = rules(of_rest, is_kept, rest)
        if found.problem:
            return found
    servers = iter(found.servers)
    plan = Plan(stays_crossing=placed.crosses)
    plan.servers = [
        (kept[one.node], one.node) if one.node in kept else next(servers) for one in pods
    ]
    if kept:
        plan.walk.append(f"{len(kept)} pods return to their nodes")
    plan.walk += found.walk
    for one in placed.used:
        own = [(position, node) for position, node in one.servers if node in kept]
        if own:
            plan.taken.append(Taken(one, own, one.state.is_shared, one.state.is_unhealthy))
    plan.taken += found.taken
    return plan


def without(placed: PlacedJob, nodes: Mapping[str, str]) -> PlacedJob:
    """Return the same without some nodes, which are given with the names of their switches."""
    if not nodes:
        return placed
    used, others = _without(placed.used, nodes), _without(placed.others, nodes)
    return replace(placed, used=used, others=others)


def _without(switches: list[FreeSwitch], nodes: Mapping[str, str]) -> list[FreeSwitch]:
    names = dict.fromkeys(nodes.values())
    return [
        replace(one, servers=[(at, node) for at, node in one.servers if node not in nodes])
        if one.name in names
        else one
        for one in switches
    ]
