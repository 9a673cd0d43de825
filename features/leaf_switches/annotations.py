"""What is kept of pods under leaf switches: the class of their job, and what their switch is for them."""

from features.ascend.network_labels import CLASS_LABEL, IS_HEALTHY, IS_SHARED
from features.leaf_switches.index import LeafSwitches
from projections.cluster import Cluster
from projections.network_annotations import NetworkAnnotations
from projections.pod_terms import Labels
from projections.pods import Pod


class LeafSwitchAnnotations(NetworkAnnotations):
    """The class of the job, and the annotations of generation 2.0."""

    unwritten = (CLASS_LABEL,)

    def at_binding(self, cluster: Cluster, group: str) -> Labels:
        """Return the class by which a group is placed: that of the group may change while it runs."""
        return cluster.indexes.of(LeafSwitches).class_of_group(group)

    def of_restarted(self, cluster: Cluster, pod: Pod) -> Labels:
        """Return what the leaf switch of a pod is for it, and the class of its job."""
        given = dict(pod.network_annotations)
        job_class = cluster.indexes.of(LeafSwitches).class_of(pod)
        pairs = tuple([(key, given[key]) for key in (IS_SHARED, IS_HEALTHY) if key in given])
        return (*pairs, (CLASS_LABEL, job_class)) if job_class else pairs
