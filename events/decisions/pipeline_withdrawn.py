"""The end of a nomination."""

from collections.abc import Sequence

from events.decision import DecisionItem, PodGroupDecision


class PipelineWithdrawn(PodGroupDecision, frozen=True, kw_only=True):
    """The nomination of a pod group is withdrawn."""

    kind = "pipeline_withdrawn.v1"
    word = "withdraw"

    code: str

    def items(self) -> Sequence[DecisionItem]:
        """Return one item, about the group."""
        return (self.item(code=self.code),)

    def lines(self) -> list[str]:
        """Return the line of `tell`."""
        return [f"withdraw the nomination of {self.pod_group}: {self.code}"]
