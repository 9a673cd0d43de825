"""A cluster in which far more breaks than in any real one: nodes stop and flap, chips fail, switches are lost.

What breaks, and when, follows from the seed. The rates are published ones times 100 or more: per node and day .0008 stops and
.005 false alarms, per card and year .1 fatal and .3 recoverable faults, per switch and month .002 losses.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import Struct

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from events.cycle import CycleOpened
from events.decisions.reschedule import JOB, POD, RescheduleDecided, RestartEnded
from events.normalize import Json, JsonObject
from projections.device_holders import DeviceHolders
from projections.faulty_pods import FaultyPods
from projections.group_fault_options import fault_options
from projections.state import State
from replay.log_replay import Replay
from simulator.scenario import parse_scenario
from tests.storm.daemon_process import chance

T = TypeVar("T")

TIMES: Final = 100
CARDS: Final = 8
SWITCH_NODES: Final = 6
HOURS_QUIET: Final = 1.0
"""Hours at the end in which everything is repaired."""
TOLERANCE: Final = 5
GRACE: Final = 30
SETTLE: Final = 20
STRANDED: Final = 60
SLACK_SECONDS: Final = 5
RESTARTS_PER_HOUR: Final = 20
MODES: Final = (
    {"fault-scheduling": "grace"},
    {"fault-scheduling": "force"},
    {"fault-scheduling": "grace", "pod-rescheduling": "on"},
    {"fault-scheduling": "force", "pod-rescheduling": "on"},
    {"fault-scheduling": "off"},
)
POLICY: Final[JsonObject] = {
    "actions": "enqueue, reschedule, allocate, backfill",
    "configurations": [
        {
            "name": "reschedule",
            "arguments": {
                "tolerance": f"{TOLERANCE}s",
                "graceOverTime": f"{GRACE}s",
                "settle": f"{SETTLE}s",
                "strandedTimeout": f"{STRANDED}s",
                "restartsPerHour": str(RESTARTS_PER_HOUR),
            },
        }
    ],
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
    ],
}


class Storm(Struct, frozen=True):
    """How large a storm is."""

    nodes: int
    hours: float
    seed: int
    times: int = TIMES
    """How many times the published rates."""


class Weathered(Struct, frozen=True):
    """What came of a storm, where all is well."""

    seed: int
    records: int
    faults: Counter[str]
    restarts: Counter[str]
    """By scope and by how they ended."""
    evictions: int


async def weather(storm: Storm) -> Weathered:
    """Run a storm, and judge its log. What is not as it should be is an AssertionError that names the seed."""
    scenario, faults = storm_scenario(storm)
    log = MemoryLog()
    end = await simulate(parse_scenario(json.dumps(scenario), "storm"), log, with_views=False)
    replay, judge = Replay(), Judge(storm)
    async for entries in log.read():
        for entry in entries:
            divergence = replay.take(entry.record, entry.content)
            assert divergence is None, (storm, divergence)
            judge.look(replay.state, event_of(entry.record))
    divergence = replay.finish()
    assert divergence is None, (storm, divergence)
    replay.state.validate()
    judge.end(end.state)
    return Weathered(
        storm.seed, replay.state.position, faults, judge.restarts, sum(judge.evictions.values())
    )


class Draw:
    """Chance that follows from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed, self._count = seed, 0

    def uniform(self, least: float, most: float) -> float:
        """Return a number between two others."""
        self._count += 1
        return least + (most - least) * chance(self._seed, "fault", self._count)

    def choice(self, among: Sequence[T]) -> T:
        """Return one of several."""
        return among[int(self.uniform(0, len(among)))]

    def gap(self, per_second: float) -> float:
        """Return the time until the next of what happens so often."""
        return -math.log(1 - self.uniform(0, 1)) / per_second


