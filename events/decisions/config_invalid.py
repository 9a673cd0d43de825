"""The error in a field of an object."""

from collections.abc import Sequence

from events.decision import Decision, DecisionItem
from events.subject import subject_text


class ConfigInvalid(Decision, frozen=True, kw_only=True):
    """A field of an object cannot be used; the message says what follows."""

    kind = "config_invalid.v1"
    word = "config_invalid"

    subject: str
    """`Kind/namespace/name`, as in the record."""
    code: str
    message: str

    def items(self) -> Sequence[DecisionItem]:
        """Return one item, about the object."""
        kind, _, name = self.subject.partition("/")
        queue = name.strip("/") if kind == "Queue" else ""
        return (DecisionItem(queue=queue, code=self.code, message=self.message),)

    def lines(self) -> list[str]:
        """Return the line of `tell`."""
        whose = subject_text(self.subject)
        return [f"invalid configuration of {whose}: {self.code}: {self.message}"]
