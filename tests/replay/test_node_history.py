"""The history of a node looks only at records that name the node; it must know of its pods what a fold of all records knows."""

from pathlib import Path

import pytest

from events.codec import event_of
from projections.state import State
from replay.node_history import NodeHistory
from tests.histories.recorded import histories, load

FAULTS = [path for path in histories() if path.parent.name == "faults"]


@pytest.mark.parametrize("path", FAULTS, ids=lambda path: path.stem)
async def test_pods_and_statuses_are_those_of_a_whole_fold_at_every_position(path: Path) -> None:
    log = await load(path)
    entries = [one async for some in log.read() for one in some]
    await log.close()
    nodes = sorted(
        {
            one.record.subject[6:]
            for one in entries
            if one.record.subject[:6] == "Node//" and one.record.subject[6:]
        }
    )
    state = State()
    told = {name: NodeHistory(name, State()) for name in nodes}
    texts = 0
    for entry in entries:
        record = entry.record
        state.apply(record, event_of(record), entry.content)
        for name, history in told.items():
            texts += history.take(record, entry.content) is not None
            there = {uid: one.status for uid, one in state.cluster.pods.items() if one.node == name}
            assert history.statuses == there, (record.position, name)
    assert texts > len(nodes)
