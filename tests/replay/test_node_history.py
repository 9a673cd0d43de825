"""The history of a node looks only at records that name the node; it must know of its pods what a fold of all records knows."""

from pathlib import Path

import pytest

from daemon.cli.inputs import load_scenario
from daemon.log.contract import ReadableLog
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from features.table import FEATURES
from projections.state import State
from replay.node_history import NodeHistory
from tests.histories.recorded import histories, load
from tests.scenarios.play import HERE as SCENARIOS

FAULTS = [path for path in histories() if path.parent.name == "faults"]
PLAYED = [
    SCENARIOS / "devices" / "a_pod_whose_chip_could_not_be_cut_is_deleted_and_created_again.yaml",
    SCENARIOS / "nodes" / "a_deleted_node_releases_the_quota_of_its_pods.yaml",
]


async def logged(path: Path) -> ReadableLog:
    """A recorded log, or that of a scenario."""
    if path.suffix == ".muster":
        return await load(path)
    log = MemoryLog()
    await simulate(load_scenario(path).scenario, log, with_views=False)
    return log


@pytest.mark.parametrize("path", [*FAULTS, *PLAYED], ids=lambda path: path.stem)
async def test_pods_and_statuses_are_those_of_a_whole_fold_at_every_position(path: Path) -> None:
    log = await logged(path)
    entries = [one async for some in log.read() for one in some]
    await log.close()
    names = {
        one.record.subject.removeprefix("Node//")
        for one in entries
        if "Node//" in one.record.subject
    }
    state = State(FEATURES)
    told = {name: NodeHistory(name, State(FEATURES)) for name in sorted(names - {""})}
    texts = 0
    for entry in entries:
        record = entry.record
        state.apply(record, event_of(record), entry.content)
        state.settle()
        for name, history in told.items():
            texts += history.take(record, entry.content) is not None
            pods = state.cluster.pods.items()
            there = {uid: one.status for uid, one in pods if one.node == name}
            assert history.statuses == there, (record.position, name)
    assert texts > len(told)
