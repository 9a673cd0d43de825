"""The logical SuperPoDs of a job that is restarted: by the annotation that its pods got when they were placed."""

from features.faults.restart_block import RestartBlock
from features.super_pods.index import SUPER_POD_RANK
from projections.pods import Pod
from projections.rescheduling import Restart


class LogicalSuperPods(RestartBlock):
    """Blocks are logical SuperPoDs."""

    def of_same_blocks(self, living: list[Pod], restart: Restart) -> list[Pod]:
        """Return the pods of the logical SuperPoDs of which a faulty pod is not replaced; none if the job has none."""
        faulty = {
            block: None
            for one in restart.members
            if one.fault and one.uid not in restart.replaced
            if (block := dict(restart.networks.get(one.uid, ())).get(SUPER_POD_RANK))
        }
        return [pod for pod in living if _block(pod) in faulty]


def _block(pod: Pod) -> str:
    given = dict(pod.network_annotations)
    return given.get(SUPER_POD_RANK, "")
