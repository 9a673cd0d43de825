"""A simulated cluster in which nodes, chips and pods break, scheduled by the core, with a judge of every decision."""

import json
from io import BytesIO
from typing import Final

from msgspec import structs

from daemon.simulation import policy_of
from engine.batch import Batch
from engine.engine import Engine
from events.codec import event_of
from events.daemon import DaemonStarted
from events.messages import (
    Answer,
    BindRequest,
    EvictRequest,
    OutcomeUnknown,
    Rejected,
    Reply,
    Request,
    WatchMessage,
)
from events.normalize import Json, JsonObject
from events.record import GENESIS
from features.table import FEATURES
from projections.snapshot import parts_of, restore, take
from projections.state import State
from simulator.cluster import SimulatedCluster, TimedStep
from simulator.journal import execute
from simulator.scenario import Apply, parse_scenario
from tests.properties.fault_judge import FaultJudge, Job, Rules, World
from tests.properties.witness import Witness, same

SECOND: Final = 1_000_000_000
NPU: Final = "huawei.com/Ascend910"
GPU: Final = "nvidia.com/gpu"
CHIPS: Final = 8
GPUS: Final = 2
GPU_NODES: Final = ("g1", "g2", "g3")
NPU_NODES: Final = ("a1", "a2", "a3")
NODES: Final = (*GPU_NODES, *NPU_NODES)
ROUNDS_MAX: Final = 8
"""Rounds of requests, answers and what they lead to at one moment."""


class FaultCluster:
    """The cluster and the daemon's core, in virtual time."""

    def __init__(self, rules: Rules, jobs: list[Job]) -> None:
        self.rules, self.jobs = rules, jobs
        scenario = parse_scenario(json.dumps(_scenario(rules, jobs)), "faults")
        self.cluster = SimulatedCluster(scenario)
        self.world = World(self.cluster, rules, {one.name: one for one in jobs})
        self.judge = FaultJudge(self.world)
        self.witness = Witness()
        self.engine = Engine(State(FEATURES), GENESIS)
        self._next_cycle_ns = 0
        self.failing = ""
        """What happens to the next request: `refused`, `lost`, `unheard` or nothing."""
        started = DaemonStarted(
            holder="test", version="0", period_ns=SECOND, scheduler_names=("muster", "volcano")
        )
        self._started = started
        policy = policy_of(scenario)
        self._take(self.engine.start(started, policy, 1, 0))
        self.engine.begin_listing()
        self.live(3)

    @property
    def now_ns(self) -> int:
        """Return the virtual time."""
        return self.cluster.now_ns

    def happen(self, step: TimedStep) -> None:
        """Do a step of a scenario now."""
        self.cluster.add_step(step)
        self.cluster.advance(self.now_ns)

    def submit(self, job: Job) -> None:
        """Create a job now."""
        self.world.jobs[job.name] = job
        steps: list[Json] = [{"at": "0s", "apply": [manifest(job)]}]
        made = parse_scenario(json.dumps({"scenario": "a job", "steps": steps}), "job")
        for step in made.steps:
            assert isinstance(step, Apply)
            self.happen(structs.replace(step, at_ns=self.now_ns))

    def live(self, seconds: int) -> None:
        """Let time pass. The core sees and decides everything as soon as it is due."""
        end = self.now_ns + seconds * SECOND
        self._decide()
        while self.now_ns < end:
            due = [self.engine.state.next_deadline_ns, self.cluster.next_event_ns]
            due += [self.now_ns + SECOND if self._is_busy() else None]
            first = min([one for one in due if one is not None], default=end)
            self.cluster.advance(min(end, max(first, self.now_ns + SECOND)))
            self._decide()

    def restart(self) -> None:
        """Go on with a State from a snapshot. One that is folded from the log decides the same."""
        folded = State(FEATURES)
        for record, content in self.witness.log:
            folded.apply(record, event_of(record), content)
        folded.settle()
        image = take(self.engine.state)
        same(folded, self.engine.state)
        assert list(parts_of(BytesIO(image).read)) == list(
            parts_of(BytesIO(take(restore(image, FEATURES))).read)
        )
        head = self.engine.head
        self.engine, twin = Engine(restore(image, FEATURES), head), Engine(folded, head)
        self.cluster.relist()
        shown = self.cluster.poll_watch()
        epoch = head.epoch + 1
        self.judge.note_faults()
        for one in (self.engine, twin):
            batches = self._begin(one, shown, epoch)
            if one is self.engine:
                for batch in batches:
                    self._take(batch)
        assert twin.head == self.engine.head, "State from a snapshot and State from the log differ"
        self._carry_out()

    def _begin(self, engine: Engine, shown: list[WatchMessage], epoch: int) -> list[Batch | None]:
        begun: list[Batch | None] = [engine.start(self._started, None, epoch, self.now_ns)]
        engine.begin_listing()
        begun.append(engine.observe(shown, self.now_ns))
        begun.append(engine.cycle(self.now_ns))
        return begun

    def check(self) -> None:
        """State adds up, and is what the log says."""
        self.engine.state.validate()
        assert self.engine.head == self.witness.replay.head
        same(self.engine.state, self.witness.state)
        self.judge.look(self.engine.state)

    def end(self) -> None:
        """Nothing is left undecided."""
        assert self.witness.replay.finish() is None
        self.witness.state.validate()

    def _is_busy(self) -> bool:
        soon = self.now_ns + SECOND
        return self.engine.is_due(soon) or any(True for _ in self.engine.requests())

    def _decide(self) -> None:
        self._take(self.engine.observe(self.cluster.poll_watch(), self.now_ns))
        if self.now_ns >= self._next_cycle_ns:
            self.judge.note_faults()
            self._take(self.engine.cycle(self.now_ns))
            self._next_cycle_ns = self.now_ns + SECOND
        self._carry_out()
        self.judge.look_at_cycle(self.engine.state)

    def _carry_out(self) -> None:
        for _ in range(ROUNDS_MAX):
            requests = list(self.engine.requests())
            for request in requests:
                reply = self._answer(request)
                self._take(self.engine.report([Answer(request, reply)], self.now_ns))
            self._take(self.engine.observe(self.cluster.poll_watch(), self.now_ns))
            if not requests:
                return

    def _answer(self, request: Request) -> Reply:
        """Carry a request out, or not."""
        how, self.failing = self.failing, ""
        if not how or not isinstance(request, BindRequest | EvictRequest):
            reply = execute(self.cluster, request)
            self.judge.answered(request, reply)
            return reply
        if how == "refused":
            refused = Rejected("Forbidden", "no")
            self.judge.answered(request, refused)
            return refused
        if how == "unheard":
            self.judge.answered(request, execute(self.cluster, request))
        return OutcomeUnknown("no answer")

    def _take(self, batch: Batch | None) -> None:
        if batch is None:
            return
        self.witness.take(batch)
        for record in batch.records:
            self.judge.judge(record, event_of(record), self.now_ns)


