"""A base says what stands; State folded from it equals the one that was folded from the whole log, and decides alike."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.decisions.search_deferred import FreedNode, SearchCursor, SearchDeferred
from events.standing.faults import FaultReportStands
from events.standing.kinds import STANDING
from events.standing.plugins import DeservedStands, WaitingOverStands
from events.standing.pools import PoolStands
from features.pools.facts import PoolFacts
from features.table import FEATURES
from projections.base.base_table import BaseReader, contributors_with
from projections.deferred_work import EventBatch
from projections.group_facts import group_facts
from projections.objects import PodGroupObject, read
from projections.pod_terms import PodAffinityTerm, Selector
from projections.policy.requirement import Requirement
from projections.rescheduling import Reschedulings
from projections.state import State
from projections.suspensions import FailedAction, Suspension
from projections.wakeup_events import ALL_PODS, PodKind, WakeupEvents
from replay.log_replay import Replay
from scheduling.plugins.proportion import DeservedShares
from scheduling.plugins.sla import Deadlines
from tests.projections.bases import BaseRecord, base_of, differences, folded
from tests.scenarios.play import FILES, HERE, name_of, scenario_of
from tests.scheduling.builders import ALL_FAMILIES

SHARES: Final = (0.15, 0.3, 0.5, 0.75, 1.0)
"""Where bases are made, as shares of the batches of a log."""

SCENARIOS: Final = (
    "devices/a_pod_whose_chip_could_not_be_cut_is_deleted_and_created_again",
    "faults/a_node_that_has_recovered_gets_no_pods_until_the_time_settle_is_over",
    "faults/a_report_that_was_deleted_repairs_no_chip_and_moves_no_pod",
    "faults/a_report_with_a_wrong_check_code_changes_no_fault",
    "faults/in_mode_external_grace_a_fault_is_written_on_its_pod_and_nothing_is_deleted",
    "faults/with_process_recover_enable_only_the_faulty_pod_is_deleted_and_the_job_never_escalates",
    "nodes/rejections/pods_that_kubelets_reject_for_their_own_reasons_do_not_evict_node_after_node",
    "pools/a_task_that_does_not_run_yet_is_evicted_at_once",
    "proportion/a_guarantee_holds_whatever_the_weights",
    "queues/a_cycle_cut_short_continues_at_once",
    "sla/an_overdue_gang_keeps_partial_nominations",
    "tenants/a_budget_above_what_a_queue_deserves_is_asked_until_budgetTimeout",
)
"""Scenarios in which, together, records of all kinds stand but for those of `rare`."""


async def entries_of(path: Path) -> list[Entry]:
    """Play a scenario; return its log."""
    log = MemoryLog()
    await simulate(scenario_of(path), log, with_views=False)
    return [entry async for entries in log.read() for entry in entries]


def cuts_of(entries: list[Entry]) -> list[int]:
    """How many records there are up to the ends of some batches."""
    begins = [one.record.batch for one in entries] + [len(entries) + 1]
    ends = [after - 1 for before, after in pairwise(begins) if before != after]
    return sorted({ends[int((len(ends) - 1) * share)] for share in SHARES})


def contents_of(entries: list[Entry]) -> dict[str, bytes]:
    """All objects of a log by digest."""
    found = {one.record.object: one.content for one in entries}
    return {digest: one for digest, one in found.items() if digest and one is not None}


def states_of(entries: list[Entry]) -> Iterator[tuple[int, State]]:
    """Yield State at the cuts of a log, each with the number of records before it."""
    cuts, replay = cuts_of(entries), Replay()
    for index, entry in enumerate(entries, 1):
        assert replay.take(entry.record, entry.content) is None
        if index in cuts:
            replay.state.settle()
            yield index, replay.state


def check_bases(entries: list[Entry]) -> set[str]:
    """Fold bases of a log and replay its rest from each. Return the kinds of their records."""
    contents, kinds = contents_of(entries), set[str]()
    whole, tails = Replay(), dict[int, Replay]()
    cuts = cuts_of(entries)
    for index, entry in enumerate(entries, 1):
        for replay in (whole, *tails.values()):
            assert replay.take(entry.record, entry.content) is None
        if index not in cuts:
            continue
        state = whole.state
        state.settle()
        base = base_of(state, contents)
        kinds.update(one[0] for one in base)
        again = folded(base, contents, state.position)
        assert differences(state, again) == []
        again.validate()
        assert again.next_deadline_ns == state.next_deadline_ns
        assert orders_of(again) == orders_of(state)
        assert base_of(again, contents) == base
        tails[index] = Replay(whole.head, state=again)
    for tail in tails.values():
        assert tail.finish() is None
        assert differences(whole.state, tail.state) == []
    return kinds


def orders_of(state: State) -> dict[str, object]:
    """Return the pod groups that wait, in their order, each with its place."""
    return {key: order for key, (order, _) in state.cluster.scheduling_queue.places.items()}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_state_from_a_base_equals_the_one_from_the_whole_log_and_decides_alike(
    name: str,
) -> None:
    check_bases(await entries_of(HERE / f"{name}.yaml"))


@pytest.mark.soak
@pytest.mark.parametrize("path", FILES, ids=name_of)
async def test_state_from_a_base_decides_alike_in_every_scenario(path: Path) -> None:
    check_bases(await entries_of(path))


async def test_a_base_without_the_records_of_a_kind_is_another_state() -> None:
    """Each kind says something that nothing else says: a record that is left out is noticed, or the base cannot be folded."""
    noticed: dict[str, bool] = {}
    for name in SCENARIOS:
        entries = await entries_of(HERE / f"{name}.yaml")
        contents = contents_of(entries)
        for _, state in states_of(entries):
            base = base_of(state, contents)
            for kind in dict.fromkeys(one[0] for one in base):
                if not noticed.get(kind):
                    left = [one for one in base if one[0] != kind]
                    noticed[kind] = is_other(left, contents, state)
    state = rare()
    base = base_of(state, OWNED)
    for kind in dict.fromkeys(one[0] for one in base):
        if kind not in noticed:
            noticed[kind] = is_other([one for one in base if one[0] != kind], OWNED, state)
    assert noticed == {one.kind: True for one in STANDING}


def test_what_stands_in_no_scenario_is_folded_alike() -> None:
    state = rare()
    assert differences(state, folded(base_of(state, OWNED), OWNED, state.position)) == []


OWNED: Final = {
    "d1": msgspec.json.encode(
        {
            "metadata": {
                "name": "a",
                "namespace": "default",
                "uid": "uid-2",
                "ownerReferences": [
                    {"kind": "Job", "name": "a", "uid": "uid-1", "controller": True}
                ],
            },
            "spec": {"minMember": 1, "queue": "default"},
        }
    )
}
"""A PodGroup that a workload owns."""


def read_group(content: bytes) -> PodGroupObject:
    """Read a PodGroup."""
    found = read(PodGroupObject, content)
    assert not isinstance(found, str)
    return found


def rare() -> State:
    """State with what no scenario leaves behind."""
    state = State(FEATURES)
    cluster = state.cluster
    cluster.pod_groups.put_object(cluster, group_facts(read_group(OWNED["d1"]), ALL_FAMILIES), "d1")
    cluster.finish_record()
    cluster.foreign_groups.schedulers["uid-1"] = ("theirs",)
    cluster.foreign_groups.deleted_owners["uid-1"] = None
    cluster.bind_backoffs.failures["default/a"] = 3
    cluster.internal_errors.actions["allocate"] = FailedAction(
        until_ns=30, message="KeyError in place", is_abandoned=True
    )
    cluster.internal_errors.groups["default/a"] = {"preempt": Suspension(300, 2)}
    found = SearchDeferred(
        pod_group="default/a",
        queue="q",
        action="preempt",
        wanted="4f",
        nodes=3,
        is_within=True,
        freed=(FreedNode(node="n2", pods=1),),
        cursors=(SearchCursor(pod="default/a-0", node="n3", placed=1),),
        counts={"pinned": 2, "busy": 1},
        requeue_on=("victims/q",),
    )
    state.deferred_work = state.deferred_work.with_search(found, 7)
    cluster.wakeup_events.changed_pod_kinds = {
        PodKind("default", (("app", "db"),)): None,
        PodKind("default", (), (apart(None, None), apart((), ()), apart(DATABASES, ()))): None,
    }
    waiting = WakeupEvents(changed_pod_kinds={ALL_PODS: None})
    state.deferred_work.batches.append(EventBatch(6, waiting, {"preempt": None}))
    return state


DATABASES: Final = (Requirement("app", "In", ("db",)), Requirement("tier", "Exists"))


def apart(selector: Selector | None, namespaces: Selector | None) -> PodAffinityTerm:
    """A term of required anti-affinity."""
    return PodAffinityTerm("zone", selector, ("default",), namespaces)


def is_other(base: list[BaseRecord], contents: dict[str, bytes], state: State) -> bool:
    """Return whether a base is noticed to be of another State."""
    try:
        return bool(differences(state, folded(base, contents, state.position)))
    except KeyError:
        return True  # A pod without its pod group, or a pod group without its queue.


def test_each_kind_is_read_by_one_contributor() -> None:
    kinds = [kind for one in contributors_with(FEATURES) for kind in one.kinds]
    assert sorted(kinds, key=lambda one: one.kind) == sorted(STANDING, key=lambda one: one.kind)


def test_what_a_base_says_of_tables_that_the_policy_does_not_name_is_dropped() -> None:
    base = BaseReader(7, FEATURES)
    for event in (
        FaultReportStands(what="faults", changed_at=3),
        PoolStands(pool="default", is_due=True),
        DeservedStands(queue="default", deserved=(("cpu", 1),)),
        WaitingOverStands(pod_group="default/a", until_ns=5),
    ):
        base.take(event.kind, "Queue//default", msgspec.json.encode(event), None, None)
    tables = base.finish().cluster.tables
    assert [
        tables.find(kind) for kind in (Reschedulings, PoolFacts, DeservedShares, Deadlines)
    ] == [None] * 4
