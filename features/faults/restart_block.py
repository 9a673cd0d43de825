"""Hook of features: which pods of a job are restarted with a faulty one before the whole job is."""

from abc import ABC, abstractmethod

from projections.pods import Pod
from projections.rescheduling import Restart


class RestartBlock(ABC):
    """Hook: the blocks of a job that is restarted after a fault."""

    @abstractmethod
    def of_same_blocks(self, living: list[Pod], restart: Restart) -> list[Pod]:
        """Return the pods of the blocks of which a faulty pod is not replaced; none if the job has no blocks."""
