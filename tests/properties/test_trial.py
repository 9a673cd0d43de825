"""Any sequence of changes on trial, with exceptions in the middle of some, leaves State as it was, in every value, in the order of every
dict, and in the bytes of every column; and at each moment the caches find room where a search from scratch finds it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projections.nodes import Node, NodeTable, Request
from projections.pods import ALLOCATED
from projections.state import State
from scheduling.group_trial import GroupTrial
from scheduling.node_ranking import NodeRankings
from scheduling.session import Session
from scheduling.trial import Mark, Trial
from tests.example_count import examples
from tests.scenarios.play import HERE, play, scenario_of
from tests.structure import check_same, lines_of

WORDS: Final = ("preempt", "reclaim", "claims", "slots", "affinity", "pools", "restart", "topology")
"""Of each of these folders and files of scenarios some are taken."""
OF_EACH: Final = 4


def picked() -> list[str]:
    """Return the names of scenarios of many kinds."""
    names = [str(one.relative_to(HERE)) for one in sorted(HERE.rglob("*.yaml"))]
    found: dict[str, None] = {}
    for word in WORDS:
        of_word = [one for one in names if word in one]
        found.update(dict.fromkeys(of_word[:: max(1, len(of_word) // OF_EACH)]))
    return list(found)


class BugError(Exception):
    """An exception in the middle of a change."""


@contextmanager
def half_done(changes: int) -> Iterator[None]:
    """Let the change after so many others raise when half of it is done."""
    real, left = NodeTable.shift, [changes]

    def shift(table: NodeTable, node: Node, kind: str, request: Request, sign: int) -> None:
        left[0] -= 1
        if left[0] >= 0:
            return real(table, node, kind, request, sign)
        real(table, node, kind, request[: len(request) // 2], sign)
        raise BugError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeTable, "shift", shift)
        yield


class Tried:
    """A trial on a State, and what it looked like at each mark."""

    def __init__(self, state: State, trial: Trial) -> None:
        self.state, self.trial = state, trial
        self.session = Session(state)
        pods = list(state.cluster.pods.values())
        self.waiting = [one for one in pods if not one.node and one.group_key]
        self.running = [one for one in pods if one.status in ALLOCATED and one.group_key]
        self.marks: list[tuple[Mark, list[str], int]] = []

    def change(self, what: str, first: int, second: int) -> None:
        """Make one change."""
        nodes = self.state.cluster.nodes.order
        trial = self.trial
        placed = {one.pod.facts.uid: None for one in trial.placed}
        evicted = {one.facts.uid: None for one in trial.evicted}
        waiting = [one for one in self.waiting if one.facts.uid not in placed]
        running = [one for one in self.running if one.facts.uid not in evicted]
        if what in ("place", "later") and waiting and nodes:
            pod, node = waiting[first % len(waiting)], nodes[second % len(nodes)]
            trial.place(pod, node, later=what == "later")
        elif what == "evict" and running:
            trial.evict(running[first % len(running)])
        elif what == "spare" and trial.evicted:
            trial.spare(trial.evicted[first % len(trial.evicted)])
        elif what == "lift" and waiting:
            trial.lift_nomination(waiting[first % len(waiting)])
        elif what == "begin" and waiting:
            trial.begin(self.state.cluster.groups[waiting[first % len(waiting)].group_key])
        elif what == "keep" and nodes:
            pod_claims = [claim.claim for pod in waiting for claim in pod.pod_class.claims]
            for claim in pod_claims[:1]:
                trial.keep_claim(claim, nodes[second % len(nodes)])
        elif what == "mark":
            self.marks.append((trial.mark(), self.lines(), trial.version))
        elif what == "restore" and self.marks:
            self.restore(first % len(self.marks))

    def restore(self, index: int) -> None:
        """Restore to a mark."""
        mark, before, version = self.marks[index]
        self.trial.restore(mark)
        check_same(before, self.lines(), "a restored trial")
        assert self.trial.version == version
        del self.marks[index + 1 :]

    def lines(self) -> list[str]:
        """Return all that the cluster and the trial hold."""
        trial = self.trial
        more = [
            f"charged {trial.charged}",
            f"placed {[(one.pod.key, one.node.name, one.is_later) for one in trial.placed]}",
            f"evicted {[one.key for one in trial.evicted]}",
        ]
        if isinstance(trial, GroupTrial):
            roles = {role: count for role, count in trial.roles.items() if count}
            sums = trial.released_above, trial.lost_by_lineage, roles, trial.parts_now
            more += [f"sums {sums}", f"of groups {trial.evicted_of(trial.group.key)}"]
        leaving, table = self.state.cluster.nodes.leaving, self.state.cluster.nodes
        table.leaving = dict.fromkeys(sorted(leaving))  # Its order is restored at the end.
        found = list(lines_of(self.state.cluster, "cluster"))
        table.leaving = leaving
        return [*found, *more]

    def check_room(self) -> None:
        """Compare where waiting pods have room with what new caches find."""
        cluster, kept = self.state.cluster, self.session.rankings
        new = NodeRankings(cluster)
        for pod in {one.pod_class.index: one for one in self.waiting}.values():
            group = cluster.groups[pod.group_key]
            ours = kept.of(pod.pod_class, None, kept.job_of(group))
            theirs = new.of(pod.pod_class, None, new.job_of(group))
            assert ours.scores().tolist() == theirs.scores().tolist()
            for node in cluster.nodes.order:
                assert ours.will_have_room(node) == theirs.will_have_room(node)
                assert ours.devices.pick(node) == theirs.devices.pick(node)


CHANGES: Final = ("place", "later", "evict", "spare", "lift", "begin", "keep", "mark", "restore")
steps = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.integers(0, 9), st.integers(0, 9), st.booleans()),
    max_size=30,
)


def try_steps(
    state: State, make: Callable[[], Trial], drawn: list[tuple[str, int, int, bool]], end: int
) -> None:
    """Make changes on trial, some of which raise; the trial is left by an exception if `end` is even."""
    before = list(lines_of(state.cluster, "cluster"))
    columns = {name: one.tobytes() for name, one in state.cluster.nodes.free.items()}
    try:
        with make() as trial:
            tried = Tried(state, trial)
            for what, first, second, fails in drawn:
                tried.change("mark", 0, 0)
                if not fails:
                    tried.change(what, first, second)
                else:
                    try:
                        with half_done(first % 2):
                            tried.change(what, first, second)
                    except BugError:
                        tried.restore(len(tried.marks) - 1)
                tried.check_room()
            if end % 2 == 0:
                with half_done(0):
                    tried.change("place", end, end)
    except BugError:
        pass
    check_same(before, list(lines_of(state.cluster, "cluster")), "a trial")
    assert columns == {name: one.tobytes() for name, one in state.cluster.nodes.free.items()}
    state.validate()


@pytest.mark.parametrize("name", picked())
async def test_any_sequence_of_changes_on_trial_leaves_state_as_it_was(name: str) -> None:
    state = (await play(scenario_of(HERE / name))).end.state
    if not state.cluster.nodes.is_laid_out or not state.cluster.pods:
        return
    groups = [one for one in state.cluster.groups.values() if one.pending] or list(
        state.cluster.groups.values()
    )

    @settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps, st.integers(0, 9))
    def check(drawn: list[tuple[str, int, int, bool]], end: int) -> None:
        def make() -> Trial:
            if not groups or end < 3:
                return Trial(state.cluster)
            return GroupTrial(state.cluster, groups[end % len(groups)])

        try_steps(state, make, drawn, end)

    check()
