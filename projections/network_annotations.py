"""Hook of features: annotations of placed pods that say what the network is for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from projections.pod_terms import Labels

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pods import Pod


class NetworkAnnotations(ABC):
    """Hook: what is kept of a pod beside the annotations that its decision states."""

    unwritten: ClassVar[tuple[str, ...]] = ()
    """Keys that are kept in State and not written on the pod."""

    def at_binding(self, cluster: Cluster, group: str) -> Labels:
        """Return what is kept of each pod of a group that is bound, beside the annotations of its placement."""
        return ()

    @abstractmethod
    def of_restarted(self, cluster: Cluster, pod: Pod) -> Labels:
        """Return what is kept of a pod that a restart after a fault deletes."""
