"""What must hold of every decision after a fault, by rules written a second time: from the simulated cluster alone."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from events.decisions.gang_bind import GangBindDecided
from events.decisions.reschedule import JOB, POD, RescheduleDecided, RestartEnded
from events.messages import EvictRequest, Rejected, Reply, Request
from events.normalize import JsonObject
from events.record import Record
from events.union import Event
from projections.device_holders import DeviceHolders
from projections.state import State
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    is_terminating,
    node_of,
    phase_of,
    section,
    text_at,
    uid_of,
)

SECOND: Final = 1_000_000_000
HOUR: Final = 3600 * SECOND
NPU: Final = "huawei.com/Ascend910"
SLACK_SECONDS: Final = 3
"""A fault is seen by the cycle after it, and a time is reached in the cycle after it."""
JOB_ATTEMPTS: Final = 12
RETRY_SECONDS: Final = 30
"""Time after which a refused eviction is tried again."""


class Rules(Struct, frozen=True):
    """Arguments of `reschedule`; times are in seconds."""

    mode: str = "grace"
    scope: str = "job"
    tolerance: int = 0
    settle: int = 0
    grace_over: int = 30
    reservation: int = 60
    stranded: int = 60
    restarts_per_hour: int = 20
    retries: int = 0
    has_enqueue: bool = True
    """Whether jobs are admitted by the action `enqueue`, and not where they are placed."""

    def arguments(self) -> JsonObject:
        """Return the arguments as the policy states them."""
        return {
            "mode": self.mode,
            "scope": self.scope,
            "tolerance": f"{self.tolerance}s",
            "settle": f"{self.settle}s",
            "graceOverTime": f"{self.grace_over}s",
            "reservation": f"{self.reservation}s",
            "strandedTimeout": f"{self.stranded}s",
            "restartsPerHour": str(self.restarts_per_hour),
            "retryTimes": str(self.retries),
        }


class Job(Struct, frozen=True):
    """A gang that needs all of its pods."""

    name: str
    has_chips: bool
    pods: int
    labels: dict[str, str]
    stop_seconds: int = 0

    def mode(self, rules: Rules) -> str:
        """Return how pods are deleted after a fault."""
        return self.labels.get("fault-scheduling", rules.mode)

    @property
    def recovers_processes(self) -> bool:
        """Return whether healthy pods are never deleted."""
        return self.labels.get("process-recover-enable") == "on"

    def moves_pods_only(self, rules: Rules) -> bool:
        """Return whether healthy pods stay at first."""
        stated = self.labels.get("pod-rescheduling")
        if self.recovers_processes:
            return True
        return rules.scope == "pod" if stated is None else stated == "on"

    def retries(self, rules: Rules) -> int:
        """Return how often failed pods restart it."""
        return int(self.labels.get("fault-retry-times", rules.retries))


class World:
    """What is broken in the cluster, and since when."""

    def __init__(self, cluster: SimulatedCluster, rules: Rules, jobs: dict[str, Job]) -> None:
        self.cluster, self.rules, self.jobs = cluster, rules, jobs
        self.down: dict[str, None] = {}
        """Nodes that are not ready, or unhealthy for NodeD."""
        self.closed: dict[str, None] = {}
        """Nodes that get no pods although their pods stay: cordoned, or PreSeparate."""
        self.back: dict[str, int] = {}
        """Node that has recovered to when it did."""
        self.chips: dict[tuple[str, str], None] = {}
        """Node and name of each unhealthy chip."""

    def pods(self, job: str) -> Iterator[Manifest]:
        """Yield the pods of a job."""
        for pod in self.cluster.store.objects()["Pod"].values():
            if text_at(section(pod, "metadata", "labels"), "job") == job:
                yield pod

    def is_faulty(self, pod: Manifest) -> bool:
        """Return whether the node of a pod or one of its chips is broken."""
        node = node_of(pod)
        chips = text_at(section(pod, "metadata", "annotations"), NPU).split(",")
        return node in self.down or any((node, chip) in self.chips for chip in chips)

    def is_open(self, node: str, now_ns: int) -> bool:
        """Return whether a node may get pods."""
        if node in self.down or node in self.closed:
            return False
        return node not in self.back or now_ns >= self.back[node] + self.rules.settle * SECOND


class Deleted(Struct):
    """What was decided about a pod."""

    times: list[int] = field(default_factory=list)
    forced: int = 0
    refused: int = 0


class FaultJudge:
    """Holds every decision to the rules."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reached: Counter[str] = Counter()
        self._deleted: dict[str, Deleted] = {}
        self._restarts: dict[str, list[int]] = {}
        """Pod group to the times of its restarts."""
        self._begun: dict[str, int] = {}
        """Pod group to when the restart that is not over began."""
        self._decided: dict[str, int] = {}
        """Pod group to when pods of it were deleted last because they were faulty."""
        self._faulty: dict[str, int] = {}
        """UID of a pod that was faulty at every cycle since a time to that time."""
        self._complete: dict[str, None] = {}
        """Jobs that had all of their pods."""
        self._below: dict[str, int] = {}
        """Job that had all of its pods and lost some to the time since when."""
        self._alone: dict[str, int] = {}
        """The same, since when no pod of it is ending, and it may be restarted."""

    def answered(self, request: Request, reply: Reply) -> None:
        """Record how a request ended."""
        if isinstance(request, EvictRequest) and isinstance(reply, Rejected):
            self.reached["an eviction is refused"] += 1
            self._deleted.setdefault(request.uid, Deleted()).refused += 1

    def note_faults(self) -> None:
        """Record which pods are faulty at the start of a cycle."""
        now, before = self.world.cluster.now_ns, self._faulty
        self._faulty = {}
        for job in self.world.jobs:
            for pod in self.world.pods(job):
                if self.world.is_faulty(pod):
                    self._faulty[uid_of(pod)] = before.get(uid_of(pod), now)

    def judge(self, record: Record, event: Event, now_ns: int) -> None:
        """Judge a record at the time at which it was made."""
        match event:
            case RescheduleDecided():
                self._judge_restart(event, now_ns)
            case RestartEnded():
                self.reached[f"a restart ends: {event.code}"] += 1
                self._begun.pop(event.pod_group, None)
            case GangBindDecided():
                for one in event.placements:
                    assert self.world.is_open(one.node, now_ns), (record.position, one, "is closed")
            case _:
                pass

    def _judge_restart(self, event: RescheduleDecided, now_ns: int) -> None:
        world, rules, key = self.world, self.world.rules, event.pod_group
        job = world.jobs[key.partition("/")[2].partition("-uid-")[0]]
        mode = job.mode(rules)
        uids = [one.uid for one in event.evictions]
        assert mode != "off", "a job that wants nothing is moved"
        assert uids, "a decision about no pod"
        assert len(set(uids)) == len(uids), "a pod twice in one decision"
        pods = {uid_of(pod): pod for pod in world.pods(job.name)}
        assert all(uid in pods for uid in uids), "a pod that does not exist"
        self.reached.update((event.code, f"scope {event.scope}", f"mode {event.mode}"))
        if event.code == "GraceOver":
            assert mode == "grace" or event.mode == "force"
            assert event.mode == "force"
        else:
            assert event.mode == mode, (event.mode, mode, event.code, event.message, job)
        match event.code:
            case "GraceOver":
                self._judge_grace(uids, mode, now_ns)
            case "Escalated":
                assert event.scope == JOB
                assert job.moves_pods_only(rules)
                assert not job.recovers_processes
                assert now_ns >= self._begun[key] + JOB_ATTEMPTS * SECOND, "too early"
            case "Stranded":
                since = self._below.get(job.name, now_ns)
                assert rules.stranded
                assert now_ns >= since + rules.stranded * SECOND, "too early"
            case _:
                self._judge_fault(event, job, pods, now_ns)
        self._count(event, job, uids, now_ns)

    def _judge_fault(
        self, event: RescheduleDecided, job: Job, pods: dict[str, Manifest], now_ns: int
    ) -> None:
        world, rules = self.world, self.world.rules
        evicted = {one.uid for one in event.evictions}
        # Members that an earlier decision deleted keep their faults.
        faulty = {one.uid: one for one in event.members if one.fault and one.uid in evicted}
        assert faulty, "a restart without a fault"
        for uid, one in faulty.items():
            pod = pods[uid]
            if one.fault == "pod-failed":
                assert job.retries(rules)
                assert phase_of(pod) == "Failed"
                continue
            if one.source == "label":
                continue
            assert world.is_faulty(pod), (one, "is healthy")
            since = self._faulty[uid]
            assert now_ns - since >= rules.tolerance * SECOND, (one, "within the tolerance")
        masters = [one for one in faulty.values() if one.rank == 0 and job.has_chips]
        is_pods_only = job.moves_pods_only(rules) and not masters
        assert event.scope == (POD if is_pods_only else JOB), (event.scope, job)
        if is_pods_only:
            healthy = [one for one in event.evictions if one.uid not in faulty]
            assert not healthy, (healthy, "is healthy and deleted")

    def _judge_grace(self, uids: list[str], mode: str, now_ns: int) -> None:
        for uid in uids:
            times = self._deleted[uid].times
            wait = (self.world.rules.grace_over if mode == "grace" else 1) * SECOND
            assert now_ns >= times[-1] + wait or len(times) > 1, (uid, "too early")

    def _count(self, event: RescheduleDecided, job: Job, uids: list[str], now_ns: int) -> None:
        key, limit = event.pod_group, self.world.rules.restarts_per_hour
        for uid in uids:
            one = self._deleted.setdefault(uid, Deleted())
            one.times.append(now_ns)
            again = len(one.times) - 1 - one.refused
            if event.code == "GraceOver":
                one.forced += 1
            assert again <= one.forced, (uid, one, "is deleted again although nothing was refused")
        if event.code in ("GraceOver", "Escalated", "Stranded"):
            self._begun.setdefault(key, now_ns)
            return
        self._begun.setdefault(key, now_ns)
        self._decided[key] = now_ns
        times = self._restarts.setdefault(key, [])
        refused = all(self._deleted[uid].refused for uid in uids)
        if not refused:
            times.append(now_ns)
        within = [one for one in times if one > now_ns - HOUR]
        assert len(within) <= limit, (key, len(within), "restarts in an hour")
        most = limit * job.pods * 2
        deleted = [
            uid
            for uid in self._deleted
            for one in (self._deleted[uid],)
            if one.times[0] > now_ns - HOUR
        ]
        assert len(deleted) <= most * len(self.world.jobs)

    def look_at_cycle(self, state: State) -> None:
        """Judge what time alone must bring."""
        now, rules = self.world.cluster.now_ns, self.world.rules
        for key, restart in state.cluster.reschedulings.restarts.items():
            if restart.reservations:
                assert now < restart.reserved_until_ns, (key, "reserved for too long")
                assert restart.reserved_until_ns <= restart.decided_ns + HOUR
                latest = restart.forced_ns or restart.decided_ns
                assert restart.reserved_until_ns <= latest + rules.reservation * SECOND
        for job in self.world.jobs.values():
            self._look_at_gang(state, job, now)

    def _look_at_gang(self, state: State, job: Job, now_ns: int) -> None:
        rules, pods = self.world.rules, list(self.world.pods(job.name))
        placed = [
            pod
            for pod in pods
            if node_of(pod) and phase_of(pod) != "Failed" and not is_terminating(pod)
        ]
        if len(placed) == job.pods:
            self._complete[job.name] = None
        is_below = job.name in self._complete and 0 < len(placed) < job.pods
        if not is_below:
            self._below.pop(job.name, None)
            self._alone.pop(job.name, None)
            if not placed:
                self._complete.pop(job.name, None)
            return
        self._below.setdefault(job.name, now_ns)
        key = next(
            (one for one in state.cluster.groups if one.startswith(f"default/{job.name}-uid-")), ""
        )
        recent = [one for one in self._restarts.get(key, ()) if one > now_ns - HOUR]
        is_watched = (
            job.mode(rules) != "off"
            and rules.stranded
            and len(recent) < rules.restarts_per_hour
            and not job.recovers_processes
            and not any(is_terminating(pod) or phase_of(pod) == "Failed" for pod in pods)
        )
        if not is_watched:
            self._alone.pop(job.name, None)
            return
        since = self._alone.setdefault(job.name, now_ns)
        most = (rules.stranded + SLACK_SECONDS) * SECOND
        assert now_ns - since <= most, (job, f"stranded for {(now_ns - since) // SECOND} s")

    def look(self, state: State) -> None:
        """Judge the cluster as it is: no chip has two pods, and no kubelet got more than it has."""
        assert not state.cluster.indexes.of(DeviceHolders).errors
        held: dict[tuple[str, str], str] = {}
        for key, pod in self.world.cluster.store.objects()["Pod"].items():
            if not node_of(pod) or phase_of(pod) in ("Succeeded", "Failed"):
                continue
            for chip in text_at(section(pod, "metadata", "annotations"), NPU).split(","):
                if chip:
                    other = held.setdefault((node_of(pod), chip), key[2])
                    assert other == key[2], (node_of(pod), chip, other, key[2])
            assert not text_at(section(pod, "status"), "reason").startswith("OutOf"), key
