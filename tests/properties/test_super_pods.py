"""Logical SuperPoDs over any history: jobs come and go, pods are replaced, nodes are closed, opened and moved to another
SuperPoD, the daemon restarts.

What holds is judged by the decisions alone: each block in one SuperPoD, no node twice, the reserve of a SuperPoD used only
where the others have no block left.
"""

from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.engine import Engine
from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.messages import ObjectSeen
from events.normalize import JsonObject
from features.table import FEATURES
from projections import snapshot
from tests.example_count import examples
from tests.features.ascend.builders import T, npu_pod, policy, report
from tests.scheduling.builders import EngineHarness, gone, raw

KIND: Final = "module-a3-16-super-pod"
SIZES: Final = (2, 4, 5)
RESERVE: Final = 1
NODES: Final = [f"p{pod}-{at}" for pod, size in enumerate(SIZES) for at in range(size)]
CHIPS: Final = ",".join(f"Ascend910-{number}" for number in range(16))
SOAK_EXAMPLES: Final = 2000

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("replace"), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("toggle"), st.integers(0, len(NODES) - 1), st.just(0)),
        st.tuples(st.just("move"), st.integers(0, len(NODES) - 1), st.integers(0, 2)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    min_size=4,
    max_size=14,
)


class Cluster:
    """Nodes in three SuperPoDs, and jobs of blocks."""

    def __init__(self, order: str) -> None:
        init = {"super-pod-size": "8", "reserve-nodes": str(RESERVE)}
        self.harness = EngineHarness(policy=policy({"superpod-order": order}, init))
        self.of = {name: int(name[1]) for name in NODES}
        self.closed: set[str] = set()
        self.jobs: dict[str, tuple[int, int, list[str]]] = {}
        """Live jobs to number of blocks, nodes of a block, and names of pods."""
        self.placed: dict[str, tuple[str, dict[str, str]]] = {}
        """Name of a placed pod to its node and annotations."""
        self.moved: set[str] = set()
        """Nodes that changed their SuperPoD while a pod was on them."""
        self.count = self.blocks = 0
        self._show_all()

    def take(self, what: str, number: int, other: int) -> None:
        """One step, and what is decided then."""
        match what:
            case "job":
                job = f"j{self.count}"
                names = [f"{job}-{index}" for index in range(number * other)]
                self.count += 1
                self.jobs[job] = (number, other, names)
                self._see(self._group(job), *(self._pod(job, name) for name in names))
            case "end" if self.jobs:
                job = sorted(self.jobs)[number % len(self.jobs)]
                for name in self.jobs[job][2]:
                    self.harness.see(gone(self._pod(job, name)))
                    self.placed.pop(name, None)
                self.harness.see(gone(self._group(job)))
                del self.jobs[job]
            case "replace" if self.placed:
                name = sorted(self.placed)[number % len(self.placed)]
                job = name.partition("-")[0]
                self.harness.see(gone(self._pod(job, name)))
                del self.placed[name]
                self.count += 1
                names = self.jobs[job][2]
                names[names.index(name)] = f"{job}-r{self.count}"
                self._see(self._pod(job, f"{job}-r{self.count}"))
            case "toggle":
                self.closed ^= {NODES[number]}
                self._see(self._node(NODES[number]))
            case "move":
                self.of[NODES[number]] = other
                used = {node for node, _ in self.placed.values()}
                self.moved |= {NODES[number]} & used
                self._see(self._node(NODES[number]))
            case "restart":
                restored = snapshot.restore(snapshot.take(self.harness.state), FEATURES)
                self.harness.engine = Engine(restored, self.harness.engine.head)
                self.harness.start()
                self._show_all()
            case _:  # There is nothing of the kind.
                return
        self.harness.cycle(61)
        self._judge()

    def _node(self, name: str) -> bytes:
        amounts = {"cpu": "64", "pods": "110", T: "16"}
        labels: JsonObject = {"accelerator": "huawei-Ascend910", "accelerator-type": KIND}
        annotations: JsonObject = {"superPodID": str(self.of[name])}
        return raw(
            "Node",
            name,
            metadata={"labels": labels, "annotations": annotations},
            spec={"unschedulable": name in self.closed},
            status={"capacity": amounts, "allocatable": amounts},
        )

    def _group(self, job: str) -> bytes:
        blocks, nodes, _ = self.jobs[job]
        return raw("PodGroup", job, spec={"minMember": blocks * nodes})

    def _pod(self, job: str, name: str) -> bytes:
        node, notes = self.placed.get(name, ("", {}))
        given_ = {"sp-block": str(16 * self.jobs[job][1])}
        confirmed = {"huawei.com/AscendReal": CHIPS} if node else {}
        return npu_pod(
            name, 16, kind=KIND, group=job, on=node, annotations={**given_, **notes, **confirmed}
        )

    def _see(self, *objects: bytes) -> None:
        self.harness.see(*map(ObjectSeen, objects))

    def _show_all(self) -> None:
        self.harness.show_all("Node", *map(self._node, NODES))
        self._see(*(report_of(one) for one in NODES))
        self.harness.show_all("PodGroup", *map(self._group, self.jobs))
        pods = [self._pod(job, name) for job, (_, _, names) in self.jobs.items() for name in names]
        self.harness.show_all("Pod", *pods)
        self.harness.show_the_rest()

    def _judge(self) -> None:
        """Judge what was decided, in order, and bind it."""
        decided, self.harness.records = self.harness.records, []
        for record in decided:
            event = event_of(record)
            if not isinstance(event, GangBindDecided):
                continue
            job = event.pod_group.rpartition("/")[2]
            free = self._free()
            new = {
                one.pod.rpartition("/")[2]: (one.node, dict(one.network))
                for one in event.placements
            }
            is_first = not any(name in self.placed for name in self.jobs[job][2])
            used = {node for node, _ in self.placed.values()}
            assert not used & {node for node, _ in new.values()}
            assert not self.closed & {node for node, _ in new.values()}
            self.placed |= new
            self._judge_blocks(job, new)
            if is_first:
                self._judge_reserve(job, free, new)
            ranks = self.harness.state.assignments.ranks
            for name, (_, notes) in new.items():
                notes["hccl/rankIndex"] = str(ranks[f"uid-{name}"])
            self._see(*(self._pod(job, name) for name in new))
        nodes = [node for node, _ in self.placed.values()]
        assert len({*nodes}) == len(nodes), "no node twice"

    def _free(self) -> dict[int, int]:
        """SuperPoD to the number of nodes that are open and have no pod."""
        used = {node for node, _ in self.placed.values()}
        found = dict.fromkeys(range(len(SIZES)), 0)
        for name in NODES:
            found[self.of[name]] += name not in used and name not in self.closed
        return found

    def _judge_blocks(self, job: str, new: dict[str, tuple[str, dict[str, str]]]) -> None:
        blocks, size, names = self.jobs[job]
        if blocks * size == 1:
            return
        members: dict[str, list[str]] = {}
        for name in names:
            if name in self.placed:
                members.setdefault(self.placed[name][1]["super-pod-rank"], []).append(name)
        assert set(members) <= {str(number) for number in range(blocks)}
        for number, there in members.items():
            assert len(there) <= size, f"block {number} of {job}"
            unmoved = [name for name in there if self.placed[name][0] not in self.moved]
            assert len({self.of[self.placed[name][0]] for name in unmoved}) <= 1, "one SuperPoD"
            self.blocks += len(there) == size > 1
        for node, notes in new.values():
            assert notes["super-pod-id"] == str(self.of[node])

    def _judge_reserve(
        self, job: str, free: dict[int, int], new: dict[str, tuple[str, dict[str, str]]]
    ) -> None:
        """The reserve is used only if the SuperPoDs have too few blocks above it."""
        blocks, size, _ = self.jobs[job]
        if blocks * size == 1:
            return
        taken = dict.fromkeys(free, 0)
        for node, _ in new.values():
            taken[self.of[node]] += 1
        if any(taken[one] and free[one] - taken[one] < RESERVE for one in free):
            assert sum(max(0, count - RESERVE) // size for count in free.values()) < blocks


def report_of(name: str) -> bytes:
    """The report of a device plugin that says nothing of a SuperPoD."""
    return report(name, CHIPS, lists={"NetworkUnhealthy": ""})


def play(order: str, steps: list[tuple[str, int, int]]) -> Cluster:
    cluster = Cluster(order)
    for one in steps:
        cluster.take(*one)
    return cluster


ORDERS: Final = st.sampled_from(("figure", "matrix"))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(ORDERS, STEPS)
@example("figure", [("job", 2, 2), ("replace", 1, 0), ("move", 4, 0), ("replace", 0, 0)])
@example("matrix", [("job", 1, 3), ("job", 2, 2), ("restart", 0, 0), ("end", 0, 0), ("job", 3, 1)])
def test_blocks_stay_in_one_super_pod(order: str, steps: list[tuple[str, int, int]]) -> None:
    play(order, steps)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(ORDERS, STEPS)
def test_blocks_stay_in_one_super_pod_in_many_histories(
    order: str, steps: list[tuple[str, int, int]]
) -> None:
    play(order, steps)
