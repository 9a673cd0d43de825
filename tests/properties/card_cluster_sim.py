"""Clusters of cards in which jobs come and go, nodes are lost and quotas change, and what must hold at rest.

The expected values are computed from the objects of the API server alone, by rules written a second time: a waiting
group could not have been placed, and each card in use is charged to a quota exactly once.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from hypothesis import strategies as st
from msgspec import Struct, structs

from events.messages import BindRequest, Rejected, Reply
from events.normalize import JsonObject
from projections.pod_groups import WAITING, PodGroup
from tests.properties.cluster_sim import SECOND, ClusterSim
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
    "allocate, backfill",
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


class NodeShape(Struct, frozen=True):
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
    """A gang of equal pods, or of two kinds by turns."""

    queue: str
    is_high: bool
    size: int
    least: int
    names: str
    """Its `card.name`."""
    amount: int
    states: bool
    """Whether it says what it needs at least."""
    others: str = ""
    """`card.name` of every other pod, where that is another."""

    def names_of(self, pod: str) -> str:
        """What a pod names as its card."""
        is_odd = int(pod.rpartition("-")[2]) % 2
        return self.others if self.others and is_odd else self.names


class Disturbance(Struct, frozen=True):
    """What else happens: `end` of a job, a `node` lost or back, a `quota` changed; `which` of them. Or `refuse`:
    so many bindings come to nothing."""

    what: str
    which: int
    quota: dict[str, int]


quotas = st.fixed_dictionaries(dict.fromkeys(CARDS, _counts))
node_shapes = st.builds(
    NodeShape,
    st.sampled_from(["A", "A", "B"]),
    st.integers(1, 4),
    st.sampled_from([0, 0, 2, 4]),
    st.sampled_from([0, 0, 2, 4]),
)
disturbances = st.builds(
    Disturbance,
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
        others=draw(st.sampled_from(["", "", "", "A", "B", SLICED])),
    )


Day = list[Job | Disturbance]
_days: st.SearchStrategy[list[Day]] = st.lists(
    st.lists(st.one_of(jobs(), jobs(), disturbances), min_size=1, max_size=4), max_size=3
)


@st.composite
def lives(draw: st.DrawFn) -> list[Day]:
    """What happens day by day. Many a first day is followed by one on which others want the same cards."""
    first: Day = list(draw(st.lists(jobs(), min_size=1, max_size=4)))
    low = Job("qa", is_high=False, size=4, least=1, names="A", amount=1, states=False)
    less, more = ({"A": count, "B": 4, SLICED: 4, SHARED: 4} for count in (1, 4))
    later: Day = []
    match draw(st.sampled_from(["", "preempt", "reclaim", "reclaim", "reclaim", "end", "end"])):
        case "preempt":
            first = [Disturbance("quota", 0, more), low, *first]
            later = [structs.replace(low, is_high=True, least=draw(st.integers(1, 2)))]
        case "reclaim":
            first = [Disturbance("quota", 0, more), low, *first]
            later = [Disturbance("quota", 0, less), Disturbance("quota", 1, more)]
            later.append(structs.replace(low, queue="qb", size=draw(st.integers(1, 4))))
        case "end":
            one = structs.replace(low, size=1)
            first = [
                Disturbance("quota", 0, {**more, "A": 1, "B": 1}),
                one,
                structs.replace(one, names="B"),
            ]
            waits = structs.replace(one, names=draw(st.sampled_from(["A|B", "B|A", "A"])))
            later = [structs.replace(waits, size=2, others=draw(st.sampled_from(["", "B"])))]
            return [first, later, [Disturbance("end", draw(st.integers(0, 1)), more)], *draw(_days)]
        case _:
            pass
    return [first, later, *draw(_days)]


class CardClusterSim:
    """A simulated cluster of cards with nodes, queues with quotas, and jobs."""

    def __init__(
        self, policy: bytes, there: list[NodeShape], quota: tuple[dict[str, int], dict[str, int]]
    ) -> None:
        self.sim = ClusterSim(policy)
        self.sim.bind = self._bind
        self.refuses = 0
        self.refused: dict[str, None] = {}
        """Jobs of which a binding was refused. What is left of such a gang waits; its cards may be taken meanwhile."""
        self.breaks_gangs = not is_one_tier(policy) and b"preempt" in policy
        """A later tier may give away what `gang` in the first would keep."""
        self.node_shapes = {f"n{index}": shape for index, shape in enumerate(there)}
        self.jobs: dict[str, Job] = {}
        self.quotas = dict(zip(QUEUES, quota, strict=True))
        self.sim.api.put("PriorityClass", "high", {"value": 9})
        for name in self.node_shapes:
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
        self.sim.play()

    def come(self, job: Job) -> None:
        """A job comes."""
        name = f"j{len(self.jobs)}"
        self.jobs[name] = job
        spec: JsonObject = {
            "minMember": job.least,
            "queue": job.queue,
            "priorityClassName": "high" if job.is_high else "",
        }
        if job.states:
            spec["minResources"] = {GPU: str(job.least * job.amount)}
        self.sim.api.put("PodGroup", name, {"spec": spec, "status": {"phase": "Pending"}})
        for pod in (f"{name}-{index}" for index in range(job.size)):
            cards = job.names_of(pod)
            requests: JsonObject = {CARDS[cards.partition("|")[0]]: str(job.amount)}
            body: JsonObject = {
                "spec": {
                    "schedulerName": "muster",
                    "containers": [{"name": "main", "resources": {"requests": requests}}],
                },
                "status": {"phase": "Pending"},
            }
            meta: JsonObject = {"annotations": {GROUP: name, CARD: cards}, "labels": {}}
            self.sim.api.put("Pod", pod, body, meta)

    def happen(self, disturbance: Disturbance) -> None:
        """Something happens."""
        api = self.sim.api
        match disturbance.what:
            case "end" if self.jobs:
                name = f"j{disturbance.which % len(self.jobs)}"
                for pod in [one for one in api.names("Pod") if one.startswith(f"{name}-")]:
                    api.remove("Pod", pod)
                if name in api.names("PodGroup"):
                    api.remove("PodGroup", name)
            case "node":
                name = f"n{disturbance.which % len(self.node_shapes)}"
                if name in api.names("Node"):
                    api.remove("Node", name)
                else:
                    self._build(name)
            case "quota":
                name = QUEUES[disturbance.which % len(QUEUES)]
                self.quotas[name] = disturbance.quota
                self._grant(name)
            case "refuse":
                self.refuses += disturbance.which
            case _:
                pass

    def _bind(self, request: BindRequest) -> Reply:
        if not self.refuses:
            return self.sim.api.bind(request)
        self.refuses -= 1
        self.refused[request.name.partition("-")[0]] = None
        return Rejected("Forbidden", "no")

    def _build(self, name: str) -> None:
        shape = self.node_shapes[name]
        labels: JsonObject = {
            "nvidia.com/gpu.product": shape.model,
            "nvidia.com/gpu.memory": "8192",
            "nvidia.com/gpu.replicas": "2",
        }
        amounts = {GPU: shape.whole, SLICE: shape.slices, SHARE: shape.shares}
        allocatable: JsonObject = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        allocatable |= {resource: str(count) for resource, count in amounts.items()}
        self.sim.api.put("Node", name, {"status": {"allocatable": allocatable}}, {"labels": labels})

    def _grant(self, name: str) -> None:
        annotation = msgspec.json.encode(self.quotas[name]).decode()
        self.sim.api.put("Queue", name, {"spec": {}}, {"annotations": {QUOTA: annotation}})

    # What holds at rest

    def judge(self) -> None:
        """Hold the cluster, which is at rest, to the rules."""
        engine = self.sim.engine
        assert engine.cycle(self.sim.now_ns + 1000 * SECOND) is None, "it is not left alone"
        in_use = self._in_use()
        self._each_card_is_paid_for_once(in_use)
        for name, job in self.jobs.items():
            group = engine.state.cluster.groups.get(f"default/{name}")
            if group is None:
                continue
            bound = group.counts.allocated
            if not self.breaks_gangs and name not in self.refused:
                assert not 0 < bound < job.least, f"{name}: {bound} of {job.least} are bound"
            if group.pending and self._is_admitted(group, job):
                self._could_not_be_served(group, job, in_use)

    def _placed(self) -> Iterator[tuple[str, str, Job, str]]:
        """Every pod that has a node: its name, the node, its job, and the card that it has there."""
        for name in self.sim.api.names("Pod"):
            node = str(self.sim.api.section("Pod", name, "spec").get("nodeName") or "")
            if node:
                job, model = self.jobs[name.partition("-")[0]], self.node_shapes[node].model
                names = job.names_of(name).split("|")
                yield name, node, job, next(one for one in names if one.partition("/")[0] == model)

    def _in_use(self) -> dict[str, dict[str, int]]:
        """Node to card to how many of it pods have there."""
        used: dict[str, dict[str, int]] = {}
        for _, node, job, card in self._placed():
            there = used.setdefault(node, {})
            there[card] = there.get(card, 0) + job.amount
        return used

    def _each_card_is_paid_for_once(self, in_use: dict[str, dict[str, int]]) -> None:
        paid: dict[str, dict[str, int]] = {name: {} for name in QUEUES}
        for _, _, job, card in self._placed():
            paid[job.queue][card] = paid[job.queue].get(card, 0) + job.amount
        for name in QUEUES:
            kept = self.sim.engine.state.cluster.queues[name].allocated
            assert kept == paid[name], f"queue {name}: kept {kept}, in use {paid[name]}"
        for node, there in in_use.items():
            for card, count in there.items():
                has = self.node_shapes[node].cards.get(card, 0)
                assert count <= has, f"{node}: {count} of {has} {card} are in use"

    def _left(self, queue: str) -> dict[str, int]:
        """What is left of a queue's quotas."""
        used = self.sim.engine.state.cluster.queues[queue].allocated
        return {card: max(0, of - used.get(card, 0)) for card, of in self.quotas[queue].items()}

    def _listed(self, names: str) -> list[str]:
        """The cards of a choice: those that are there, if any is."""
        there = {
            card for name in self.sim.api.names("Node") for card in self.node_shapes[name].cards
        }
        listed = names.split("|")
        return [name for name in listed if name in there] or listed

    def _is_admitted(self, group: PodGroup, job: Job) -> bool:
        """Whether a group is let in; who is not could not be."""
        cluster = self.sim.engine.state.cluster
        if group.decided.phase != WAITING or "enqueue" not in cluster.policy.actions:
            return True
        assert job.states, f"{group.key} says nothing of what it needs and is kept out"
        if not cluster.queues[job.queue].inqueue and (not job.others or job.least == 1):
            left = self._left(job.queue)
            room = sum(left[name] for name in self._listed(job.names))
            assert room < job.least * job.amount, f"{group.key} could be admitted"
        return False

    def _could_not_be_served(
        self, group: PodGroup, job: Job, in_use: dict[str, dict[str, int]]
    ) -> None:
        missing = max(1, job.least - group.counts.ready)
        kinds = dict.fromkeys(job.names_of(pod.facts.name) for pod in group.pending)
        if len(kinds) > 1 and missing > 1:
            return
        for names in kinds:
            could = self._room_for(job, names, in_use)
            assert could < missing, f"{group.key} waits for {missing}, and {could} have room"

    def _room_for(self, job: Job, names: str, in_use: dict[str, dict[str, int]]) -> int:
        """How many more pods that name these cards could be served."""
        left, could = self._left(job.queue), 0
        for name in self._listed(names):
            for node in self.sim.api.names("Node"):
                free = self.node_shapes[node].cards.get(name, 0) - in_use.get(node, {}).get(name, 0)
                here = min(max(0, free) // job.amount, left[name] // job.amount)
                left[name] -= here * job.amount
                could += here
        return could
