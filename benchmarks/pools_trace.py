"""A week of the spot-gpu workload in pools, under the deciders `session`, `priority` and `fair_share`.

python -m benchmarks.pools_trace [--scale 0.1] [--spot 0.5] [--offered 1.05] [--days 7] [--seed 1] [--decider NAME]

The nodes and the jobs are those of `workload: spot-gpu`: the jobs are synthetic, drawn from published counts. Each card
model is a pool, and there are no quotas, so that only the decider differs between runs. A job is a PodGroup and a
simulated trial whose pods are a gang. HP jobs are more important and not preemptible. Spot jobs are preemptible, write a
checkpoint at an interval and one when they are asked to release, and continue from the last one.

With `--offered`, each pool has as many nodes, of the mix of its model, as make its jobs offer this part of what its cards can
do: in the trace the jobs of A10 ask for more cards than there are, those of the other models for fewer. Prints tables in
Markdown.
"""

import argparse
import asyncio
import logging
from collections.abc import Container, Iterable, Iterator, Mapping
from time import process_time
from typing import Final

import msgspec
import structlog
from msgspec import Struct, field

from benchmarks.driving import SECOND, folder
from benchmarks.figures import Figure
from benchmarks.scale import Scale
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.simulation import simulate
from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.release import ReleaseDecided
from events.normalize import Json, JsonObject
from simulator.manifest import EXPERIMENT, RUN_SECONDS, LocatedManifest, Manifest
from simulator.manifest_fields import changed, list_at, name_of, section, text_at, whole_at
from simulator.scenario import Apply, Scenario, Step, WorkloadSource, kind_named, parse_scenario
from simulator.scenario_sources import generate_workload
from simulator.spot_gpu_objects import NODE_PLUGINS, ORDERING_TIER
from simulator.spot_gpu_table import TYPES

CARD: Final = "nvidia.com/gpu"
PRODUCT: Final = f"{CARD}.product"
HP, SPOT = TYPES
PRIORITIES: Final = {HP: 80, SPOT: 20}
"""Class of jobs to the value of its PriorityClass."""
CHECKPOINT_EVERY_SECONDS: Final = 1800
CHECKPOINT_SECONDS: Final = 60
"""How long a Spot job writes a checkpoint when it is asked to release its resources."""
TIMEOUT_SECONDS: Final = 300
"""`preemptionTimeout` of the pools."""
STOP_SECONDS: Final = 30
"""How long a Spot pod takes to terminate when it is evicted."""
PERCENT_MAX: Final = 5
"""Of the nodes of the trace, in a benchmark run."""
OFFERED: Final = 105
"""Offered load of a benchmark run in percent: the 90th percentile over the hours of the trace."""
DAY: Final = 86_400 * SECOND
SECONDS_PER_CARD_DAY: Final = 86_400

_POD_GROUP: Final = kind_named("PodGroup")
_PRIORITY_CLASS: Final = kind_named("PriorityClass")
_PLACE: Final = "benchmark"

_TIERS: Final[list[Json]] = [
    ORDERING_TIER,
    {"plugins": [{"name": "predicates"}, *NODE_PLUGINS]},
]
"""As in the policy of the workload, without quotas. The action `preempt` may break gangs."""


class Contender(Struct, frozen=True):
    """A way to decide, which is one row of the table."""

    name: str
    decider: str
    timeout_seconds: int = TIMEOUT_SECONDS
    hp_weight: int = 1
    is_by_organization: bool = False
    """Whether the jobs of one class and organization share as one."""


DECIDERS: Final = (
    Contender("session", "session"),
    Contender("priority", "priority"),
    Contender("priority, timeout 0s", "priority", timeout_seconds=0),
    Contender("fair_share", "fair_share"),
    Contender("fair_share by organization", "fair_share", is_by_organization=True),
    Contender(
        "fair_share by organization, weight 10 for HP",
        "fair_share",
        hp_weight=10,
        is_by_organization=True,
    ),
)


MEASURED: Final = ("session", "priority", "fair_share")
"""Names of the deciders of a benchmark run."""


class Week(Struct, frozen=True, kw_only=True):
    """What is simulated."""

    percent: int
    """Of the nodes and jobs of the trace."""
    offered_percent: int | None = None
    """Offered load of each pool, to which its nodes are fitted; None for the nodes of the trace."""
    spot_percent: int | None = None
    """Of the jobs; None for as many as published."""
    days: int = 7
    seed: int = 1

    @property
    def end_ns(self) -> int:
        """Return the end of the run."""
        return self.days * DAY


