"""Where the blocks of a job go that is restarted after a fault: back to their SuperPoDs, as far as these have room.

1. The job waits until the nodes of its healthy pods are free again, at most 10 s.
2. Each SuperPoD needs as many free nodes as pods of the job were faulty there; blocks that were faulty as a whole do not
   count.
3. Blocks of which all nodes are healthy and free keep their nodes.
4. The others are built again in their SuperPoD if it has enough free nodes: healthy nodes keep their place; gaps are filled
   with nodes that the job did not use, and with formerly faulty ones last.
5. Pods of a block of which other pods stay go to other nodes of its SuperPoD.
6. What is left is placed like a new job.

The rules are those of the vendor's scheduler (`docs/network.md`).
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from events.decisions.reschedule import RestartedPod
from features.super_pods.selection import Block, BlockJob, FreeSuperPod
from projections.rescheduling import Restart

WAIT_FOR_NODES: Final = "selectNode failed, wait for normal node resource release"
NOT_FROM_ORIGIN: Final = "selectNodeFromOriginVSuperPod failed, unschedulable"
"""Messages of the vendor's scheduler."""


@dataclass
class Returned:
    """The blocks that return to their SuperPoDs."""

    blocks: list[Block] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    """Logical ids of the blocks that do not."""
    problem: str = ""
    """Why the job cannot be placed now; empty if it can."""


def previous_ranks(restart: Restart | None) -> dict[int, RestartedPod]:
    """Return the pods that the job had, by rank; none if it is not being restarted."""
    return {} if restart is None else {one.rank: one for one in restart.members if one.rank >= 0}


def return_blocks(
    is_closed: Callable[[str], bool],
    job: BlockJob,
    old: Mapping[int, RestartedPod],
    super_pod_of: Mapping[str, int],
    free: list[FreeSuperPod],
    *,
    waits: bool,
) -> Returned:
    """Return the blocks of a job that is restarted as a whole. Their nodes are taken from `free`. With `waits`, nodes of
    healthy pods may still become free."""
    found = Returned()
    by_number = {one.number: one for one in free}
    is_free = {name: one for one in free for name in one.nodes}
    healthy = [one.node for one in old.values() if not one.fault]
    if waits and lacks_nodes(is_closed, healthy, is_free):
        found.problem = WAIT_FOR_NODES
        return found
    members = {
        number: [old.get(number * job.block_nodes + index) for index in range(job.block_nodes)]
        for number in range(job.blocks)
    }
    if not _is_feasible(members, super_pod_of, by_number):
        found.problem = NOT_FROM_ORIGIN
        return found
    others: list[int] = []
    for number, pods in members.items():
        nodes = [one.node for one in pods if one is not None and not one.fault]
        homes = {super_pod_of.get(name, -1) for name in nodes}
        if len(nodes) == job.block_nodes and len(homes) == 1 and all(map(is_free.get, nodes)):
            home = by_number[homes.pop()]
            home.nodes = [name for name in home.nodes if name not in nodes]
            found.blocks.append(Block(number, home.number, tuple(nodes)))
        else:
            others.append(number)
    for number in others:
        block = rebuild_block(number, members[number], old, super_pod_of, by_number)
        if block is None:
            found.missing.append(number)
        else:
            found.blocks.append(block)
    return found


def lacks_nodes(
    is_closed: Callable[[str], bool], healthy: Iterable[str], is_free: Container[str]
) -> bool:
    """Return whether a node of a healthy pod is not free, but may become so: it is not closed to pods."""
    return any(name not in is_free and not is_closed(name) for name in healthy)


def _is_feasible(
    members: Mapping[int, list[RestartedPod | None]],
    super_pod_of: Mapping[str, int],
    by_number: Mapping[int, FreeSuperPod],
) -> bool:
    """Return whether each SuperPoD has as many free nodes as pods were faulty there."""
    faulty: dict[int, int] = {}
    for pods in members.values():
        known = [one for one in pods if one is not None]
        if known and all(one.fault for one in known):
            continue
        for one in known:
            if one.fault:
                home = super_pod_of.get(one.node, -1)
                faulty[home] = faulty.get(home, 0) + 1
    return all(
        number in by_number and by_number[number].free >= count
        for number, count in faulty.items()
        if number >= 0
    )


def rebuild_block(
    number: int,
    pods: list[RestartedPod | None],
    old: Mapping[int, RestartedPod],
    super_pod_of: Mapping[str, int],
    by_number: Mapping[int, FreeSuperPod],
) -> Block | None:
    """Return a block in the SuperPoD that it had, with its healthy nodes in their places; None if there is no room."""
    known = [one for one in pods if one is not None]
    homes = [
        super_pod_of.get(one.node, -1) for one in sorted(known, key=lambda one: bool(one.fault))
    ]
    home = by_number.get(homes[0]) if homes else None
    if home is None or home.free < len(pods):
        return None
    kept = [
        one.node if one is not None and not one.fault and one.node in home.nodes else ""
        for one in pods
    ]
    rest = in_order(home.nodes, old, kept)
    chosen = [name or rest.pop(0) for name in kept]
    home.nodes = [name for name in home.nodes if name not in chosen]
    return Block(number, home.number, tuple(chosen))


def in_order(nodes: list[str], old: Mapping[int, RestartedPod], kept: list[str]) -> list[str]:
    """Return nodes in the order in which they fill gaps: those that the job did not use, those of its healthy pods, and
    formerly faulty ones; without those that keep their place."""
    faulty = {one.node for one in old.values() if one.fault}
    used = {one.node for one in old.values()}
    rest = [name for name in nodes if name not in kept]
    return sorted(rest, key=lambda name: (name in faulty, name in used))