def _scenario(rules: Rules, jobs: list[Job]) -> JsonObject:
    actions = "reschedule, allocate, backfill"
    policy: JsonObject = {
        "actions": f"enqueue, {actions}" if rules.has_enqueue else actions,
        "configurations": [{"name": "reschedule", "arguments": rules.arguments()}],
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}]},
            {"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]},
        ],
    }
    nodes: list[Json] = [*map(_gpu_node, GPU_NODES), *map(_npu_node, NPU_NODES)]
    steps: list[Json] = [
        {"at": "0s", "devices": [{"node": one, "report": {}} for one in NPU_NODES]}
    ]
    steps += [{"at": "1s", "apply": [manifest(one)]} for one in jobs]
    return {
        "scenario": "faults",
        "policy": policy,
        "until": "1000000s",
        "cluster": nodes,
        "steps": steps,
    }


def _gpu_node(name: str) -> JsonObject:
    amounts: JsonObject = {"cpu": "64", "pods": "110", GPU: str(GPUS)}
    return _node(name, amounts, {"gpu": "yes"}, {})


def _npu_node(name: str) -> JsonObject:
    amounts: JsonObject = {"cpu": "64", "pods": "110", NPU: str(CHIPS)}
    chips: JsonObject = {f"Ascend910-{index}": {} for index in range(CHIPS)}
    labels: JsonObject = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
    return _node(name, amounts, labels, {"baseDeviceInfos": json.dumps(chips)})


def _node(
    name: str, amounts: JsonObject, labels: JsonObject, annotations: JsonObject
) -> JsonObject:
    conditions: list[Json] = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    }


def manifest(job: Job) -> JsonObject:
    """Return the Volcano Job of a job."""
    resource, count = (NPU, 4) if job.has_chips else (GPU, GPUS)
    asked: JsonObject = {resource: str(count)}
    selector: JsonObject = {"accelerator-type": "module"} if job.has_chips else {"gpu": "yes"}
    pod: JsonObject = {
        "metadata": {
            "labels": {"job": job.name},
            "annotations": {"muster.sh/stop-seconds": str(job.stop_seconds)},
        },
        "spec": {
            "nodeSelector": selector,
            "containers": [{"name": "main", "resources": {"requests": asked, "limits": asked}}],
        },
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": job.name, "labels": dict(job.labels)},
        "spec": {
            "schedulerName": "muster",
            "minAvailable": job.pods,
            "tasks": [{"name": "w", "replicas": job.pods, "template": pod}],
        },
    }
