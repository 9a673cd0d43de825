"""Chips of an Ascend node, and what a product answers about them.

A *chip* is one device, with an id that is unique on its node; sets of chips are bit masks: bit `i` is chip `i`. A
*product* is a form of server or card (`accelerator-type`): it says which requests make sense, which free chips serve a
request, and how well. All answers of a product follow from one function (`Product.place`), so that a node passes if and
only if it has a score and chips can be picked.

Scores are those of the vendor's tables: whole numbers, higher is better, comparable between nodes for one product only.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from msgspec import Struct

CHIPS_MAX: Final = 64
"""Maximum number of chips of a node."""

NONE_FIT: Final = -1
"""Score of a node that does not fit."""

SCORE_WEIGHT: Final = 100
"""Points for one step of the vendor's score, as in its plugin since 6.0: one step is as much as a plugin that scores 0 to
100 can add, so that rings count before how full a node is."""

INVALID_REQUEST: Final = "InvalidResourceRequest"
INVALID_ARGUMENT: Final = "InvalidArgument"
NOT_SUPPORTED: Final = "NotSupportPolicy"


class Problem(NamedTuple):
    """What is wrong with a job: a code and a message, or two empty texts."""

    code: str = ""
    message: str = ""


NO_PROBLEM: Final = Problem()


class Chips(NamedTuple):
    """The chips of one node."""

    free: int
    """Mask of the chips that can be given away."""
    allocatable: int
    """Number of chips that the node states as allocatable."""
    network_unhealthy: int = 0
    """Mask of the chips that cannot reach other nodes."""
    unhealthy: int = 0
    """Number of broken chips."""
    knows_network: bool = True
    """Whether the device plugin says which chips cannot reach other nodes."""


class ChipRequest(Struct, frozen=True):
    """What one task (pod) asks for."""

    count: int
    is_distributed: bool = False
    """Whether several tasks of the job ask for chips."""
    resource: str = "huawei.com/Ascend910"
    total: int = 0
    """Number of chips of all tasks of the job; 0 where it does not matter."""


class TaskChips(Struct, frozen=True):
    """Equal tasks of a job: the chips that each of them asks for."""

    count: int
    name: str = ""


class JobChips(NamedTuple):
    """What the tasks of a job ask for. Tasks without chips beside them, such as a scheduler, do not count."""

    tasks: tuple[TaskChips, ...]
    """One entry for each different request."""
    task_count: int
    """Number of tasks that ask for chips."""
    total: int
    """Number of chips of all tasks."""
    name: str = ""

    @property
    def is_distributed(self) -> bool:
        """Return whether several tasks ask for chips."""
        return self.task_count > 1


class Group(NamedTuple):
    """Chips with neighbouring ids that are linked with each other."""

    name: str
    size: int


class Placing(NamedTuple):
    """How a node serves a request: its score, and the mask of the chips."""

    score: int
    chips: int


class AscendOptions(NamedTuple):
    """Options of the Ascend plugin in which documents and versions of the vendor's plugin differ."""

    strict_8n: bool = False
    """Distributed jobs on 910 servers take whole nodes."""
    strict_pairs: bool = False
    """Tasks of more than 8 chips on a Box16 get equal positions in both rings, also in distributed jobs."""
    linear: bool = False
    """Score products without groups of chips by the number of free chips, not by their table."""
    weight: int = SCORE_WEIGHT
    """Points that one step of the vendor's score adds to the score of a node."""


