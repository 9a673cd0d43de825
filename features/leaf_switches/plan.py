"""The question that the rules of leaf switches answer, and the answer: one node for each pod, or why there is none.

Numbers follow the vendor's rules: `n` pods are to be placed, a whole switch has `M` servers, `free` of a switch are its
servers whose nodes have room for a pod.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from events.limits import clipped
from features.ascend.network_labels import LARGE_MODEL
from features.leaf_switches.index import EXCLUSIVE, IDLE, SHARED, UNUSED, SwitchState

SMALL_TASKS: Final = 4
"""A large-model job of fewer pods is a padding job."""

TAKES: Final = "takes "
"""How a step begins that takes servers."""
STEPS_MAX: Final = 4
"""Maximum steps in the message of a refusal."""

NO_ROOM: Final = "tor check failed not enough resource for job"
NO_ROOM_LARGE: Final = "set tor failed by not enough nodes"
NO_ROOM_NORMAL: Final = "not enough node for normal job to schedule"
NO_ROOM_FOR_REST: Final = "not enough tor for job restart"
NO_ROOM_FOR_PADDING: Final = "not enough tor for fill job restart"
"""Messages of the vendor's scheduler."""


@dataclass(frozen=True)
class FreeSwitch:
    """A leaf switch with its candidates."""

    name: str
    servers: Sequence[tuple[int, str]]
    """Position and node of each candidate, sorted by position."""
    state: SwitchState = UNUSED

    @property
    def free(self) -> int:
        """Return the number of candidates."""
        return len(self.servers)


@dataclass(frozen=True)
class SwitchJob:
    """A job that is to be placed."""

    count: int
    """`n`: number of its pods to place, one a node."""
    tasks: int
    """Number of all its pods with chips."""
    is_large: bool
    """Whether it is a large-model job (`large-model-schema`), not a common one (`normal-schema`)."""
    servers_per_switch: int
    """`M`"""
    shared_limit: int = 2
    """Maximum number of shared switches that a job uses (`shared-tor-num`)."""

    @property
    def is_padding(self) -> bool:
        """Return whether it must be under exactly one switch."""
        return self.is_large and self.tasks < SMALL_TASKS

    @property
    def kind(self) -> str:
        """Return what the documents call it."""
        if self.is_padding:
            return "padding"
        return "foundation" if self.is_large else "common"


@dataclass(frozen=True)
class Taken:
    """Candidates of one switch that a job takes."""

    switch: FreeSwitch
    servers: Sequence[tuple[int, str]]
    is_shared: int = IDLE
    """What the switch is for the job if it crosses switches: `SHARED` or `EXCLUSIVE`."""
    is_unhealthy: bool = False


@dataclass
class Plan:
    """The servers of a job in the order of its ranks, and how they were found."""

    servers: list[tuple[FreeSwitch, str]] = field(default_factory=list)
    """Switch and node of each pod."""
    taken: list[Taken] = field(default_factory=list)
    """The same by switch, where that is the order; empty for logical switches."""
    problem: str = ""
    """Why the job is not placed; empty if it is."""
    walk: list[str] = field(default_factory=list)
    """The steps that were tried, each in a few words."""
    stays_crossing: bool = False
    """Whether the job crosses switches whatever the servers are: by its other pods, or by those that it lost."""

    @property
    def crosses(self) -> bool:
        """Return whether the job crosses switches with these servers."""
        return self.stays_crossing or len({switch.name for switch, _ in self.servers}) > 1

    @property
    def problem_text(self) -> str:
        """Return the problem with the steps that were tried, as far as they fit into a message."""
        steps = [one for one in self.walk[:-1] if not one.startswith(TAKES)]
        more = len(steps) - STEPS_MAX
        shown = [*steps[:STEPS_MAX], *([f"and {more} more"] if more > 0 else [])]
        return clipped(f"{self.problem} ({'; '.join(shown)})" if shown else self.problem)

    def refuse(self, problem: str) -> "Plan":
        """Return this plan without servers."""
        self.servers, self.taken, self.problem = [], [], problem
        self.walk.append(problem)
        return self

    def take(
        self, switch: FreeSwitch, count: int, is_shared: int = IDLE, *, is_unhealthy: bool = False
    ) -> None:
        """Take the first `count` candidates of a switch."""
        servers = switch.servers[:count]
        self.taken.append(Taken(switch, servers, is_shared, is_unhealthy))
        self.servers += [(switch, node) for _, node in servers]
        what = {IDLE: "", SHARED: ", shared", EXCLUSIVE: ", exclusive"}[is_shared]
        health = ", unhealthy" if is_unhealthy else ""
        self.walk.append(
            f"{TAKES}{len(servers)} of {switch.free} under {switch.name}{what}{health}"
        )


Rules: TypeAlias = Callable[[SwitchJob, list[FreeSwitch]], Plan]
"""Rules of one network: they return the plan of a job over switches, which are given in the order of the map."""


def smallest_sufficient(switches: list[FreeSwitch], count: int) -> FreeSwitch | None:
    """Return the switch with the fewest candidates that are enough, of equal ones the last; None if none has enough."""
    enough = [one for one in switches if one.free >= count]
    return min(reversed(enough), key=lambda one: one.free, default=None)


def descending(switches: list[FreeSwitch]) -> list[FreeSwitch]:
    """Return switches with candidates, those with the most first."""
    return sorted((one for one in switches if one.free), key=lambda one: -one.free)


def ascending(switches: list[FreeSwitch]) -> list[FreeSwitch]:
    """Return switches with candidates, those with the fewest first."""
    return sorted((one for one in switches if one.free), key=lambda one: one.free)


def single_layer(job: SwitchJob, switches: list[FreeSwitch]) -> Plan:
    """Place a job in a network without a second layer: under one switch, whatever its class."""
    plan = Plan()
    found = smallest_sufficient(switches, job.count)
    if found is None:
        return plan.refuse(NO_ROOM)
    plan.take(found, job.count)
    return plan


def beside_its_pods(job: SwitchJob, used: list[FreeSwitch]) -> Plan:
    """Place the remaining pods of a job, of which others are placed: under the switches that it uses."""
    plan = Plan()
    if take_used(plan, used, job.count):
        return plan.refuse(NO_ROOM_FOR_PADDING if job.is_padding else NO_ROOM_FOR_REST)
    return plan


def take_used(plan: Plan, used: list[FreeSwitch], count: int) -> int:
    """Take candidates under the switches that a job uses, exclusive ones first; return how many are missing."""
    left = count
    for one in sorted(used, key=lambda one: -one.state.is_shared):
        if left and one.free:
            plan.take(
                one, min(left, one.free), one.state.is_shared, is_unhealthy=one.state.is_unhealthy
            )
            left -= min(left, one.free)
    return left


def is_large(job_class: str) -> bool:
    """Return whether the label is that of large-model jobs."""
    return job_class == LARGE_MODEL
