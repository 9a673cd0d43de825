"""What is kept of pods in logical SuperPoDs that a restart deletes."""

from features.super_pods.index import SUPER_POD_RANK
from projections.cluster import Cluster
from projections.network_annotations import NetworkAnnotations
from projections.pod_terms import Labels
from projections.pods import Pod


class SuperPodAnnotations(NetworkAnnotations):
    """The number of the logical SuperPoD of a pod."""

    def of_restarted(self, cluster: Cluster, pod: Pod) -> Labels:
        """Return the logical SuperPoD of a pod; nothing if it is in none."""
        found = dict(pod.network_annotations).get(SUPER_POD_RANK)
        return () if found is None else ((SUPER_POD_RANK, found),)
