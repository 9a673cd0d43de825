"""Pods of a job are deleted after a fault, and the job is complete again."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from events.decision import DecisionItem, PodGroupDecision
from events.decisions.eviction import EvictionDecided

RESCHEDULE: Final = "reschedule"
"""`action` of these decisions."""

POD: Final = "pod"
SUPER_POD: Final = "super_pod"
JOB: Final = "job"
"""Scopes: which pods are deleted."""

RESTARTED: Final = "Restarted"
REPLACED: Final = "Replaced"
TIMED_OUT: Final = "TimedOut"
RESTART_RESULTS: Final = (RESTARTED, TIMED_OUT, REPLACED)
"""How a restart ends: as many pods have nodes as before; too late; another workload has the name of the job."""


class RestartedPod(Struct, frozen=True, array_like=True, omit_defaults=True):
    """A pod of a job that is restarted, as it was when the fault was seen."""

    pod: str
    """`namespace/name`"""
    uid: str
    node: str
    rank: int = -1
    fault: str = ""
    """Kind of its fault; empty for a healthy pod."""
    detail: str = ""
    """What was reported, for people."""
    device: str = ""
    source: str = ""


class RescheduleDecided(EvictionDecided, frozen=True, kw_only=True):
    """Pods of a job are deleted after a fault."""

    kind = "reschedule_decided.v1"

    mode: str
    """`grace`: evicted through disruption budgets; `force`: deleted at once."""
    scope: str
    """`pod`, `super_pod` or `job`: which pods are deleted."""
    members: tuple[RestartedPod, ...] = ()
    """The pods that the job had on nodes, and which of them were faulty."""
    grace_ns: int = 0
    """Time until pods that have not ended are deleted by force; 0 if they are deleted by force at once."""
    is_escalation: bool = False
    """Whether more is deleted because the job was not complete again in time."""

    def lines(self) -> list[str]:
        """Return the lines of `tell`: the pods are under the first one."""
        what = {POD: "faulty pods", SUPER_POD: "pods of its logical SuperPoD", JOB: "all pods"}
        first, *rest = super().lines()
        faulty = [
            f"fault: {one.pod} on {one.node}: {one.detail}" for one in self.members if one.fault
        ]
        return [f"{first} ({what.get(self.scope, self.scope)}, {self.mode})", *faulty, *rest]


class RestartEnded(PodGroupDecision, frozen=True, kw_only=True):
    """The restart of a job after a fault is over."""

    kind = "restart_ended.v1"
    word = "restart_ended"

    code: str
    """One of `RESTART_RESULTS`."""
    message: str
    restart_ns: int = 0
    """Time since its first pod was deleted."""

    def items(self) -> Sequence[DecisionItem]:
        """Return one item, about the group."""
        return [self.item(code=self.code, message=self.message)]

    def lines(self) -> list[str]:
        """Return the line of `tell`."""
        return [f"restart of {self.pod_group} is over: {self.message}"]
