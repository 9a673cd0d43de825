"""Two plugins for muster: `newer` prefers newer nodes, `teams` limits the pods of a team on a node."""

from msgspec import Struct

from projections.pod_class import PodClass
from scheduling.pod_topology.plugin_columns import NodeFilter, NodeScore, NodeView


class NewerArguments(Struct, frozen=True):
    """Arguments of `newer`."""

    weight: int = 1
    label: str = "example.com/generation"
    """Label of nodes with the number of their generation."""


class Newer(NodeScore):
    """Ten points for each generation, up to 100."""

    name = "newer"
    Arguments = NewerArguments

    def score(self, pod: PodClass, node: NodeView) -> float:
        generation = node.labels.get(self.config.arguments.label, "")
        return 10.0 * int(generation) if generation.isdecimal() and len(generation) < 9 else 0.0


class TeamsArguments(Struct, frozen=True):
    """Arguments of `teams`."""

    most: int = 2
    """Number of pods of one team on one node."""


class Teams(NodeFilter):
    """A pod with the label `team` goes to a node with fewer than `most` pods of its team."""

    name = "teams"
    Arguments = TeamsArguments
    pod_labels = ("team",)

    def filter(self, pod: PodClass, node: NodeView) -> str:
        label = next((one for one in pod.plugin_labels if one[0] == "team"), None)
        if label is None:
            return ""
        count = sum(label in other.facts.labels for other in node.pods)
        return f"had {count} pods of team {label[1]}" if count >= self.config.arguments.most else ""
