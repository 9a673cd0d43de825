"""The answer of `why`, as data: what the subject is, what it waits for, and the chain of causes."""

from msgspec import Struct

from replay.node_rows import PodNodes
from replay.object_diff import FieldDiff
from scheduling.explanation import Choice, Waiting


class Step(Struct):
    """A record about the subject; equal ones in a row are one step."""

    position: int
    at: str
    at_ns: int
    kind: str
    text: str
    details: list[str] = []
    cause: int | None = None
    count: int = 1
    last_position: int = 0


class QuotaChange(Struct, frozen=True):
    """The last change of the quota of a queue."""

    position: int
    """The observation that showed it first."""
    at: str
    at_ns: int
    what: str
    """`changed`, or `seen` if the log shows no other quota of the queue before."""
    manager: str
    """The field manager whose change was the newest then; empty if the object stated none."""
    changed_at: str
    """When it made the change, in RFC 3339; empty if the object stated none."""
    fields: tuple[FieldDiff, ...]


class Answer(Struct, frozen=True):
    """The answer to a `why`."""

    subject: str
    """`Kind/namespace/name`"""
    position: int
    at: str
    at_ns: int
    """Times are texts for people (`at`) and nanoseconds since 1970 or, in a simulation, since its start."""
    state: str
    """A sentence: what it is, and where."""
    facts: dict[str, str]
    """Facts by a short name, as text."""
    steps: tuple[Step, ...]
    """The chain of causes, oldest first."""
    steps_left_out: int
    choices: tuple[Choice, ...]
    """Why its pods got their nodes."""
    decision: int
    """Position of the decision that these choices belong to; 0 for none."""
    cycle: int
    waiting: Waiting | None
    nodes: tuple[PodNodes, ...]
    """If asked for: every node, for pods that got theirs as it was then, for waiting ones as it is now."""
    lists: dict[str, tuple[str, ...]]
    """Longer lists, by heading: pods of a node, waiting groups of a queue."""
    steps_since: int = 0
    """Of a node or queue, the steps before this position are the changes of its object only; 0 for all steps."""
    quota_change: QuotaChange | None = None
    """Of a queue: the last change of its quota, and who made it."""
