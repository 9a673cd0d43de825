"""Group commit: what arrives while a transaction is being committed goes into the next one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.log import writing
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.verify import verify
from daemon.log.views import merge
from events.errors import LogUnavailableError
from projections.views.catalogue import NODE_CARD, TOPOLOGY_NODE
from projections.views.rows import Row, RowChanges
from tests.daemon.log.builders import batches
from tests.daemon.log.sql_contract import Trouble


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
async def log(tmp_path: Path, trouble: Trouble) -> AsyncIterator[Log]:
    log = await open_log(str(tmp_path / "log.db"), "write", faults=trouble)
    yield log
    await log.close()


async def append_at_once(log: Log, *, count: int, size: int = 1) -> list[BaseException | None]:
    """Append batches without waiting for one another; how each ended."""
    made = batches(log.head, count=count, size=size)
    return await asyncio.gather(*(log.append(item) for item in made), return_exceptions=True)


async def test_batches_that_wait_are_committed_together_and_stay_batches(
    log: Log, trouble: Trouble
) -> None:
    await append_at_once(log, count=50, size=3)
    assert trouble.points.count("after_commit") <= 3
    assert (await verify(log)).batches == 50


async def test_a_full_queue_makes_appends_wait_and_keeps_their_order(
    log: Log, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "QUEUE_BATCHES_MAX", 4)
    assert await append_at_once(log, count=30) == [None] * 30
    assert trouble.points.count("after_commit") >= 30 / 4
    assert (await verify(log)).batches == 30


async def test_a_transaction_has_a_bound(
    log: Log, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_RECORDS_MAX", 10)
    await append_at_once(log, count=20, size=4)
    assert trouble.points.count("after_commit") >= 10


async def test_when_a_group_fails_all_that_waits_has_failed(log: Log, trouble: Trouble) -> None:
    trouble.at = "inside_commit"
    ends = await append_at_once(log, count=10)
    assert {type(end) for end in ends} == {LogUnavailableError}
    await log.reopen()
    assert (await verify(log)).records == 0


async def test_closing_writes_what_is_queued(log: Log, tmp_path: Path) -> None:
    made = batches(log.head, count=5)
    async with asyncio.TaskGroup() as group:
        for item in made:
            group.create_task(log.append(item))
        await asyncio.sleep(0)
        await log.close()
    reader = await open_log(str(tmp_path / "log.db"))
    assert reader.head == made[-1].after
    await reader.close()


Steps = list[dict[int, int | None]]
"""A step gives nodes another position on their switch, or takes them away."""


@given(st.lists(st.dictionaries(st.integers(0, 3), st.none() | st.integers(0, 8), min_size=1)))
def test_merged_changes_leave_the_rows_that_single_ones_leave(steps: Steps) -> None:
    changes = [_change(step, at) for at, step in enumerate(steps, start=1)]
    singly: dict[Row, Row] = {}
    for change in changes:
        _apply(singly, change)
    together: dict[Row, Row] = {}
    merged = merge([{"topology_node": change} for change in changes])
    _apply(together, merged.get("topology_node", RowChanges()))
    assert together == singly


@given(st.lists(st.dictionaries(st.integers(0, 3), st.none() | st.integers(0, 8), min_size=1)))
def test_merged_changes_leave_the_history_that_single_ones_leave(steps: Steps) -> None:
    since: dict[int, int] = {}
    changes = [_history_change(step, at, since) for at, step in enumerate(steps, start=1)]
    singly: dict[Row, Row] = {}
    for change in changes:
        _apply_history(singly, change)
    together: dict[Row, Row] = {}
    merged = merge([{"node_card": change} for change in changes])
    whole = merged.get("node_card", RowChanges())
    _apply_history(together, whole)
    assert together == singly
    if len(changes) > 1:
        assert not whole.closed, "each row began within these changes and is written once"


def _history_change(step: dict[int, int | None], at: int, since: dict[int, int]) -> RowChanges:
    change = RowChanges(checksum=at)
    for node, total in step.items():
        if node in since:
            change.closed.append((at, f"n{node}", "gpu", since.pop(node)))
        if total is not None:
            change.opened.append((f"n{node}", "gpu", "nvidia.com/gpu", total, total, 0, total, at))
            since[node] = at
    return change


def _apply_history(rows: dict[Row, Row], change: RowChanges) -> None:
    keys = NODE_CARD.keys
    rows.update(((*row[:keys], row[-1]), (*row, None)) for row in change.opened)
    rows.update(((*row[:keys], row[-2]), row) for row in change.passed)
    for ended in change.closed:
        key = ended[1:]
        assert rows[key][-1] is None
        rows[key] = (*rows[key][:-1], ended[0])


def _change(step: dict[int, int | None], at: int) -> RowChanges:
    change = RowChanges(checksum=at)
    for node, place in step.items():
        if place is None:
            change.removed.append((f"n{node}",))
        else:
            change.upserted.append((f"n{node}", "leaf", str(place), "", "", ""))
    return change


def _apply(rows: dict[Row, Row], change: RowChanges) -> None:
    for key in change.removed:
        rows.pop(key, None)
    rows.update((row[: TOPOLOGY_NODE.keys], row) for row in change.upserted)