@dataclass(frozen=True)
class Product(ABC):
    """A form of Ascend servers or cards. Equal products give equal answers."""

    title: ClassVar[str]
    group: ClassVar[Group | None] = None
    """What its chips are linked in; None if each chip of a node is linked with all others alike."""
    chips_max: int
    """Maximum number of chips of a node, and of a task."""
    is_numbered: ClassVar[bool] = True
    """Whether ids are 0 to `chips_max` - 1, as groups of chips follow from them."""
    heeds_network: ClassVar[bool] = True
    """Whether distributed jobs get no chip that cannot reach other nodes."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the values of the label `accelerator-type` of the nodes that serve the product, the usual one first; ()
        for any."""
        return ()

    def problem(self, job: JobChips) -> Problem:
        """Return what is wrong with a job, whatever nodes there are: a task asks for no chip, or for more than a node
        has."""
        return count_problem(job, self.chips_max)

    @abstractmethod
    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return how chips of a mask of at least `request.count` serve a request; None if they are in wrong groups."""

    def topology_problem(self, request: ChipRequest, chips: Chips, usable: int) -> str:
        """Return the message of a node that has enough chips in wrong groups."""
        return (
            "the npus on this node don't satisfy the schedulable topology: "
            f"req npu({request.count}), node top<{shown(usable)}>"
        )

    def score(self, request: ChipRequest, chips: Chips) -> int:
        """Return the score of a node, 0 or more; -1 if it does not fit."""
        placing = self._place(request, chips)
        return NONE_FIT if placing is None else max(0, placing.score)

    def pick(self, request: ChipRequest, chips: Chips) -> tuple[int, ...]:
        """Return the ids of the chips that a task gets, ascending; () if the node does not fit."""
        placing = self._place(request, chips)
        return () if placing is None else ids(placing.chips)

    def obstacle(self, request: ChipRequest, chips: Chips) -> str:
        """Return why a node does not fit; "" if it does."""
        if problem := self._obstacle(request, chips):
            return problem
        usable = self.usable(request, chips)
        if self.place(request, chips, usable) is None:
            return self.topology_problem(request, chips, usable)
        return ""

    def usable(self, request: ChipRequest, chips: Chips) -> int:
        """Return the free chips that a task of the job can use."""
        if self.heeds_network and request.is_distributed:
            return chips.free & ~chips.network_unhealthy
        return chips.free

    def _place(self, request: ChipRequest, chips: Chips) -> Placing | None:
        if self._obstacle(request, chips):
            return None
        return self.place(request, chips, self.usable(request, chips))

    def _obstacle(self, request: ChipRequest, chips: Chips) -> str:
        """Return why a node does not fit, whatever groups its chips are in."""
        if not 1 <= request.count <= self.chips_max:
            return f"judgeNodeAndTaskNPU task req num<{request.count}> is invalid"
        if not chips.free:
            return f"getUsableTopFromNode don't have {request.resource}"
        has_others = self.is_numbered and chips.free >> self.chips_max
        if has_others or chips.free.bit_count() > self.chips_max:
            return f"node npu top<{shown(chips.free)}> is invalid"
        if self.heeds_network and request.is_distributed and not chips.knows_network:
            return f"node don't have resource<{request.resource}-NetworkUnhealthy>"
        have = self.usable(request, chips).bit_count()
        if have < request.count:
            return (
                "NPUResourceShortage: node don't have enough resource, "
                f"req<{request.count}>, idle<{have}>"
            )
        return ""


def thousandths(score: int, chips: Chips, weight: int = SCORE_WEIGHT) -> int:
    """Return the score of a node in thousandths of a point; -1 if it does not fit.

    Tables of different products have different scales, but nodes are compared for one job, and so for one product. Of
    equal scores the node with fewer free chips has a few thousandths more.
    """
    return NONE_FIT if score < 0 else score * weight * 1000 + CHIPS_MAX - chips.free.bit_count()


def ids(mask: int) -> tuple[int, ...]:
    """Return the ids in a mask, ascending."""
    return tuple([index for index in range(mask.bit_length()) if mask >> index & 1])


def mask_of(chips: Iterable[int]) -> int:
    """Return the mask of ids."""
    mask = 0
    for one in chips:
        mask |= 1 << one
    return mask


def lowest(mask: int, count: int) -> int:
    """Return the mask of the lowest ids of a mask."""
    found = 0
    for _ in range(count):
        bit = mask & -mask
        found |= bit
        mask ^= bit
    return found


def groups(mask: int, size: int, chips_max: int) -> list[int]:
    """Return the part of a mask in each group of so many neighbours, the group of chip 0 first."""
    one = (1 << size) - 1
    return [mask & one << first for first in range(0, chips_max, size)]


def shown(mask: int) -> str:
    """Return a mask as messages show it."""
    return f"[{' '.join(map(str, ids(mask)))}]"


def device_names(resource: str, mask: int) -> str:
    """Return the names of chips as annotations list them: `Ascend910-0,Ascend910-1`."""
    prefix = resource.rpartition("/")[2]
    return ",".join(f"{prefix}-{index}" for index in ids(mask))


def named(kind: str, name: str) -> str:
    """Return a job or task as messages show it: `job<ns/name>`, or `job` if its name is not known."""
    return f"{kind}<{name}>" if name else kind


def count_problem(job: JobChips, most: int, invalid: tuple[int, ...] = ()) -> Problem:
    """Return the message that lists the tasks which ask for a number of chips that no node gives."""
    wrong = [one for one in job.tasks if not 1 <= one.count <= most or one.count in invalid]
    if not wrong:
        return NO_PROBLEM
    listed = "".join(f"{named('task', one.name)} req npu: {one.count}, " for one in wrong)
    not_in = " ".join(f"{one}:{{}}" for one in invalid)
    return Problem(
        INVALID_REQUEST,
        f"expected: {named('job', job.name)} req npu num should small than {most}, "
        f"and not in map[{not_in}], actual: {listed}",
    )


def linear_score(most: int, chips: Chips, usable: int) -> int:
    """Return the score by the number of free chips: fewer win, after nodes with fewer broken chips."""
    return (most - chips.unhealthy) * 100 - usable.bit_count()
