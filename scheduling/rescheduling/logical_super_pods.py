"""The logical SuperPoDs of a job that is restarted: by the annotation that its pods got when they were placed."""

from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.rescheduling import Restart
from projections.super_pods import SUPER_POD_RANK
from scheduling.session import Session


def of_same_blocks(
    session: Session, group: PodGroup, living: list[Pod], restart: Restart
) -> list[Pod]:
    """Return the pods of the logical SuperPoDs of which a pod was faulty; none if the job has none."""
    blocks = {pod.facts.uid: _block(pod) for pod in living}
    if not any(blocks.values()):
        return []
    ranks = sorted(one.rank for one in restart.members if one.rank >= 0)
    size = block_nodes(restart, blocks)
    if not size or not ranks:
        return []
    faulty = {one.rank // size for one in restart.members if one.fault and one.rank >= 0}
    own = {one.uid: one.rank for one in restart.members}
    return [pod for pod in living if own.get(pod.facts.uid, -1) // size in faulty]


def block_nodes(restart: Restart, blocks: dict[str, str]) -> int:
    """Return the number of pods of a logical SuperPoD, as the annotations of living pods show it; 0 if they do not."""
    numbers = [int(block) for block in blocks.values() if block.isdigit()]
    tasks = sum(one.rank >= 0 for one in restart.members)
    known = {one.uid: one.rank for one in restart.members}
    for uid, block in blocks.items():
        rank = known.get(uid, -1)
        if block.isdigit() and int(block) > 0 and rank > 0:
            # The block of a rank is the quotient of both.
            sizes = [size for size in range(1, tasks + 1) if tasks % size == 0]
            fitting = [
                size for size in sizes if all(_is_in(known, one, size, blocks) for one in blocks)
            ]
            return fitting[0] if fitting else 0
    return tasks if numbers else 0


def _is_in(known: dict[str, int], uid: str, size: int, blocks: dict[str, str]) -> bool:
    rank, block = known.get(uid, -1), blocks[uid]
    return rank < 0 or not block.isdigit() or rank // size == int(block)


def _block(pod: Pod) -> str:
    network = dict(pod.network)
    return network.get(SUPER_POD_RANK) or dict(pod.facts.assignments).get(SUPER_POD_RANK, "")
