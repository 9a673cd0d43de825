"""Where pods of a job go that may be placed in parts of blocks (`super-pod-affinity: soft`), while it has others or after a
fault.

Each piece that the job got is a logical SuperPoD of its own.

1. A job that is restarted as a whole waits until the nodes of its healthy pods are free again, at most 10 s.
2. Pods that replace healthy ones return to their nodes.
3. The others go to the SuperPoD of their piece, as far as it has room: to nodes that the job did not use, and to formerly
   faulty ones last.
4. A piece that is gone as a whole goes to another SuperPoD if its own has not enough room.
5. If the job was restarted as a whole, or one pod is missing, what is left forms new pieces anywhere. Otherwise it waits.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from features.super_pods.restart import NOT_FROM_ORIGIN
from features.super_pods.selection import BlockJob, FreeSuperPod, select


@dataclass(frozen=True)
class MissingPod:
    """A pod that is to be placed."""

    uid: str
    piece: int
    """Logical id of its piece."""
    node: str = ""
    """Node of the healthy pod that it replaces; empty for others."""


@dataclass(frozen=True)
class PlacedPod:
    """Where a pod goes."""

    piece: int
    super_pod: int
    node: str


@dataclass(frozen=True)
class Pieces:
    """The pieces of a job."""

    homes: Mapping[int, int]
    """Logical id of a piece to its SuperPoD."""
    present: Container[int]
    """Pieces with a pod that is placed."""
    is_whole: bool
    """Whether no pod of the job is placed: all of it was restarted."""


def place_in_pieces(
    job: BlockJob, pods: list[MissingPod], pieces: Pieces, free: list[FreeSuperPod]
) -> dict[str, PlacedPod] | str:
    """Return where pods go, which are in the order of their ranks, by UID; or why there is no room. Their nodes are taken
    from `free`."""
    of_node = {name: one for one in free for name in one.nodes}
    by_number = {one.number: one for one in free}
    is_free_to_part = pieces.is_whole or len(pods) == 1
    rest: dict[int, list[MissingPod]] = {}
    for pod in pods:
        rest.setdefault(pod.piece, []).append(pod)
    found: dict[str, PlacedPod] = {}
    moving = {
        number: None
        for number, members in rest.items()
        if not is_free_to_part
        and number not in pieces.present
        and _free(by_number, pieces.homes.get(number, -1)) < len(members)
    }
    for pod in pods:
        if pod.piece not in moving and (home := of_node.get(pod.node)) is not None:
            home.nodes.remove(pod.node)
            rest[pod.piece].remove(pod)
            found[pod.uid] = PlacedPod(pod.piece, home.number, pod.node)
    kept = {one.piece: None for one in found.values()}
    for number, members in sorted(rest.items()):
        own = by_number.get(pieces.homes.get(number, -1))
        can_part = is_free_to_part and (number in kept or number in pieces.present)
        if own is not None and (can_part or own.free >= len(members)):
            while members and own.nodes:
                found[members.pop(0).uid] = PlacedPod(number, own.number, own.nodes.pop(0))
                kept[number] = None
    used = {**dict.fromkeys(pieces.homes), **kept, **dict.fromkeys(rest)}
    for number, members in sorted(rest.items()):
        if not members:
            continue
        is_gone = number not in kept and number not in pieces.present
        if not is_gone and not is_free_to_part:
            return NOT_FROM_ORIGIN
        new = [one for one in range(job.blocks + len(used) + len(pods)) if one not in used]
        ids = [number, *new] if is_gone else new
        for one in free:
            one.size = one.free
        piece = BlockJob(1, len(members), job.reserve, is_free_to_part, job.order)
        chosen = select(piece, free, ids)
        if chosen.problem:
            return chosen.problem
        nodes = [(block, name) for block in chosen.blocks for name in block.nodes]
        for pod, (block, name) in zip(members, nodes, strict=True):
            found[pod.uid] = PlacedPod(block.number, block.super_pod, name)
            used[block.number] = None
    return found


def _free(by_number: Mapping[int, FreeSuperPod], number: int) -> int:
    return by_number[number].free if number in by_number else 0
