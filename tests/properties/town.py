"""Clusters of cards in which jobs come and go, nodes are lost and quotas change, and what must hold at rest.

What holds is counted from the objects of the API server alone, by rules written a second time and as
plainly as can be: whoever waits could not have been served, and each card in use is paid for once.
"""

from typing import Final

import msgspec
from hypothesis import strategies as st
from msgspec import Struct, structs

from events.normalize import JsonObject
from events.sighting import BindRequest, Refused, Reply
from projections.pod_groups import WAITING, PodGroup
from tests.properties.game import SECOND, Game
from tests.properties.shapes import CARD, GPU, GROUP, QUOTA, SHARE, SHARED, SLICE, SLICED

QUEUES: Final = ("qa", "qb")
CARDS: Final = {"A": GPU, "B": GPU, SLICED: SLICE, SHARED: SHARE}
"""Every card there may be, and the resource that counts it."""
_TIERS: Final = (
    '[{"plugins":[{"name":"priority"},{"name":"gang"},{"name":"conformance"}]},'
    '{"plugins":[{"name":"predicates"},{"name":"capacity-card"},{"name":"nodeorder"}]}]',
    '[{"plugins":[{"name":"priority"},{"name":"gang","enablePreemptable":false}]},'
    '{"plugins":[{"name":"drf"},{"name":"predicates"},{"name":"capacity-card","arguments":'
    '{"cardUnlimitedCpuMemory":true,"nodeOrderWeight":5}},{"name":"binpack"}]}]',
    '[{"plugins":[{"name":"gang"},{"name":"predicates"},{"name":"capacity-card"}]}]',
)
_ACTIONS: Final = (
    "enqueue, allocate, backfill",
    "allocate, preempt, reclaim",
    "enqueue, allocate, preempt, reclaim",
    "allocate, backfill, preempt",
)

policies = st.builds(
    lambda actions, tiers: f'{{"actions":"{actions}","tiers":{tiers}}}'.encode(),
    st.sampled_from(_ACTIONS),
    st.sampled_from(_TIERS),
)
_counts = st.integers(0, 4)


def is_one_tier(policy: bytes) -> bool:
    """Whether all plugins vote together."""
    return policy.decode().endswith(f"{_TIERS[2]}}}")


class House(Struct, frozen=True):
    """A node: its card model, how many it has whole, and in pieces."""

    model: str
    whole: int
    slices: int
    shares: int

    @property
    def cards(self) -> dict[str, int]:
        """How many of each card."""
        parts = {f"{self.model}/mig-1g-mixed": self.slices, f"{self.model}/mps-8g*1/2": self.shares}
        return {name: count for name, count in ({self.model: self.whole} | parts).items() if count}


class Job(Struct, frozen=True):
    """A gang of equal pods."""

    queue: str
    is_high: bool
    size: int
    least: int
    names: str
    """Its `card.name`."""
    amount: int
    states: bool
    """Whether it says what it needs at least."""


class Deed(Struct, frozen=True):
    """What else happens: `end` of a job, a `node` lost or back, a `quota` changed; `which` of them. Or `refuse`:
    so many bindings come to nothing."""

    what: str
    which: int
    quota: dict[str, int]


