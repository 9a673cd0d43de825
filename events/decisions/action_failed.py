"""The failure of an action by a bug of muster."""

from collections.abc import Sequence

from events.decision import INTERNAL_ERROR, Decision, DecisionItem


class ActionFailed(Decision, frozen=True, kw_only=True):
    """An action of the policy raised an exception outside the evaluation of a pod group: a bug of muster."""

    kind = "action_failed.v1"
    word = "action_failed"

    action: str
    message: str
    """The type of the exception, and the function that raised it."""
    is_abandoned: bool
    """Whether the action ended there and all pod groups are evaluated again later; else it went on, with queues served
    in turn instead of in their order."""

    @property
    def subject(self) -> str:
        """Return the action."""
        return f"Action//{self.action}"

    def items(self) -> Sequence[DecisionItem]:
        """Return one item, about the action."""
        return (DecisionItem(code=INTERNAL_ERROR, message=self.message),)

    def lines(self) -> list[str]:
        """Return the line of `tell`."""
        after = "it ended there" if self.is_abandoned else "queues are served in turn"
        return [f"action {self.action} failed: {self.message}; {after}"]
