"""Which SuperPoD gives a node to which logical SuperPoD.

A job of `K` blocks (logical SuperPoDs) of `B` nodes each is placed in SuperPoDs of which `f` nodes are free; `R` nodes of
each should stay free for pods that have to move. SuperPoDs with `f >= B + R` are taken first, in one of two orders:

    figure   the sizes from B + R to 2B + R - 1 in K columns, row by row, then larger ones, the smallest first; each SuperPoD
             gives one block, and the walk begins again until all blocks are placed
    matrix   cells of (f - R) div B whole blocks and (f - R) mod B nodes left over: SuperPoDs that leave the fewest nodes over
             and are not larger than the job first, then larger ones; each gives as many blocks as it can

Then those with `f >= B`, the one with the most free nodes first, one block each. If the job allows parts of blocks (soft),
whatever is left of the others, the largest first.
"""

from dataclasses import dataclass, field
from typing import Final

from events.limits import clipped

FIGURE: Final = "figure"
MATRIX: Final = "matrix"
TOP_MAX: Final = 8
"""Maximum SuperPoDs that a message names."""


@dataclass
class FreeSuperPod:
    """A SuperPoD and its free nodes."""

    number: int
    nodes: list[str]
    """Free nodes that are not taken yet, in the order in which they are taken."""
    size: int = 0
    """`f` at the beginning."""

    def __post_init__(self) -> None:
        self.size = len(self.nodes)

    @property
    def free(self) -> int:
        """Return `f`, the number of nodes that are not taken."""
        return len(self.nodes)


@dataclass(frozen=True)
class BlockJob:
    """What is to be placed."""

    blocks: int
    """`K`: number of blocks."""
    block_nodes: int
    """`B`: number of nodes of a block."""
    reserve: int
    """`R`: number of nodes of a SuperPoD to keep free."""
    is_soft: bool = False
    """Whether blocks may be placed in parts."""
    order: str = FIGURE


@dataclass(frozen=True)
class Block:
    """Nodes of one SuperPoD that form a logical SuperPoD, or a part of one."""

    number: int
    """Its logical id."""
    super_pod: int
    nodes: tuple[str, ...]


@dataclass
class Selection:
    """The blocks of a job, by logical id, and how they were found."""

    blocks: list[Block] = field(default_factory=list)
    problem: str = ""
    """Why the job is not placed; empty if it is."""
    walk: list[str] = field(default_factory=list)
    """The steps, each in a few words."""


