"""What `why` answers, as data: what something is, what it waits for, and the chain of causes."""

from typing import Final

from msgspec import Struct

from projections.policy import EVICTING
from scheduling.explain import Choice, Lacking, Limit

LEVELS: Final = (
    *("cluster", "pod group", "queue", "admission", "card", "gang", "network", "quota", "nodes"),
    *EVICTING,
)
"""What a group has to pass, in this order."""


class Step(Struct):
    """A record that had to do with the subject; like ones in a row are one step."""

    position: int
    at: str
    kind: str
    text: str
    details: list[str] = []
    cause: int | None = None
    count: int = 1
    last_position: int = 0


class Hurdle(Struct, frozen=True):
    """One level that a group has to pass, and whether it does."""

    level: str
    """One of LEVELS."""
    passed: bool
    text: str


class Holder(Struct, frozen=True):
    """A pod group that holds what the subject wants."""

    pod_group: str
    queue: str
    held: int


class Held(Struct, frozen=True):
    """Who holds a card or resource: the pod groups that hold most of it."""

    name: str
    total: int
    """What all nodes have of it; 0 where that is not known under this name."""
    allocated: int
    queues: dict[str, int]
    """Queue to what its pod groups hold, most first."""
    holders: tuple[Holder, ...]
    others: int
    """Further pod groups that hold some."""


class InLine(Struct, frozen=True):
    """The place of a group in the line of its queue."""

    action: str
    """What they all wait for: `enqueue`, `allocate` or `backfill`."""
    place: int
    of: int
    ahead: tuple[str, ...]
    """Who is next before it, nearest first."""


class Judged(Struct, frozen=True):
    """All nodes, judged for one waiting pod on its own."""

    pod: str
    total: int
    fitting: int
    """Nodes that could take the pod now."""
    large_enough: int
    """Nodes that could take it if nothing else were on them."""
    reasons: dict[str, int]
    """Why the others cannot, and how many nodes each reason keeps out."""
    nearest: tuple[Lacking, ...]
    """Where the group finds no room: the nodes that come nearest to taking the pod and cannot."""


class Waiting(Struct, frozen=True):
    """What a group waits for, level by level, with the numbers of the moment."""

    pod_group: str
    code: str
    message: str
    """What the next cycle would say; the code is empty where it would place the group."""
    since: int
    """Position of the refusal that stands; 0 where none does."""
    hurdles: tuple[Hurdle, ...]
    admission: tuple[Limit, ...]
    """The queue beside the minimum of the group, where it still asks to be admitted."""
    quota: tuple[Limit, ...]
    """The queue beside what the pods that are missing would be charged; of a choice, each card."""
    nodes: Judged | None
    held: tuple[Held, ...]
    line: InLine | None


class Answer(Struct, frozen=True):
    """The answer to a `why`."""

    subject: str
    """`Kind/namespace/name`"""
    position: int
    at: str
    state: str
    """In a sentence: what it is, and where."""
    facts: dict[str, str]
    """What is known of it, by a short name."""
    steps: tuple[Step, ...]
    """The chain of causes, oldest first."""
    steps_left_out: int
    choices: tuple[Choice, ...]
    """Why its pods got their nodes."""
    decision: int
    """Position of the decision that the choices were made in; 0 for none."""
    cycle: int
    waiting: Waiting | None
    lists: dict[str, tuple[str, ...]]
    """Longer answers, by their heading: pods of a node, the line of a queue."""