class TraceJob(Struct, frozen=True):
    """A job of the workload."""

    name: str
    type: str
    organization: str
    model: str
    workers: int
    cards: int
    """Of one worker."""
    at_ns: int
    run_seconds: int

    @property
    def slots(self) -> int:
        """Return the cards of all its workers."""
        return self.workers * self.cards

    def work(self, end_ns: int) -> int:
        """Return the slot-seconds that it would do until the end if it started at once."""
        return self.slots * min(self.run_seconds, (end_ns - self.at_ns) // SECOND)


class Load(Struct, frozen=True):
    """The nodes and jobs of a week, which are the same for all deciders."""

    week: Week
    nodes: tuple[LocatedManifest, ...]
    jobs: tuple[TraceJob, ...]

    def cards(self) -> dict[str, int]:
        """Return the cards of each model."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[_model(node)] = found.get(_model(node), 0) + _cards(node)
        return found

    def offered(self, types: Container[str] = TYPES) -> dict[str, float]:
        """Return the work of the jobs for each model, as a part of what its cards can do in the time."""
        asked: dict[str, int] = {}
        for job in self.jobs:
            if job.type in types:
                asked[job.model] = asked.get(job.model, 0) + job.work(self.week.end_ns)
        seconds = self.week.end_ns // SECOND
        return {
            model: asked.get(model, 0) / (count * seconds) for model, count in self.cards().items()
        }


class ClassResult(Struct):
    """What came of the jobs of one class."""

    waits: list[float] = field(default_factory=list)
    """Seconds until the first start of each job that arrived after the beginning, or until the end of the run."""
    never_started: int = 0
    """Those of them that did not start."""
    preempted_waits: list[float] = field(default_factory=list)
    """Seconds that each job that was preempted waited after that in all."""
    jobs: int = 0
    completed: int = 0
    useful: float = 0
    """Slot-seconds."""


class RunResult(Struct):
    """What came of one run."""

    classes: dict[str, ClassResult]
    releases: int
    """Tasks that were asked to release."""
    evictions: int
    """Decisions to evict, without those at a deadline."""
    overdue: int
    """Tasks evicted at the deadline of their release."""
    restarts: int
    work: float
    """Slot-seconds, also those that were lost."""
    lost: float
    capacity: float
    cpu_seconds: float

    @property
    def goodput(self) -> float:
        """Return useful work as a part of what the cards could do."""
        return (self.work - self.lost) / self.capacity

    @property
    def lost_part(self) -> float:
        """Return lost work as a part of all work."""
        return self.lost / self.work if self.work else 0.0


async def measure(scale: Scale) -> list[Figure]:
    """Return the figures of each decider for a load somewhat above the cards, half of the jobs Spot."""
    week = Week(
        percent=min(PERCENT_MAX, scale.spot_percent),
        spot_percent=50,
        offered_percent=OFFERED,
        days=scale.spot_days,
    )
    load = load_of(week)
    figures: list[Figure] = []
    for decider in DECIDERS:
        if decider.name not in MEASURED:
            continue
        figures += _figures(load.week, decider, await run(load, decider))
    return figures


def load_of(week: Week) -> Load:
    """Return the nodes and jobs of a week."""
    workload = generate_workload(
        WorkloadSource(
            name="spot-gpu",
            seed=week.seed,
            scale_percent=week.percent,
            window_ns=week.end_ns,
            spot_percent=week.spot_percent,
        )
    )
    nodes = tuple(one for one in workload.cluster if one.kind.kind == "Node")
    load = Load(week, nodes, tuple(_jobs(workload.steps)))
    return load if week.offered_percent is None else _fitted(load, week.offered_percent)


def _fitted(load: Load, percent: int) -> Load:
    """Return the load on nodes that are fitted to it; gangs that do not fit their pool are cut."""
    nodes: list[LocatedManifest] = []
    for model, offered in load.offered().items():
        own = [one for one in load.nodes if _model(one) == model]
        wanted = max(1, round(len(own) * offered * 100 / percent))
        # As many nodes of each size as before, in proportion.
        copies = [(wanted * (i + 1) // len(own)) - wanted * i // len(own) for i in range(len(own))]
        nodes += [
            _renamed(node, f"{name_of(node.manifest)}-{copy}")
            for node, count in zip(own, copies, strict=True)
            for copy in range(count)
        ]
    jobs: list[TraceJob] = []
    for job in load.jobs:
        most = sum(_cards(one) // job.cards for one in nodes if _model(one) == job.model)
        jobs.append(msgspec.structs.replace(job, workers=max(1, min(job.workers, most))))
    return Load(load.week, tuple(nodes), tuple(jobs))


def _model(node: LocatedManifest) -> str:
    return text_at(section(node.manifest, "metadata", "labels"), PRODUCT)


def _cards(node: LocatedManifest) -> int:
    return int(text_at(section(node.manifest, "status", "allocatable"), CARD))


def _renamed(node: LocatedManifest, name: str) -> LocatedManifest:
    labels: JsonObject = {**section(node.manifest, "metadata", "labels")}
    labels["kubernetes.io/hostname"] = name
    manifest = changed(node.manifest, "metadata", name=name, labels=labels)
    return msgspec.structs.replace(node, manifest=manifest)


def scenario_of(load: Load, decider: Contender) -> Scenario:
    """Return the scenario of a week under a decider."""
    scenario = parse_scenario(f"scenario: a week of spot-gpu, {decider.name}", _PLACE)
    classes = tuple(
        LocatedManifest(_PRIORITY_CLASS, _priority_class(name, value), _PLACE)
        for name, value in PRIORITIES.items()
    )
    return msgspec.structs.replace(
        scenario,
        policy=_policy(decider, load.cards()),
        until_ns=load.week.end_ns,
        cluster=(*load.nodes, *classes),
        steps=tuple(step for job in load.jobs for step in _steps(job, decider)),
    )


async def run(load: Load, decider: Contender) -> RunResult:
    """Simulate the week under a decider, and count."""
    with folder() as place:
        log = await open_log(str(place / "week.db"), "write")
        began = process_time()
        done = await simulate(scenario_of(load, decider), log, with_views=False)
        spent = process_time() - began
        decided = await _decisions(log, load.week)
        await log.close()
    works = {
        name.partition("/")[2]: value
        for name, value in done.cluster.experiments.items()
        if isinstance(value, dict)
    }
    result = RunResult(
        classes={name: ClassResult() for name in TYPES},
        releases=decided.releases,
        evictions=decided.evictions,
        overdue=decided.overdue,
        restarts=int(sum(_number(one, "restarts") for one in works.values())),
        work=sum(_number(one, "work_slot_seconds") for one in works.values()),
        lost=sum(_number(one, "lost_slot_seconds") for one in works.values()),
        capacity=sum(load.cards().values()) * load.week.end_ns / SECOND,
        cpu_seconds=spent,
    )
    for job in load.jobs:
        _count(result, job, decided, works.get(job.name, {}), load.week)
    return result


class _Decisions(Struct):
    """What the log of a run has."""

    started_ns: dict[str, int] = field(default_factory=dict)
    """Job to the time at which it was first bound."""
    preempted_ns: dict[str, int] = field(default_factory=dict)
    """Job that was preempted and not bound since to the time."""
    waited_ns: dict[str, int] = field(default_factory=dict)
    """Job that was preempted to the time for which it was without nodes after that."""
    releases: int = 0
    evictions: int = 0
    overdue: int = 0

    def bind(self, job: str, at_ns: int) -> None:
        """A job is bound."""
        self.started_ns.setdefault(job, at_ns)
        self.end_wait(job, at_ns)

    def end_wait(self, job: str, at_ns: int) -> None:
        """Count the time since a job was preempted."""
        since_ns = self.preempted_ns.pop(job, at_ns)
        if job in self.waited_ns:
            self.waited_ns[job] += at_ns - since_ns

    def preempt(self, event: EvictionDecided, at_ns: int) -> None:
        """A job is preempted."""
        job = _job_of(event)
        self.preempted_ns.setdefault(job, at_ns)
        self.waited_ns.setdefault(job, 0)
        is_release = isinstance(event, ReleaseDecided)
        is_overdue = event.code == "DEADLINE"
        self.releases += is_release
        self.overdue += is_overdue
        self.evictions += not is_release and not is_overdue


async def _decisions(log: Log, week: Week) -> _Decisions:
    found = _Decisions()
    async for entries in log.read():
        for entry in entries:
            event = event_of(entry.record)
            if isinstance(event, GangBindDecided):
                found.bind(_job_of(event), entry.record.recorded_at_ns)
            elif isinstance(event, EvictionDecided):
                found.preempt(event, entry.record.recorded_at_ns)
    for job in list(found.preempted_ns):
        found.end_wait(job, week.end_ns)
    return found


def _job_of(event: GangBindDecided | EvictionDecided) -> str:
    """The pod group has the name of its job."""
    return event.pod_group.partition("/")[2]


def _count(
    result: RunResult, job: TraceJob, decided: _Decisions, work: Mapping[str, Json], week: Week
) -> None:
    started_ns = decided.started_ns.get(job.name)
    one = result.classes[job.type]
    one.jobs += 1
    one.completed += int(_number(work, "completed"))
    one.useful += _number(work, "work_slot_seconds") - _number(work, "lost_slot_seconds")
    if job.name in decided.waited_ns:
        one.preempted_waits.append(decided.waited_ns[job.name] / SECOND)
    if job.at_ns:
        one.waits.append(_wait(job, started_ns, week))
        one.never_started += started_ns is None


def _wait(job: TraceJob, started_ns: int | None, week: Week) -> float:
    return ((week.end_ns if started_ns is None else started_ns) - job.at_ns) / SECOND


def _jobs(steps: Iterable[Step]) -> Iterator[TraceJob]:
    """Read the jobs of the workload from its Volcano Jobs."""
    for step in steps:
        assert isinstance(step, Apply)
        [task] = list_at(section(step.manifest, "spec"), "tasks")
        template = section(task, "template")
        [container] = list_at(section(template, "spec"), "containers")
        annotations = section(template, "metadata", "annotations")
        priority_class = text_at(section(step.manifest, "spec"), "priorityClassName")
        yield TraceJob(
            name=name_of(step.manifest),
            type=next(one for one in TYPES if one.lower() == priority_class),
            organization=text_at(section(step.manifest, "spec"), "queue"),
            model=text_at(annotations, "volcano.sh/card.name"),
            workers=whole_at(task, "replicas", 1),
            cards=int(text_at(section(container, "resources", "limits"), CARD)),
            at_ns=step.at_ns,
            run_seconds=int(text_at(annotations, RUN_SECONDS)),
        )


def _steps(job: TraceJob, decider: Contender) -> Iterator[Step]:
    """A PodGroup and a trial; the pods of the trial name the group."""
    together = f"{job.organization}-{job.type.lower()}-{job.model.lower()}"
    options: JsonObject = {
        "muster.sh/job": together if decider.is_by_organization else job.name,
        "muster.sh/pool": job.model,
    }
    if decider.hp_weight != 1 and job.type == HP:
        options["muster.sh/weight"] = str(decider.hp_weight)
    spec: JsonObject = {
        "trials": 1,
        "podsPerTrial": job.workers,
        "slotsPerTrial": job.slots,
        "workSlotSeconds": job.slots * job.run_seconds,
    }
    annotations: JsonObject = {"scheduling.k8s.io/group-name": job.name}
    if job.type == HP:
        options["muster.sh/preemptible"] = annotations["muster.sh/preemptible"] = "false"
    else:
        annotations["muster.sh/stop-seconds"] = str(STOP_SECONDS)
        spec["checkpointEverySeconds"] = CHECKPOINT_EVERY_SECONDS
        spec["checkpointSeconds"] = CHECKPOINT_SECONDS
    group: Manifest = {
        "apiVersion": _POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": job.name, "namespace": "default", "annotations": options},
        "spec": {
            "minMember": job.workers,
            "queue": "default",
            "priorityClassName": job.type.lower(),
        },
    }
    trial: Manifest = {
        "apiVersion": EXPERIMENT.api_version,
        "kind": EXPERIMENT.kind,
        "metadata": {"name": job.name, "namespace": "default"},
        "spec": {**spec, "pool": job.model, "annotations": annotations},
    }
    yield Apply(job.at_ns, _POD_GROUP, group)
    yield Apply(job.at_ns, EXPERIMENT, trial)


def _policy(decider: Contender, models: Iterable[str]) -> dict[str, Json]:
    pools: list[Json] = []
    for model in models:
        pool: JsonObject = {
            "name": model,
            "nodeSelector": {PRODUCT: model},
            "decider": decider.decider,
        }
        if decider.decider != "session":
            pool["preemptionTimeout"] = f"{decider.timeout_seconds}s"
            pool["multiNode"] = "by_pod"
        pools.append(pool)
    return {"actions": "allocate, backfill, preempt", "tiers": _TIERS, "pools": pools}


def _priority_class(name: str, value: int) -> Manifest:
    return {
        "apiVersion": _PRIORITY_CLASS.api_version,
        "kind": "PriorityClass",
        "metadata": {"name": name.lower()},
        "value": value,
    }


def _number(work: Mapping[str, Json], key: str) -> float:
    found = work.get(key)
    return found if isinstance(found, int | float) else 0


def _quantile(values: list[float], percent: int) -> float:
    """Return the value of the nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _figures(week: Week, decider: Contender, result: RunResult) -> Iterator[Figure]:
    named = f"{decider.name}, {week.days} days of {week.percent} %"

    def figure(what: str, value: float, unit: str) -> Figure:
        return Figure(benchmark="pools_trace", name=f"{named}: {what}", value=value, unit=unit)

    for kind, one in result.classes.items():
        for percent in (50, 90, 99):
            what = f"{kind} jobs wait, p{percent}"
            yield figure(what, _quantile(one.waits, percent) / 3600, "h")
        yield figure(f"{kind} jobs wait, mean", _mean(one.waits) / 3600, "h")
        yield figure(f"{kind} jobs completed", one.completed, "")
    yield figure("tasks asked to release", result.releases, "")
    yield figure("evictions decided", result.evictions, "")
    yield figure("trials restarted", result.restarts, "")
    yield figure("tasks evicted at their deadline", result.overdue, "")
    yield figure("work lost, of all work", result.lost_part * 100, "%")
    yield figure("goodput", result.goodput * 100, "%")
    yield figure("CPU time", result.cpu_seconds, "s")


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.3f}" if hours < 1 else f"{hours:.1f}"


