"""`workload: spot-gpu`: 4,278 nodes, and a load drawn from published counts of the spot-gpu trace.

The nodes are those of the trace. The jobs are **synthetic**: each is drawn from published counts, and none is one
of the trace. Running jobs come first (as many cards of each model as were asked for in the median hour), then jobs
arrive hour by hour. Organizations are queues with quotas of cards; HP jobs precede Spot jobs of their queue and may
preempt them; the workers of a job are a gang.

Random choices come from SHA-256 over the seed and the index of a job, so the same seed gives the same bytes on
every machine.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

from events.duration import SECOND
from simulator.generated_workload import GeneratedWorkload, WorkloadSummary
from simulator.random_sequence import RandomSequence, WeightedChoice
from simulator.scenario import Apply, WorkloadSource
from simulator.spot_gpu_objects import JOB, POLICY, CardQuota, Job, cluster_of, job_of
from simulator.spot_gpu_table import TYPES, Fleet, Shape, SpotGpuTable, Tenancy

HOUR_SECONDS: Final = 3600
ORIGIN: Final = (
    "the load is synthetic: drawn from published counts of the spot-gpu trace, with no job of it"
)

_T = TypeVar("_T")


def spot_gpu_workload(source: WorkloadSource, table: SpotGpuTable) -> GeneratedWorkload:
    """Return the workload for a scenario."""
    load = _JobGenerator(source, table)
    jobs = sorted(
        (*load.running_jobs(), *load.arriving_jobs()), key=lambda job: (job.at_ns, job.index)
    )
    cards = load.grounds.cards
    return GeneratedWorkload(
        cluster=tuple(cluster_of(load.grounds.fleet, load.grounds.grants())),
        steps=tuple(Apply(job.at_ns, JOB, job_of(job)) for job in jobs),
        policy=POLICY,
        notes=WorkloadSummary(
            nodes=sum(fleet.nodes for fleet in load.grounds.fleet),
            pods=sum(job.workers for job in jobs),
            card_pods=sum(job.workers for job in jobs),
            shares=0,
            cards=cards,
            cards_asked=sum(job.workers * job.cards for job in jobs),
            origin=ORIGIN,
        ),
    )


class _Capacity:
    """The nodes, and the quota of each organization."""

    def __init__(self, table: SpotGpuTable, percent: int) -> None:
        self._table = table
        self.fleet = list(_scaled(table.fleet, percent))
        self.cards: dict[str, int] = {}
        self._widest: dict[str, int] = {}
        for fleet in self.fleet:
            self.cards[fleet.model] = self.cards.get(fleet.model, 0) + fleet.cards * fleet.nodes
            self._widest[fleet.model] = max(self._widest.get(fleet.model, 0), fleet.cards)
        self.tenancies = [one for one in table.tenancies if one.model in self.cards]
        self._hours: dict[str, int] = {}
        for one in self.tenancies:
            self._hours[one.model] = self._hours.get(one.model, 0) + one.card_hours
        self._models = {model.name: model for model in table.models}

    def quota(self, tenancy: Tenancy) -> int:
        """Return an organization's quota: its share of all card-hours of the model, times the model's peak hour
        over its mean hour. At least the cards of one node, at most all of them."""
        model = self._models[tenancy.model]
        cards = self.cards[tenancy.model]
        share = cards * tenancy.card_hours * model.most
        quota = -(-share // (self._hours[tenancy.model] * model.mean))
        return min(max(quota, self._widest[tenancy.model]), cards)

    def grants(self) -> list[CardQuota]:
        """The quota of every organization and model."""
        return [CardQuota(one.organization, one.model, self.quota(one)) for one in self.tenancies]

    def widest(self, model: str) -> int:
        """The most cards of a model on one node."""
        return self._widest[model]

    def cores(self, model: str, cards: int) -> int:
        """The most cores that a node with at least these cards has for them, in proportion."""
        return max(
            fleet.cores * cards // fleet.cards
            for fleet in self.fleet
            if fleet.model == model and fleet.cards >= cards
        )


def _scaled(fleets: list[Fleet], percent: int) -> Iterator[Fleet]:
    """The nodes, scaled so that the total is right."""
    total = 0
    for fleet in fleets:
        before, total = total, total + fleet.nodes
        nodes = total * percent // 100 - before * percent // 100
        if nodes:
            yield Fleet(fleet.model, fleet.cards, fleet.cores, nodes)


class _JobGenerator:
    """Draws the jobs."""

    def __init__(self, source: WorkloadSource, table: SpotGpuTable) -> None:
        self._source = source
        self._table = table
        self._percent = source.scale_percent * source.load_percent
        """In ten-thousandths."""
        self.grounds = _Capacity(table, source.scale_percent)
        self._made = 0
        self._jobs = list(zip(TYPES, _types(source, table), strict=True))
        self._types = WeightedChoice(self._jobs)
        self._cores = WeightedChoice(((low, high), jobs) for low, high, jobs in table.cores)
        models = list(self.grounds.cards)
        self._shapes = {
            model: WeightedChoice((one, one.weight) for one in table.shapes if one.model == model)
            for model in models
        }
        self._sizes = {
            shape.least_workers: WeightedChoice(
                (size, jobs)
                for size, jobs in table.workers
                if shape.least_workers <= size <= shape.most_workers
            )
            for shape in table.shapes
        }
        self._spans = {
            (span.model, span.type): list(_parts(table.durations, span.weights))
            for span in table.spans
        }

    def running_jobs(self) -> Iterator[Job]:
        """Yield the jobs that run at the start, weighted by duration, each at a random point of its run."""
        for model in self._table.models:
            if model.name not in self.grounds.cards:
                continue
            tenancies = WeightedChoice(
                (one, one.card_hours) for one in self.grounds.tenancies if one.model == model.name
            )
            spans = WeightedChoice(
                ((kind, low, high), jobs * weight * (low + high))
                for kind, jobs in self._jobs
                for (low, high), weight in self._spans[model.name, kind]
            )
            asked = 0
            while asked * 10_000 < model.median * self._percent:
                chance = self._next()
                kind, low, high = spans.turn(chance)
                run = 1 + chance.below(low + chance.below(high - low))
                job = self._job(chance, tenancies.turn(chance), kind, run, 0)
                asked += job.workers * job.cards
                yield job

    def arriving_jobs(self) -> Iterator[Job]:
        """Yield the jobs that arrive, hour by hour: as many as in the same hour of some day of the trace."""
        tenancies = WeightedChoice((one, one.jobs) for one in self.grounds.tenancies)
        seconds = self._source.window_ns // SECOND
        for hour in range(-(-seconds // HOUR_SECONDS)):
            chance = RandomSequence(f"spot-gpu/{self._source.seed}/hour/{hour}")
            days = self._table.hours[hour % 24]
            length = min(HOUR_SECONDS, seconds - hour * HOUR_SECONDS)
            count = days[chance.below(len(days))] * self._percent * length
            whole = 10_000 * HOUR_SECONDS
            for _ in range((count + chance.below(whole)) // whole):
                at = hour * HOUR_SECONDS + chance.below(length)
                own = self._next()
                tenancy, kind = tenancies.turn(own), self._types.turn(own)
                low, high = WeightedChoice(self._spans[tenancy.model, kind]).turn(own)
                yield self._job(own, tenancy, kind, low + own.below(high - low), at)

    def _next(self) -> RandomSequence:
        self._made += 1
        return RandomSequence(f"spot-gpu/{self._source.seed}/{self._made}")

    def _job(self, chance: RandomSequence, tenancy: Tenancy, kind: str, run: int, at: int) -> Job:
        model, quota = tenancy.model, self.grounds.quota(tenancy)
        shape: Shape = self._shapes[model].turn(chance)
        cards = min(shape.cards, self.grounds.widest(model))
        workers = min(self._sizes[shape.least_workers].turn(chance), quota // cards)
        low, high = self._cores.turn(chance)
        a_card = low + chance.below(high - low + 1)
        return Job(
            index=self._made,
            at_ns=at * SECOND,
            organization=tenancy.organization,
            model=model,
            type=kind,
            workers=workers,
            cards=cards,
            cores=min(a_card * cards, self.grounds.cores(model, cards)),
            run_seconds=run,
        )


def _types(source: WorkloadSource, table: SpotGpuTable) -> list[int]:
    """The number of HP and of Spot jobs."""
    if source.spot_percent is None:
        return table.types
    spot = sum(table.types) * source.spot_percent // 100
    return [sum(table.types) - spot, spot]


def _parts(bounds: list[int], weights: list[int]) -> Iterator[tuple[tuple[int, int], int]]:
    """Split each class of duration into as many parts of equal weight."""
    each = (len(bounds) - 1) // len(weights)
    for index, low in enumerate(bounds[:-1]):
        yield (low, bounds[index + 1]), weights[index // each]
