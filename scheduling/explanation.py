"""What a decider answers about a subject, as data: why a pod group waits, why a pod got its node, which pods a node
excludes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from projections.cluster import Cluster
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.policy.policy import EVICTING

LEVELS: Final = (
    *(
        "cluster",
        "pod group",
        "queue",
        "admission",
        "card",
        "gang",
        "devices",
        "network",
        "volumes",
        "quota",
        "nodes",
    ),
    *EVICTING,
)
"""The checks that a group has to pass, in this order."""


class GroupHurdles(ABC):
    """A hook that explains what counts of a pod group instead of what it states."""

    @abstractmethod
    def of_group(self, cluster: Cluster, group: PodGroup) -> "Iterator[Hurdle]":
        """Yield what features know of a pod group: none of it keeps the group from starting by itself."""


class Limit(Struct, frozen=True):
    """A resource or card of a queue, compared with what is requested of it."""

    name: str
    used: int
    """Amount allocated or nominated."""
    reserved: int
    """Amount reserved for groups that are admitted and not placed yet, less what groups use beyond their minimum or
    could release."""
    requested: int
    limit: int | None
    """The limit; None if there is none."""
    queue: str = ""
    """The ancestor queue that the limit belongs to; empty for the pod group's own queue."""

    @property
    def short(self) -> int:
        """Return by how much the request exceeds the limit."""
        if self.limit is None:
            return 0
        return max(0, self.used + self.reserved + self.requested - self.limit)


class NodeShortfall(Struct, frozen=True):
    """An infeasible node and what the pod lacks there."""

    node: str
    lacks: dict[str, int]
    """Resource to the additional amount that would have to be free."""
    obstacle: str = ""
    """Why the node excludes the pod regardless of free resources."""
    withheld_until_ns: dict[str, int] = {}
    """Resource of the request to the time at which the node offers it again, after the kubelet rejected pods."""


class JudgedNode(Struct, frozen=True):
    """A node, judged for one pod."""

    node: str
    score: int
    """In thousandths of a point; -1 if the node is infeasible."""
    parts: dict[str, int]
    """Scorer or device family to its contribution, weight included; empty if the node is infeasible."""
    free: dict[str, int]
    """Resource to the amount that was free before the pod was placed, for every resource that it requests."""
    devices: tuple[str, ...] = ()
    """Names of the devices that the pod would get."""
    shortfall: NodeShortfall | None = None
    """Why the node is infeasible; None if it is feasible."""


class JudgedPod(Struct, frozen=True):
    """Every node, judged for one pod alone."""

    pod: str
    alike: int
    """The number of waiting pods of its group that are of its equivalence class, itself included; 1 for a placed pod."""
    nodes: tuple[JudgedNode, ...]
    """By name."""


class Choice(Struct, frozen=True):
    """Why a pod got its node: the candidate nodes and their scores."""

    pod: str
    node: str
    cards: dict[str, int]
    nodes: int
    candidates: int
    """Number of feasible nodes."""
    ranked: tuple[JudgedNode, ...]
    """The best feasible nodes; the chosen node is always included."""
    reasons: dict[str, int]
    """Reason to the number of nodes that it made infeasible."""
    limits: tuple[Limit, ...]
    """The limits of the queue just before the decision, with what the pod is charged."""
    agrees: bool
    """True if recomputing finds the same node as best."""
    domain: str = ""
    """The topology domain to which the pod was restricted; empty if there was none."""
    walk: tuple[str, ...] = ()
    """The steps by which the nodes of the whole job were chosen, if they were not chosen one by one."""


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


class ExcludedPods(Struct, frozen=True):
    """Waiting pods of one equivalence class that a node excludes."""

    pods: int
    pod: str
    """One of them."""
    shortfall: NodeShortfall


class PlacedPod(Struct, frozen=True):
    """Subject: a pod of a decision. It is explained from the State just before that decision."""

    group: PodGroup
    decision: GangBindDecided | PipelineDecided
    uid: str
    with_every_node: bool = False


class EveryNode(Struct, frozen=True):
    """Subject: all nodes, for the waiting pods of a group, one of each equivalence class."""

    group: PodGroup


Subject: TypeAlias = PodGroup | PlacedPod | EveryNode | Node


class Explanation(Struct, frozen=True):
    """What a decider answers about a subject. Fields of other kinds of subject are empty."""

    waiting: Waiting | None = None
    """Of a pod group: what it waits for; None if it does not wait, or belongs to another scheduler."""
    choice: Choice | None = None
    """Of a placed pod: why it got its node; None if State does not hold the pod or the node."""
    judged: tuple[JudgedPod, ...] = ()
    """Of all nodes, if the subject asks for them: the answers for one pod of each equivalence class."""
    excluded: tuple[ExcludedPods, ...] = ()
    """Of a node: the waiting pods that it excludes or that do not fit it now."""
