"""The nomination of pods to nodes that are still being freed (Volcano: pipelined)."""

from collections.abc import Sequence
from typing import Self

from msgspec import structs

from events.decision import DecisionItem, Eviction, Placement, PodGroupDecision, placement_lines


class PipelineDecided(PodGroupDecision, frozen=True, kw_only=True):
    """Pods of one group are nominated to nodes that are still being freed (Volcano: pipelined)."""

    kind = "pipeline_decided.v1"
    word = "pipeline"
    is_in_document = True

    placements: tuple[Placement, ...]

    @property
    def pods(self) -> Sequence[Placement]:
        """Return the pods with their nodes."""
        return self.placements

    def with_pods(self, pods: Sequence[Placement | Eviction]) -> Self:
        """Return the part of the decision that is about some of its pods."""
        return structs.replace(self, placements=tuple(pods))

    def items(self) -> Sequence[DecisionItem]:
        """Return an item a pod."""
        return self.placement_items(self.placements)

    def lines(self) -> list[str]:
        """Return the lines of `tell`: a single pod is in the first line, the pods of a gang are under it."""
        return placement_lines(f"nominate {self.pod_group} in {self.queue}", self.placements)
