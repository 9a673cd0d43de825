"""Leaf switches over any history: jobs come and go, pods are replaced, nodes are closed and opened, the map changes, the
daemon restarts.

The rules are judged by what each switch was just before a job was placed, which this module counts itself from the
decisions. State recounts its indexes after each step.
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
from features.ascend.network_labels import LARGE_MODEL, NORMAL
from features.leaf_switches.index import STATES
from features.leaf_switches.rows import SwitchStateRows
from features.table import FEATURES
from projections import snapshot
from tests.example_count import examples
from tests.features.ascend.builders import T, npu_pod, policy, report
from tests.features.leaf_switches.builders import switch_map
from tests.scheduling.builders import EngineHarness, gone, raw

SWITCHES: Final = 4
SERVERS: Final = 3
NODES: Final = [f"n{number}" for number in range(SWITCHES * SERVERS)]
CHIPS: Final = ",".join(f"Ascend910-{number}" for number in range(8))
CONFIRMED: Final = {"huawei.com/AscendReal": CHIPS}
SOAK_EXAMPLES: Final = 2000

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.integers(1, 8), st.sampled_from((LARGE_MODEL, NORMAL))),
        st.tuples(st.just("end"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("replace"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("toggle"), st.integers(0, len(NODES) - 1), st.just("")),
        st.tuples(st.just("map"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("restart"), st.just(0), st.just("")),
    ),
    min_size=4,
    max_size=14,
)
RULES: Final = st.sampled_from((("1.0", 2), ("2.0", 1), ("2.0", 2)))


class Network:
    """Nodes under switches, and jobs."""

    def __init__(self, version: str, limit: int) -> None:
        init = {"nslb-version": version, "shared-tor-num": str(limit)}
        self.harness = EngineHarness(policy=policy(init=init))
        self.version, self.limit = version, limit
        self.closed: set[str] = set()
        self.jobs: dict[str, tuple[str, list[str]]] = {}
        """Live jobs to class and names of pods."""
        self.placed: dict[str, dict[str, tuple[str, dict[str, str]]]] = {}
        """Job to UID of a placed pod to node and annotations."""
        self.crossed = 0
        """Jobs that were placed under several switches."""
        self.map = 0
        self.count = self.seen = 0
        self._show_all()

    def take(self, what: str, number: int, job_class: str) -> None:
        """One step, and what is decided then."""
        match what:
            case "job":
                name = f"j{self.count}"
                self.count += 1
                self.jobs[name] = (job_class, [f"{name}-{index}" for index in range(number)])
                self._see(*self.objects(name))
            case "end" if self.jobs:
                name = sorted(self.jobs)[number % len(self.jobs)]
                for last in self.objects(name):
                    self.harness.see(gone(last))
                del self.jobs[name]
                self.placed.pop(name, None)
            case "replace" if self.placed:
                name = sorted(self.placed)[number % len(self.placed)]
                pods = self.jobs[name][1]
                old = pods[number % len(pods)]
                self.harness.see(gone(self._pod(name, old)))
                self.placed[name].pop(f"uid-{old}", None)
                pods[pods.index(old)] = new = f"{name}-{self.count}-new"
                self.count += 1
                self._see(self._pod(name, new))
            case "toggle":
                self.closed ^= {NODES[number]}
                self._see(self._node(NODES[number]))
            case "map":
                self.map = number
                self._see(self._switch_map())
            case "restart":
                restored = snapshot.restore(snapshot.take(self.harness.state), FEATURES)
                self.harness.engine = Engine(restored, self.harness.engine.head)
                self.harness.start()
                self._show_all()
            case _:  # There is no job to end.
                return
        self.harness.cycle()
        self._judge()

    def switch_of(self, node: str) -> int:
        """The switch of a node: the second map moves the nodes of the last switch, the third one all of them."""
        number = NODES.index(node)
        if self.map == 1 and number >= len(NODES) - SERVERS:
            return 0
        return number % SWITCHES if self.map == 2 else number // SERVERS

    def under(self) -> list[list[str]]:
        """The nodes of each switch, by position."""
        found: list[list[str]] = [[] for _ in range(SWITCHES)]
        for node in NODES:
            found[self.switch_of(node)].append(node)
        return found

    def _switch_map(self) -> bytes:
        under = [[f"10.0.0.{node[1:]}" for node in nodes] for nodes in self.under()]
        return switch_map(under, max(map(len, under)))

    def _node(self, name: str) -> bytes:
        amounts = {"cpu": "64", "pods": "110", T: "8"}
        address: JsonObject = {"type": "InternalIP", "address": f"10.0.0.{name[1:]}"}
        labels: JsonObject = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
        status = {"capacity": amounts, "allocatable": amounts, "addresses": [address]}
        spec = {"unschedulable": name in self.closed}
        return raw("Node", name, metadata={"labels": labels}, spec=spec, status=status)

    def objects(self, job: str) -> list[bytes]:
        """The PodGroup and the pods of a job as the server has them."""
        pods = self.jobs[job][1]
        group = raw("PodGroup", job, spec={"minMember": len(pods)})
        return [group, *(self._pod(job, name) for name in pods)]

    def _pod(self, job: str, name: str) -> bytes:
        node, notes = self.placed.get(job, {}).get(f"uid-{name}", ("", {}))
        return npu_pod(
            name,
            8,
            kind="module",
            group=job,
            on=node,
            labels={"tor-affinity": self.jobs[job][0]},
            annotations={**notes, **(CONFIRMED if node else {})},
        )

    def _see(self, *objects: bytes) -> None:
        self.harness.see(*map(ObjectSeen, objects))

    def _show_all(self) -> None:
        pods = [one for job in self.jobs for one in self.objects(job)]
        self.harness.show_all("Node", *map(self._node, NODES))
        self._see(*(report(one, CHIPS, lists={"NetworkUnhealthy": ""}) for one in NODES))
        self._see(self._switch_map())
        self.harness.show_all("PodGroup", *(one for one in pods if b'"PodGroup"' in one[:30]))
        self.harness.show_all("Pod", *(one for one in pods if b'"PodGroup"' not in one[:30]))
        self.harness.show_the_rest()

    def _judge(self) -> None:
        """Judge what was decided, in order; then bind it, and compare what each switch is."""
        decided, self.harness.records = self.harness.records, []
        for record in decided:
            event = event_of(record)
            if not isinstance(event, GangBindDecided):
                continue
            job = event.pod_group.rpartition("/")[2]
            before = self._states()
            pods = {one.uid: (one.node, dict(one.network)) for one in event.placements}
            placed = self.placed.get(job, {})
            assert len(pods) + len(placed) == len(self.jobs[job][1]), "all that is left of the job"
            assert not self.closed & {node for node, _ in pods.values()}
            if placed:
                self._judge_rest(job, before, pods)
            else:
                self._judge_one(job, before, pods)
            self.placed[job] = {**placed, **pods}
            if len({self.switch_of(node) for node, _ in pods.values()}) > 1:
                self.crossed += 1
            self._see(*self.objects(job))
        self.harness.cycle()
        self.harness.records = []
        nodes = [node for pods in self.placed.values() for node, _ in pods.values()]
        assert len({*nodes}) == len(nodes), "no node twice"
        cluster = self.harness.state.cluster
        rows = [
            SwitchStateRows().rows(cluster, f"switch-{number}")[0] for number in range(SWITCHES)
        ]
        shown = [(row[1], bool(row[2])) for row in rows]
        expected = [(STATES[shared], not bad) for shared, bad, _ in self._states()]
        assert shown == expected

    def _judge_one(
        self,
        job: str,
        before: list[tuple[int, bool, list[str]]],
        pods: dict[str, tuple[str, dict[str, str]]],
    ) -> None:
        job_class, count = self.jobs[job][0], len(pods)
        is_large = job_class == LARGE_MODEL
        used = {self.switch_of(node) for node, _ in pods.values()}
        if is_large and count < 4:
            assert len(used) == 1, "a padding job is under one switch"
        if len(used) == 1:
            assert all(notes.get("isSharedTor", "0") == "0" for _, notes in pods.values())
            return
        if self.version == "1.0":
            for number in used:
                others = before[number][2]
                assert not others or not is_large, "a large-model job crosses no crossed switch"
                assert all(self.jobs[one][0] == NORMAL for one in others)
            return
        said = {
            self.switch_of(node): (int(notes["isSharedTor"]), notes["isHealthy"] == "1")
            for node, notes in pods.values()
        }
        is_above = any(bad for _, bad in said.values())
        assert not (is_above and is_large)
        for number, (shared, bad) in said.items():
            was_shared, was_bad, others = before[number]
            if bad:
                assert all(self.jobs[one][0] == NORMAL for one in others)
            elif shared == 2:
                assert was_shared == 0, "exclusive: no other job crosses it"
            else:
                assert was_shared != 2, "an exclusive switch serves no second crossing job"
                assert not was_bad, "an unhealthy one no job within the limit"
        if not is_above:
            assert sum(shared == 1 for shared, _ in said.values()) <= self.limit

    def _judge_rest(
        self,
        job: str,
        before: list[tuple[int, bool, list[str]]],
        pods: dict[str, tuple[str, dict[str, str]]],
    ) -> None:
        """Pods in place of others of a job go under its switches, and under others as the rules say."""
        own = {self.switch_of(node) for node, _ in self.placed[job].values()}
        used = {self.switch_of(node) for node, _ in pods.values()}
        is_large = self.jobs[job][0] == LARGE_MODEL
        if (is_large and len(self.jobs[job][1]) < 4) or (
            self.version == "2.0" and not self._crosses(job)
        ):
            assert used <= own, "a padding job, and by the rules 2.0 any job under one switch"
            return
        if self.version == "1.0":
            for number in used - own:
                others = before[number][2]
                assert not others or (
                    not is_large and all(self.jobs[one][0] == NORMAL for one in others)
                )
            if is_large and len(pods) == 1:
                self._judge_position(job, own, *(node for node, _ in pods.values()))
            return
        more = self.limit - sum(before[number][0] == 1 for number in own)
        for node, notes in pods.values():
            number = self.switch_of(node)
            was_shared, was_bad, _ = before[number]
            said = int(notes["isSharedTor"]), notes["isHealthy"] == "1"
            if number in own:
                assert said == (was_shared, was_bad), "as its other pods there"
                continue
            assert not said[1]
            assert was_shared == 0 or (was_shared == 1 and not was_bad and said[0] == 1)
        used = {self.switch_of(node) for node, _ in pods.values()} - own
        assert sum(before[number][0] == 1 for number in used) <= max(0, more)

    def _judge_position(self, job: str, own: set[int], node: str) -> None:
        """One pod of a large-model job goes to a position that the fewest others of it have."""
        under = self.under()
        at = {name: position for nodes in under for position, name in enumerate(nodes)}
        counts = dict.fromkeys((at[name] for number in own for name in under[number]), 0)
        for name, _ in self.placed[job].values():
            counts[at[name]] += 1
        assert counts[at[node]] == min(counts.values())

    def _crosses(self, job: str) -> bool:
        """Whether a job crosses switches: it is under several, or a pod says so."""
        pods = self.placed[job].values()
        return len({self.switch_of(node) for node, _ in pods}) > 1 or any(
            notes.get("isSharedTor", "0") != "0" for _, notes in pods
        )

    def _states(self) -> list[tuple[int, bool, list[str]]]:
        """What each switch is: shared, unhealthy, and the jobs that cross it."""
        found: list[tuple[int, bool, list[str]]] = []
        used = {
            job: {self.switch_of(node) for node, _ in pods.values()}
            for job, pods in self.placed.items()
        }
        for number in range(SWITCHES):
            jobs = sorted(
                job for job, there in used.items() if number in there and self._crosses(job)
            )
            notes = [
                notes
                for job in jobs
                for node, notes in self.placed[job].values()
                if self.switch_of(node) == number
            ]
            bad = any(one.get("isHealthy") == "1" for one in notes)
            is_shared = bad or len(jobs) > 1 or any(one.get("isSharedTor") == "1" for one in notes)
            found.append((0 if not jobs else 1 if is_shared else 2, bad, jobs))
        return found


def play(rules: tuple[str, int], steps: list[tuple[str, int, str]]) -> None:
    network = Network(*rules)
    for one in steps:
        network.take(*one)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(RULES, STEPS)
@example(("2.0", 1), [("job", 4, LARGE_MODEL), ("job", 8, NORMAL), ("end", 0, ""), ("map", 1, "")])
@example(
    ("1.0", 2), [("job", 7, NORMAL), ("job", 5, NORMAL), ("toggle", 3, ""), ("restart", 0, "")]
)
def test_jobs_keep_the_rules_of_leaf_switches(
    rules: tuple[str, int], steps: list[tuple[str, int, str]]
) -> None:
    play(rules, steps)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(RULES, STEPS)
def test_jobs_keep_the_rules_of_leaf_switches_in_many_histories(
    rules: tuple[str, int], steps: list[tuple[str, int, str]]
) -> None:
    play(rules, steps)