class Judge:
    """What must always hold."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self.restarts: Counter[str] = Counter()
        self.evictions: Counter[str] = Counter()
        """Evictions by pod group."""
        self._decided: Counter[tuple[str, str]] = Counter()
        self._restarts_of: Counter[str] = Counter()

    def look(self, state: State, event: object) -> None:
        """Judge a record, which `state` has applied."""
        match event:
            case RescheduleDecided():
                self._moved(state, event)
            case RestartEnded():
                self.restarts[event.code] += 1
            case CycleOpened():
                self._at_cycle(state)
            case _:
                pass

    def _moved(self, state: State, event: RescheduleDecided) -> None:
        self.restarts[event.scope] += 1
        group = state.cluster.groups[event.pod_group]
        options = fault_options(group, state.cluster.policy.action_arguments.rescheduling)
        assert options.is_on, (self._storm, "a job that wants nothing is moved", event)
        faulty = {one.uid for one in event.members if one.fault}
        if not event.is_escalation:
            self._restarts_of[event.pod_group] += 1
            if event.scope == POD:
                healthy = [one.pod for one in event.evictions if one.uid not in faulty]
                assert not healthy, (self._storm, "healthy pods are moved", event)
            elif not options.moves_pods_only:
                assert event.scope == JOB
        for one in event.evictions:
            self.evictions[event.pod_group] += 1
            self._decided[one.uid, event.mode] += 1
            times = self._decided[one.uid, event.mode]
            assert times <= 2, (self._storm, "a pod is deleted again and again", one)
        most = RESTARTS_PER_HOUR * (1 + self._storm.hours)
        assert self._restarts_of[event.pod_group] <= most, (self._storm, "a loop", event.pod_group)

    def _at_cycle(self, state: State) -> None:
        cluster = state.cluster
        held_twice = cluster.indexes.of(DeviceHolders).errors
        assert not held_twice, (self._storm, held_twice)
        bound_ns = (STRANDED + SLACK_SECONDS) * 1_000_000_000
        for key, since in cluster.reschedulings.stranded_since_ns.items():
            group, restart = cluster.groups[key], cluster.reschedulings.restarts.get(key)
            options = fault_options(group, cluster.policy.action_arguments.rescheduling)
            if not options.is_on or (restart is not None and restart.leaving):
                continue
            if len(cluster.reschedulings.restarted_ns.get(key, ())) >= RESTARTS_PER_HOUR:
                continue
            seconds = (state.now_ns - since) / 1e9
            assert state.now_ns - since <= bound_ns, (self._storm, key, f"stranded for {seconds} s")

    def end(self, state: State) -> None:
        """Judge the end, an hour after everything was repaired."""
        cluster = state.cluster
        assert not cluster.indexes.of(FaultyPods).nodes, "everything is repaired"
        assert not cluster.reschedulings.restarts, (self._storm, "restarts that never end")
        assert not cluster.reschedulings.reservations_on(), "nothing is reserved"
        assert not cluster.reschedulings.settling
        for key, group in cluster.groups.items():
            assert group.is_ready, (self._storm, key, group.counts, group.decided.refusals)


def storm_scenario(storm: Storm) -> tuple[JsonObject, Counter[str]]:
    """Return the scenario of a storm, and the number of faults of each kind."""
    draw = Draw(storm.seed)
    names = [f"n{index:03d}" for index in range(storm.nodes)]
    npus = names[: storm.nodes // 2]
    steps: list[tuple[float, str, Json]] = []
    counts: Counter[str] = Counter()
    broken: dict[str, float] = {}
    """Node, or node and chip, to when it is repaired."""
    seconds = storm.hours * 3600

    def at_rate(per_second: float) -> list[float]:
        found, at = [], 60.0
        while (at := at + draw.gap(per_second)) < 60 + seconds:
            found.append(at)
        return found

    def stop(name: str, at: float, repaired: float) -> None:
        if broken.get(name, 0) < at:
            broken[name] = repaired + 1
            steps.append((at, "patch", ready(name, "Unknown")))
            steps.append((repaired, "patch", ready(name, "True")))

    day, year, month = 86_400.0, 365 * 86_400.0, 30 * 86_400.0
    for at in at_rate(storm.times * 0.0008 * storm.nodes / day):
        counts["node stops"] += 1
        stop(draw.choice(names), at, at + draw.uniform(300, 1800))
    for at in at_rate(storm.times * 0.005 * storm.nodes / day):
        counts["false alarms"] += 1
        stop(draw.choice(names), at, at + draw.uniform(1, 60))
    for at in at_rate(storm.times * 0.002 * (storm.nodes // SWITCH_NODES) / month):
        counts["switches"] += 1
        first = draw.choice(range(0, storm.nodes, SWITCH_NODES))
        repaired = at + draw.uniform(30, 900)
        for name in names[first : first + SWITCH_NODES]:
            stop(name, at, repaired)
    for kind, rate, short, long in (("fatal", 0.1, 300, 3600), ("recoverable", 0.3, 15, 180)):
        for at in at_rate(storm.times * rate * len(npus) * CARDS / year):
            name, chip = draw.choice(npus), f"Ascend910-{draw.choice(range(CARDS))}"
            if broken.get(f"{name} chips", 0) < at:
                counts[f"{kind} cards"] += 1
                repaired = at + draw.uniform(short, long)
                broken[f"{name} chips"] = repaired + 1
                steps.append((at, "devices", report(name, chip)))
                steps.append((repaired, "devices", report(name, "")))
    jobs = jobs_of(storm, draw)
    last = max([seconds, *(at for at, _, _ in steps)])
    steps.sort(key=lambda one: one[0])
    return {
        "scenario": f"a storm of faults, seed {storm.seed}",
        "policy": POLICY,
        "period": "1s",
        "until": f"{last + HOURS_QUIET * 3600:.0f}s",
        "cluster": [node(name, is_npu=name in npus) for name in names],
        "steps": [
            {"at": "1s", "apply": jobs},
            *[timed(at, what, entry) for at, what, entry in steps],
        ],
    }, counts


def timed(at: float, what: str, entry: Json) -> JsonObject:
    """A step of the scenario."""
    return {"at": f"{at:.3f}s", what: [entry]}


def jobs_of(storm: Storm, draw: Draw) -> list[Json]:
    """Gangs of both kinds of cards that fill two thirds of the cluster."""
    jobs: list[Json] = []
    for kind in ("npu", "gpu"):
        left = storm.nodes // 3
        while left > 1:
            pods = min(left, draw.choice((1, 2, 4, 8)))
            left -= pods
            jobs.append(job(f"{kind}-{len(jobs)}", kind, pods, draw.choice(MODES)))
    return jobs


def job(name: str, kind: str, pods: int, labels: dict[str, str]) -> JsonObject:
    """A gang of whole nodes."""
    resource = "huawei.com/Ascend910" if kind == "npu" else "nvidia.com/gpu"
    selector: JsonObject = {"accelerator-type": "module"} if kind == "npu" else {"gpu": "yes"}
    asked: JsonObject = {resource: str(CARDS)}
    spec: JsonObject = {
        "nodeSelector": selector,
        "containers": [{"name": "main", "resources": {"requests": asked, "limits": {**asked}}}],
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "schedulerName": "muster",
            "minAvailable": pods,
            "tasks": [{"name": "w", "replicas": pods, "template": {"spec": spec}}],
        },
    }


def node(name: str, *, is_npu: bool) -> JsonObject:
    """A node of eight chips or GPUs."""
    amounts: JsonObject = {"cpu": "64", "pods": "110"}
    metadata: JsonObject = {"name": name}
    if is_npu:
        amounts["huawei.com/Ascend910"] = str(CARDS)
        chips: JsonObject = {f"Ascend910-{index}": {} for index in range(CARDS)}
        metadata["labels"] = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
        metadata["annotations"] = {"baseDeviceInfos": json.dumps(chips)}
    else:
        amounts["nvidia.com/gpu"] = str(CARDS)
        metadata["labels"] = {"gpu": "yes"}
    conditions: list[Json] = [{"type": "Ready", "status": "True"}]
    status: JsonObject = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def ready(name: str, status: str) -> JsonObject:
    """A change of the condition Ready of a node."""
    merge: JsonObject = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
    return {"kind": "Node", "name": name, "merge": merge}


def report(name: str, chip: str) -> JsonObject:
    """A report of the device plugin of a node: a chip is unhealthy, or (empty) none is."""
    return {"node": name, "report": {"available": [], "unhealthy": [chip] if chip else []}}
