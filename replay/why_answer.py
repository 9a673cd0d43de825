"""The answer of `why`, as data: what the subject is, what it waits for, and the chain of causes."""

from typing import Final

from msgspec import Struct

from projections.policy import EVICTING
from scheduling.explain import Choice, Limit, NodeShortfall

LEVELS: Final = (
    *("cluster", "pod group", "queue", "admission", "card", "gang", "network", "quota", "nodes"),
    *EVICTING,
)
"""The checks that a group has to pass, in this order."""


class Step(Struct):
    """A record about the subject; equal ones in a row are one step."""

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
    """A pod group that holds what the subject needs."""

    pod_group: str
    queue: str
    held: int


class Held(Struct, frozen=True):
    """The pod groups that hold most of a card or resource."""

    name: str
    total: int
    """The total of all nodes; 0 if no node has a resource of this name."""
    allocated: int
    queues: dict[str, int]
    """Queue to the amount that its pod groups hold, most first."""
    holders: tuple[Holder, ...]
    others: int
    """The number of further holders."""


class InLine(Struct, frozen=True):
    """The place of a group among the waiting groups of its queue."""

    action: str
    """The action that they wait for: `enqueue`, `allocate` or `backfill`."""
    place: int
    of: int
    ahead: tuple[str, ...]
    """The groups that are served just before it, nearest first."""


class Judged(Struct, frozen=True):
    """All nodes, judged for one waiting pod alone."""

    pod: str
    total: int
    fitting: int
    """Nodes that fit the pod now."""
    large_enough: int
    """Nodes that would fit it if they were empty."""
    reasons: dict[str, int]
    """The reasons of all other nodes, with the number of nodes of each."""
    nearest: tuple[NodeShortfall, ...]
    """If no node fits: the nodes that come nearest to it."""


class Waiting(Struct, frozen=True):
    """What a group waits for, level by level, with the numbers of the moment."""

    pod_group: str
    code: str
    message: str
    """The refusal that the next cycle would record; empty if it would place the group."""
    since: int
    """Position of the recorded refusal; 0 if there is none."""
    hurdles: tuple[Hurdle, ...]
    admission: tuple[Limit, ...]
    """The queue's quota against the group's minResources, if it is not admitted yet."""
    quota: tuple[Limit, ...]
    """The queue's quota against the charge of the missing pods; of several accepted cards, each."""
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
    """A sentence: what it is, and where."""
    facts: dict[str, str]
    """Facts by a short name."""
    steps: tuple[Step, ...]
    """The chain of causes, oldest first."""
    steps_left_out: int
    choices: tuple[Choice, ...]
    """Why its pods got their nodes."""
    decision: int
    """Position of the decision that these choices belong to; 0 for none."""
    cycle: int
    waiting: Waiting | None
    lists: dict[str, tuple[str, ...]]
    """Longer lists, by heading: pods of a node, waiting groups of a queue."""