quotas = st.fixed_dictionaries(dict.fromkeys(CARDS, _counts))
houses = st.builds(
    House,
    st.sampled_from(["A", "A", "B"]),
    st.integers(1, 4),
    st.sampled_from([0, 0, 2, 4]),
    st.sampled_from([0, 0, 2, 4]),
)
deeds = st.builds(
    Deed,
    st.sampled_from(["end", "end", "node", "quota", "quota", "refuse"]),
    st.integers(0, 5),
    quotas,
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A job that could be served by some quota."""
    size = draw(st.integers(1, 4))
    return Job(
        queue=draw(st.sampled_from(QUEUES)),
        is_high=draw(st.booleans()),
        size=size,
        least=draw(st.integers(1, size)),
        names=draw(st.sampled_from(["A", "A", "B", "A|B", "B|A", SLICED, SHARED])),
        amount=draw(st.sampled_from([1, 1, 2])),
        states=draw(st.booleans()),
    )


Day = list[Job | Deed]
_days: st.SearchStrategy[list[Day]] = st.lists(
    st.lists(st.one_of(jobs(), jobs(), deeds), min_size=1, max_size=4), max_size=3
)


@st.composite
def lives(draw: st.DrawFn) -> list[Day]:
    """What happens day by day. Many a first day is followed by one on which others want the same cards."""
    first: Day = list(draw(st.lists(jobs(), min_size=1, max_size=4)))
    low = Job("qa", is_high=False, size=4, least=1, names="A", amount=1, states=False)
    less, more = ({"A": count, "B": 4, SLICED: 4, SHARED: 4} for count in (1, 4))
    later: Day = []
    match draw(st.sampled_from(["", "preempt", "reclaim"])):
        case "preempt":
            first = [Deed("quota", 0, more), low, *first]
            later = [structs.replace(low, is_high=True, least=draw(st.integers(1, 2)))]
        case "reclaim":
            first = [Deed("quota", 0, more), low, *first]
            later = [Deed("quota", 0, less), Deed("quota", 1, more)]
            later.append(structs.replace(low, queue="qb", size=draw(st.integers(1, 4))))
        case _:
            pass
    return [first, later, *draw(_days)]


class Town:
    """A game, and who lives there."""

    def __init__(
        self, policy: bytes, there: list[House], quota: tuple[dict[str, int], dict[str, int]]
    ) -> None:
        self.game = Game(policy)
        self.game.bind = self._bind
        self.refuses = 0
        self.breaks_gangs = not is_one_tier(policy) and b"preempt" in policy
        """A later tier may give away what `gang` in the first would keep."""
        self.houses = {f"n{index}": house for index, house in enumerate(there)}
        self.jobs: dict[str, Job] = {}
        self.quotas = dict(zip(QUEUES, quota, strict=True))
        self.game.api.put("PriorityClass", "high", {"value": 9})
        for name in self.houses:
            self._build(name)
        for name in QUEUES:
            self._grant(name)

    def live(self, day: Day) -> None:
        """Let a day pass, and all come to rest."""
        for one in day:
            if isinstance(one, Job):
                self.come(one)
            else:
                self.happen(one)
        self.game.play()

    def come(self, job: Job) -> None:
        """A job comes."""
        name = f"j{len(self.jobs)}"
        self.jobs[name] = job
        resource = CARDS[job.names.partition("|")[0]]
        spec: JsonObject = {
            "minMember": job.least,
            "queue": job.queue,
            "priorityClassName": "high" if job.is_high else "",
        }
        if job.states:
            spec["minResources"] = {resource: str(job.least * job.amount)}
        self.game.api.put("PodGroup", name, {"spec": spec, "status": {"phase": "Pending"}})
        requests: JsonObject = {resource: str(job.amount)}
        body: JsonObject = {
            "spec": {
                "schedulerName": "muster",
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Pending"},
        }
        meta: JsonObject = {"annotations": {GROUP: name, CARD: job.names}, "labels": {}}
        for index in range(job.size):
            self.game.api.put("Pod", f"{name}-{index}", body, meta)

    def happen(self, deed: Deed) -> None:
        """Something happens."""
        api = self.game.api
        match deed.what:
            case "end" if self.jobs:
                name = f"j{deed.which % len(self.jobs)}"
                for pod in [one for one in api.names("Pod") if one.startswith(f"{name}-")]:
                    api.remove("Pod", pod)
                if name in api.names("PodGroup"):
                    api.remove("PodGroup", name)
            case "node":
                name = f"n{deed.which % len(self.houses)}"
                if name in api.names("Node"):
                    api.remove("Node", name)
                else:
                    self._build(name)
            case "quota":
                name = QUEUES[deed.which % len(QUEUES)]
                self.quotas[name] = deed.quota
                self._grant(name)
            case "refuse":
                self.refuses += deed.which
            case _:
                pass

    def _bind(self, request: BindRequest) -> Reply:
        if not self.refuses:
            return self.game.api.bind(request)
        self.refuses -= 1
        return Refused("Forbidden", "no")

    def _build(self, name: str) -> None:
        house = self.houses[name]
        labels: JsonObject = {
            "nvidia.com/gpu.product": house.model,
            "nvidia.com/gpu.memory": "8192",
            "nvidia.com/gpu.replicas": "2",
        }
        amounts = {GPU: house.whole, SLICE: house.slices, SHARE: house.shares}
        allocatable: JsonObject = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        allocatable |= {resource: str(count) for resource, count in amounts.items()}
        self.game.api.put(
            "Node", name, {"status": {"allocatable": allocatable}}, {"labels": labels}
        )

    def _grant(self, name: str) -> None:
        annotation = msgspec.json.encode(self.quotas[name]).decode()
        self.game.api.put("Queue", name, {"spec": {}}, {"annotations": {QUOTA: annotation}})

    # What holds at rest

    def judge(self) -> None:
        """Hold the cluster, which is at rest, to the rules."""
        step = self.game.step
        assert step.cycle(self.game.now_ns + 1000 * SECOND) is None, "it is not left alone"
        in_use = self._in_use()
        self._each_card_is_paid_for_once(in_use)
        for name, job in self.jobs.items():
            group = step.state.cluster.groups.get(f"default/{name}")
            if group is not None and not self.breaks_gangs:
                bound = group.allocated_count
                assert not 0 < bound < job.least, f"{name}: {bound} of {job.least} are bound"
            if group is not None and group.pending:
                self._could_not_be_served(group, job, in_use)

    def _in_use(self) -> dict[str, dict[str, int]]:
        """Node to card to how many of it pods have there."""
        api, used = self.game.api, dict[str, dict[str, int]]()
        for name in api.names("Pod"):
            node = str(api.section("Pod", name, "spec").get("nodeName") or "")
            if node:
                job = self.jobs[name.partition("-")[0]]
                there = used.setdefault(node, {})
                card = self._card_on(node, job)
                there[card] = there.get(card, 0) + job.amount
        return used

    def _card_on(self, node: str, job: Job) -> str:
        model = self.houses[node].model
        return next(one for one in job.names.split("|") if one.partition("/")[0] == model)

    def _each_card_is_paid_for_once(self, in_use: dict[str, dict[str, int]]) -> None:
        paid: dict[str, dict[str, int]] = {name: {} for name in QUEUES}
        for name in self.game.api.names("Pod"):
            node = str(self.game.api.section("Pod", name, "spec").get("nodeName") or "")
            if node:
                job = self.jobs[name.partition("-")[0]]
                card = self._card_on(node, job)
                paid[job.queue][card] = paid[job.queue].get(card, 0) + job.amount
        for name in QUEUES:
            kept = self.game.step.state.cluster.queues[name].allocated
            assert kept == paid[name], f"queue {name}: kept {kept}, in use {paid[name]}"
        for node, there in in_use.items():
            for card, count in there.items():
                has = self.houses[node].cards.get(card, 0)
                assert count <= has, f"{node}: {count} of {has} {card} are in use"

    def _could_not_be_served(
        self, group: PodGroup, job: Job, in_use: dict[str, dict[str, int]]
    ) -> None:
        queue = self.game.step.state.cluster.queues[job.queue]
        left = {
            card: max(0, count - queue.allocated.get(card, 0))
            for card, count in self.quotas[job.queue].items()
        }
        there = {card for name in self.game.api.names("Node") for card in self.houses[name].cards}
        listed = job.names.split("|")
        names = [name for name in listed if name in there] or listed
        if group.phase == WAITING and "enqueue" in self.game.step.state.cluster.policy.actions:
            assert job.states, f"{group.key} says nothing of what it needs and is kept out"
            room = sum(left[name] for name in names)
            is_held = bool(queue.inqueue)
            assert is_held or room < job.least * job.amount, f"{group.key} could be admitted"
            return
        missing = max(1, job.least - group.ready_count)
        could = 0
        for name in names:
            for node in self.game.api.names("Node"):
                free = self.houses[node].cards.get(name, 0) - in_use.get(node, {}).get(name, 0)
                here = min(max(0, free) // job.amount, left[name] // job.amount)
                left[name] -= here * job.amount
                could += here
        assert could < missing, f"{group.key} waits for {missing}, and {could} have room"
