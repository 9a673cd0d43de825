"""When State settles within a batch, and in which order the objects of a settling come, changes no decision and no sum."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from projections.state import State
from projections.unsettled import Unsettled
from replay.log_replay import Replay
from simulator.scenario import parse_scenario
from tests.checkout import ROOT

SCENARIOS = (
    "capacity/the_capability_of_ancestor_queues_limits_a_queue",
    "controllers/a_deployment_that_recreates_frees_its_quota_first",
    "faults/several_faults_of_one_job_are_one_restart",
    "gangs/a_gang_whose_controller_makes_pods_before_admission_gets_its_lost_pod_back",
    "network/one_layer_of_switches_keeps_each_job_under_one",
    "nodes/unready/a_switch_that_fails_for_20_s_evicts_no_healthy_pod",
    "pools/nodes_of_several_sizes_can_be_mixed",
    "preempt/preemption_frees_the_node_of_higher_score",
    "tenants/rewriting_the_chips_of_ones_own_pod_gives_them_to_no_one_else",
    "topology/pods_of_a_soft_gang_go_near_each_other",
    "volumes/a_gang_in_one_domain_is_placed_within_reach_of_its_volume",
)

Rows: TypeAlias = dict[str, object]
Order: TypeAlias = Callable[[list[str]], list[str]]


async def _recorded(name: str) -> list[Entry]:
    text = (ROOT / f"tests/scenarios/{name}.yaml").read_text("utf-8")
    log = MemoryLog()
    await simulate(parse_scenario(text, name), log, with_views=False)
    return [entry async for entries in log.read() for entry in entries]


def _rows(state: State) -> Rows:
    """What is kept of pods, pod groups, nodes and queues, apart from the positions of records of one batch."""
    cluster = state.cluster
    pods = {
        uid: (pod.facts, pod.node, pod.status, pod.charge, pod.devices, pod.group_key)
        for uid, pod in cluster.pods.items()
    }
    groups = {
        key: (
            group.queue,
            group.decided.phase,
            group.counts,
            group.priority,
            sorted(group.decided.refusals),
        )
        for key, group in cluster.groups.items()
    }
    nodes = {name: (node.free, sorted(node.pods)) for name, node in cluster.nodes.nodes.items()}
    queues = {
        name: (queue.allocated, queue.pending, queue.inqueue, queue.elastic)
        for name, queue in cluster.queues.items()
    }
    return {"pods": pods, "groups": groups, "nodes": nodes, "queues": queues}


def _in_record_order(uids: list[str]) -> list[str]:
    return uids


def _reversed(uids: list[str]) -> list[str]:
    return uids[::-1]


def _from_the_middle(uids: list[str]) -> list[str]:
    middle = len(uids) // 2
    return [*uids[middle:], *uids[:middle]]


def _reorder(unsettled: Unsettled, order: Order) -> None:
    """Let pods, kinds, and the objects of each kind settle in another order."""
    unsettled.pods = {uid: unsettled.pods[uid] for uid in order(list(unsettled.pods))}
    unsettled.objects = {
        kind: {one: unsettled.objects[kind][one] for one in order(list(unsettled.objects[kind]))}
        for kind in order(list(unsettled.objects))
    }


def _replayed(entries: list[Entry], splits_at: int, order: Order) -> State:
    """Decide a log again; State settles also at positions that `splits_at` divides."""
    replay = Replay()
    for entry in entries:
        assert replay.take(entry.record, entry.content) is None
        _reorder(replay.state.unsettled, order)
        if splits_at and entry.record.position % splits_at == 0:
            replay.state.settle()
    assert replay.finish() is None
    replay.state.settle()
    replay.state.validate()
    return replay.state


@pytest.mark.parametrize("name", SCENARIOS)
async def test_settlings_split_joined_and_reordered_give_the_same_decisions_and_rows(
    name: str,
) -> None:
    entries = await _recorded(name)
    joined = _rows(_replayed(entries, 0, _in_record_order))
    for splits_at in (0, 1, 2, 3):
        for order in (_in_record_order, _reversed, _from_the_middle):
            state = _replayed(entries, splits_at, order)
            assert _rows(state) == joined, (splits_at, order)