def select(job: BlockJob, pods: list[FreeSuperPod], ids: list[int] | None = None) -> Selection:
    """Return the blocks of a job; `ids` are the logical ids that they get, by default from 0 on."""
    found = Selection()
    taking = _Taking(job, found, list(range(job.blocks)) if ids is None else ids)
    pods = sorted(pods, key=lambda one: one.number)
    total = sum(one.free // job.block_nodes for one in pods)
    if total < job.blocks and not job.is_soft:
        return _refuse(found, job, pods, total)
    first = _figure if job.order == FIGURE else _matrix
    first(job, pods, taking)
    _touching_reserve(job, pods, taking)
    if job.is_soft:
        _parts(job, pods, taking)
    if taking.left:
        return _refuse(found, job, pods, total)
    found.blocks.sort(key=lambda one: one.number)
    return found


class _Taking:
    """The blocks that are left to place."""

    def __init__(self, job: BlockJob, found: Selection, ids: list[int]) -> None:
        self.left = job.blocks
        """`K'`: number of blocks that are left."""
        self._job, self._found, self._ids = job, found, ids

    def take(self, pod: FreeSuperPod, why: str) -> None:
        """Take a block of a SuperPoD."""
        self._put(pod, self._job.block_nodes, why)
        self.left -= 1

    def take_part(self, pod: FreeSuperPod, count: int) -> None:
        """Take fewer nodes than a block."""
        self._put(pod, count, "part of a block")

    def _put(self, pod: FreeSuperPod, count: int, why: str) -> None:
        blocks = self._found.blocks
        number = self._ids[len(blocks)] if len(blocks) < len(self._ids) else self._next_id()
        nodes, pod.nodes = pod.nodes[:count], pod.nodes[count:]
        blocks.append(Block(number, pod.number, tuple(nodes)))
        self._found.walk.append(
            f"logical SuperPoD {number}: {count} of {count + pod.free} free nodes of SuperPoD "
            f"{pod.number} ({why})"
        )

    def _next_id(self) -> int:
        return 1 + max(*self._ids, *(one.number for one in self._found.blocks), -1)


def _refuse(found: Selection, job: BlockJob, pods: list[FreeSuperPod], total: int) -> Selection:
    free = sorted(((one.size, one.number) for one in pods), key=lambda one: (-one[0], one[1]))
    shown = ", ".join(f"{number}: {size}" for size, number in free[:TOP_MAX])
    more = f" and {len(free) - TOP_MAX} more" if len(free) > TOP_MAX else ""
    text = f"select super pod failed, required {job.blocks}, total {total}, node top: {shown or 'none'}{more}"
    found.blocks, found.problem = [], clipped(text)
    return found


def _figure(job: BlockJob, pods: list[FreeSuperPod], taking: _Taking) -> None:
    walk = [one for size in figure_sizes(job, pods) for one in pods if one.size == size]
    is_moving = True
    while taking.left and is_moving:
        is_moving = False
        for one in walk:
            if taking.left and one.free - job.reserve >= job.block_nodes:
                taking.take(one, f"{FIGURE}, size {one.size}")
                is_moving = True


def figure_sizes(job: BlockJob, pods: list[FreeSuperPod]) -> list[int]:
    """Return the sizes of SuperPoDs in the order of `figure`."""
    least, block = job.block_nodes + job.reserve, job.block_nodes
    there = sorted({one.size for one in pods if one.size >= least})
    height = -(-block // job.blocks)

    def place(size: int) -> tuple[int, int, int]:
        column, row = divmod(size - least, height)
        return (0, row, column) if size < least + block else (1, size, 0)

    return sorted(there, key=place)


def _matrix(job: BlockJob, pods: list[FreeSuperPod], taking: _Taking) -> None:
    block, reserve = job.block_nodes, job.reserve
    cells: dict[tuple[int, int], list[FreeSuperPod]] = {}
    for one in pods:
        if one.size >= block + reserve:
            cells.setdefault(divmod(one.size - reserve, block)[::-1], []).append(one)
    last = max((column for _, column in cells), default=0)

    def take(row: int, column: int) -> None:
        for one in cells.get((row, column), ()):
            while taking.left and one.free - reserve >= block:
                taking.take(one, f"{MATRIX}, {column} blocks and {row} nodes")

    for row in range(block):
        column = 1
        # The bound shrinks with the blocks that are left.
        while column <= min(taking.left, last):
            take(row, column)
            column += 1
    for column in range(taking.left + 1, last + 1):
        for row in range(block):
            take(row, column)


def _touching_reserve(job: BlockJob, pods: list[FreeSuperPod], taking: _Taking) -> None:
    """Take one block of each SuperPoD that has one, those with the most free nodes first."""
    while taking.left:
        enough = [one for one in pods if one.free >= job.block_nodes]
        for one in sorted(enough, key=lambda one: -one.free):
            if taking.left:
                taking.take(one, "touches the reserve")
        if not enough:
            return


def _parts(job: BlockJob, pods: list[FreeSuperPod], taking: _Taking) -> None:
    """Take what is left of SuperPoDs with less than a block, the largest first."""
    nodes = taking.left * job.block_nodes
    if sum(one.free for one in pods) < nodes:
        return
    for one in sorted(pods, key=lambda one: -one.free):
        if count := min(nodes, one.free):
            taking.take_part(one, count)
            nodes -= count
    taking.left = 0
