"""A trial placement leaves State as it was, in every value and in the order of every dict."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from events.normalize import JsonObject
from projections.pods import Pod
from projections.state import State
from scheduling.explain.waiting import WaitingExplanation
from scheduling.gang_placement import place_gang, placement_problem
from scheduling.session import Session
from scheduling.trial import Trial
from scheduling.victims.gang_search import GangSearch
from scheduling.victims.search import PreemptionSearch
from tests.example_count import examples
from tests.properties import shapes
from tests.properties.machine import History, lives
from tests.scenarios.play import HERE, play, scenario_of
from tests.structure import check_same, lines_of, structure_of

FILES: Final = sorted(HERE.rglob("*.yaml"))
EVICTING: Final = [
    one for one in FILES if "reempt" in one.read_text() or "reclaim" in one.read_text()
]
OTHERS: Final = [one for one in FILES if one not in EVICTING]

EVICTING_POLICIES: Final = [
    one for one in shapes.POLICIES if b'"enablePreemptable":false' in one and b"preempt" in one
]
"""Policies under which pods of a gang may be evicted for an urgent one of their queue."""

ALL_TRIALS: Final = 100
FAILS_EVERY: Final = 3
"""Every so many placements and evictions one raises."""


class BugError(Exception):
    """An exception in the middle of a trial."""


class Trials:
    """Compares the cluster before and after each trial, and lets some of them raise."""

    def __init__(self, patch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.done: Counter[str] = Counter()
        self._before: dict[int, list[str]] = {}
        self._fails = fails
        self._calls = 0
        enter, leave = Trial.__enter__, Trial.__exit__
        place, evict = Trial.place, Trial.evict

        def entered(trial: Trial) -> Trial:
            self._before[id(trial)] = list(lines_of(trial.cluster, "cluster"))
            return enter(trial)

        def left(trial: Trial, *raised: object) -> None:
            leave(trial, *raised)
            self.done["evicting" if trial.evicted else "placing"] += 1
            self.done["raised"] += bool(raised) and raised[0] is not None
            after = list(lines_of(trial.cluster, "cluster"))
            check_same(self._before.pop(id(trial)), after, f"a {type(trial).__name__}")

        def placed(trial: Trial, *given: object, **named: object) -> None:
            place(trial, *given, **named)  # type: ignore[arg-type]
            self._raise_at_times()

        def evicted(trial: Trial, pod: Pod) -> None:
            evict(trial, pod)
            self._raise_at_times()

        for name, one in (
            ("__enter__", entered),
            ("__exit__", left),
            ("place", placed),
            ("evict", evicted),
        ):
            patch.setattr(Trial, name, one)

    def _raise_at_times(self) -> None:
        self._calls += 1
        if self._fails and self._calls % FAILS_EVERY == 0:
            raise BugError


async def test_each_trial_of_the_scenarios_leaves_state_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials = Trials(monkeypatch)
    for path in (*EVICTING[::6], *OTHERS[::40]):
        await play(scenario_of(path))
    assert trials.done["placing"] > ALL_TRIALS
    assert trials.done["evicting"] > ALL_TRIALS // 4


def try_everything(state: State) -> int:
    """Try each waiting group in each way, on a State that is not decided on; return how many attempts that were."""
    session, count = Session(state), 0
    for group in list(state.cluster.groups.values()):
        if not group.pending:
            continue
        can_be_placed = placement_problem(session, group) is None
        attempts: list[Callable[[], object]] = [
            WaitingExplanation(session, group).explain,
            *([partial(place_gang, session, group)] if can_be_placed else []),
            *(partial(PreemptionSearch, session, one, group) for one in ("preempt", "reclaim")),
            *(partial(GangSearch, session, one, group) for one in ("gangpreempt", "gangreclaim")),
        ]
        for attempt in attempts:
            count += 1
            with suppress(BugError):
                attempt()
    return count


@pytest.mark.parametrize("fails", [False, True])
async def test_a_hundred_attempts_in_a_row_leave_state_byte_equal(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    total = raised = 0
    for path in EVICTING[::6]:
        state = (await play(scenario_of(path))).end.state
        if not state.cluster.nodes.is_laid_out:
            continue
        before = structure_of(state)
        with monkeypatch.context() as patch:
            trials = Trials(patch, fails=fails)
            for _ in range(2):
                total += try_everything(state)
            raised += trials.done["raised"]
        check_same(before, structure_of(state), path.stem)
    assert total >= ALL_TRIALS
    assert bool(raised) == fails


class Contended(History):
    """A history in which urgent gangs come to a node that is full, under policies that evict for them."""

    @rule(
        policy=st.sampled_from(EVICTING_POLICIES),
        size=st.integers(1, 3),
        queue=shapes.queue_names,
        life=lives,
    )
    def urgent_gang_comes_to_a_full_node(
        self, policy: bytes, size: int, queue: str, life: list[str]
    ) -> None:
        self.api.put("Queue", queue, {"spec": {"weight": 1}, "status": {"state": "Open"}})
        for name in self.api.names("Node"):
            self.api.remove("Node", name)
        amounts: JsonObject = {"cpu": "3", "memory": "8Gi", "pods": "110"}
        self.api.put("Node", "n1", {"spec": {}, "status": {"allocatable": amounts}})
        for name in ("p-0", "p-1", "p-2", *(f"j1-{index}" for index in range(4))):
            if name in self.api.names("Pod"):
                self.api.remove("Pod", name)
        for index in range(3):
            meta, body = pod_of(queue, 0)
            body["spec"] = {**body["spec"], "nodeName": "n1"}  # type: ignore[dict-item]
            self.api.put("Pod", f"p-{index}", {**body, "status": {"phase": "Running"}}, meta)
        spec: JsonObject = {"minMember": size, "queue": queue, "priorityClassName": "high"}
        self._put_gang("j1", ({"spec": spec}, pod_of(queue, 9), size))
        self.restart(policy)
        self._live(["done", *life])


def pod_of(queue: str, priority: int) -> shapes.Shape:
    """Return metadata and body of a pod that takes a third of the node and may be evicted."""
    spec: JsonObject = {
        "schedulerName": "muster",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    }
    annotations: JsonObject = {shapes.QUEUE: queue, "volcano.sh/preemptable": "true"}
    return {"annotations": annotations, "labels": {"app": "x"}}, {
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def test_each_trial_of_any_history_leaves_state_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch)
    profile = settings(
        max_examples=examples(50),
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Contended, settings=profile)
    assert trials.done["placing"] > ALL_TRIALS
    assert trials.done["evicting"]