def _waits(values: list[float]) -> list[str]:
    return [*(_hours(_quantile(values, part)) for part in (50, 90, 99)), _hours(_mean(values))]


def table(load: Load, results: Mapping[str, RunResult]) -> Iterator[str]:
    """Yield the lines of the report, in Markdown."""
    yield _row(("pool", "nodes", "cards", "jobs", "offered load", "of Spot"))
    yield "| --- | --- | --- | --- | --- | --- |"
    cards, parts = load.cards(), (load.offered(), load.offered((SPOT,)))
    for model, count in cards.items():
        nodes = sum(_model(node) == model for node in load.nodes)
        jobs = sum(job.model == model for job in load.jobs)
        shown = (f"{part[model] * 100:.0f} %" for part in parts)
        yield _row((model, nodes, count, jobs, *shown))
    total = sum(cards.values())
    sums = (sum(part[model] * count for model, count in cards.items()) for part in parts)
    shown = (f"{one / total * 100:.0f} %" for one in sums)
    yield _row(("all", len(load.nodes), total, len(load.jobs), *shown))
    yield ""
    yield _row(
        (
            "wait until the first start",
            "class",
            "jobs",
            "never started",
            "p50 (h)",
            "p90",
            "p99",
            "mean",
        )
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, result in results.items():
        for kind, one in result.classes.items():
            yield _row((name, kind, len(one.waits), one.never_started, *_waits(one.waits)))
    yield ""
    yield _row(
        (
            *("decider", "released", "evicted", "at the deadline", "restarts"),
            *("preempted jobs", "their wait after that, mean (h)"),
            *("lost card-days", "of all work", "goodput", "HP completed", "Spot completed"),
            *("useful card-days of HP", "of Spot", "CPU"),
        )
    )
    yield "| --- " * 15 + "|"
    for name, result in results.items():
        again = [wait for one in result.classes.values() for wait in one.preempted_waits]
        yield _row(
            (
                *(name, result.releases, result.evictions, result.overdue, result.restarts),
                *(len(again), _hours(_mean(again))),
                f"{result.lost / SECONDS_PER_CARD_DAY:.1f}",
                f"{result.lost_part * 100:.2f} %",
                f"{result.goodput * 100:.1f} %",
                *(
                    f"{result.classes[kind].completed} of {result.classes[kind].jobs}"
                    for kind in TYPES
                ),
                *(f"{result.classes[kind].useful / SECONDS_PER_CARD_DAY:.1f}" for kind in TYPES),
                f"{result.cpu_seconds:.0f} s",
            )
        )


async def _report(week: Week, names: list[str]) -> None:
    load = load_of(week)
    results = {one.name: await run(load, one) for one in DECIDERS if not names or one.name in names}
    for line in table(load, results):
        print(line)


def main() -> None:
    """Simulate the week under each decider, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pools_trace")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--offered", type=float)
    parser.add_argument("--spot", type=float)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--decider", action="append", default=[], metavar="NAME")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    week = Week(
        percent=round(given.scale * 100),
        offered_percent=None if given.offered is None else round(given.offered * 100),
        spot_percent=None if given.spot is None else round(given.spot * 100),
        days=given.days,
        seed=given.seed,
    )
    asyncio.run(_report(week, given.decider))


if __name__ == "__main__":
    main()
