"""What every log must do. Each kind of log subclasses this and says how it is opened."""

import asyncio
from abc import abstractmethod
from pathlib import Path

import pytest

from daemon.log import ladder
from daemon.log.bundle_log import BundleLog
from daemon.log.contract import Log, ReadableLog
from daemon.log.copying import copy_whole, export
from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.log.tables import CYCLE_KINDS
from daemon.log.verify import verify
from daemon.simulation import simulate
from events.cluster import ObjectObserved
from events.errors import DamagedLogError, FencedError, UsageError
from events.record import GENESIS, Head
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.daemon.log.builders import batch, batches, pod
from tests.daemon.log.names import assert_takes_every_name


async def entries(log: ReadableLog, after: int = 0, until: int | None = None) -> list[Entry]:
    """What a log holds, in one list."""
    return [entry async for chunk in log.read(after, until) for entry in chunk]


async def filled(log: Log, *, count: int = 3, size: int = 2) -> Head:
    """Append some batches; the head after them."""
    for made in batches(log.head, count=count, size=size):
        await log.append(made)
    return log.head


class LogContract:
    """Held by a log in memory and in every database."""

    @abstractmethod
    async def depose(self, log: Log) -> None:
        """Raise the epoch behind the back of `log`."""

    async def test_texts_that_no_name_may_be_are_faults_on_every_database_alike(
        self, log: Log
    ) -> None:
        digest = await assert_takes_every_name(log)
        assert digest == await assert_takes_every_name(MemoryLog())

    async def test_a_new_log_is_empty(self, log: Log) -> None:
        assert log.head == GENESIS
        assert await entries(log) == []

    async def test_what_was_appended_is_read_back(self, log: Log) -> None:
        first, second = batches(log.head, count=2)
        await log.append(first)
        await log.append(second)
        found = await entries(log)
        assert [entry.record for entry in found] == first.records + second.records
        assert [entry.content for entry in found] == [
            item.content for item in first.objects + second.objects
        ]
        assert log.head == second.after

    async def test_overlapping_appends_are_written_in_call_order(self, log: Log) -> None:
        made = batches(log.head, count=20, size=3)
        async with asyncio.TaskGroup() as group:
            for item in made:
                group.create_task(log.append(item))
        assert log.head == made[-1].after
        assert [entry.record for entry in await entries(log)] == [
            r for b in made for r in b.records
        ]

    async def test_batches_of_one_append_are_there_in_order_or_all_fail(self, log: Log) -> None:
        """More of them than a log queues at a time."""
        made = batches(log.head, count=1_100, size=1)
        await log.append()
        await log.append(*made[:1_050])
        assert log.head == made[1_049].after
        with pytest.raises(FencedError):
            await log.append(made[1_051], made[1_052])
        assert [one.record for one in await entries(log)] == [
            record for batch in made[:1_050] for record in batch.records
        ]

    async def test_a_range_is_read_from_behind_a_position_up_to_another(self, log: Log) -> None:
        await filled(log, count=4, size=3)
        assert [e.record.position for e in await entries(log, 2, 7)] == [3, 4, 5, 6, 7]
        assert [e.record.position for e in await entries(log, 10)] == [11, 12]
        assert await entries(log, 12) == []

    async def test_records_are_found_by_position_subject_kind_and_cycle(
        self, log: Log, tmp_path: Path
    ) -> None:
        text = (ROOT / "docs/examples/node_fault.yaml").read_text(encoding="utf-8")
        await simulate(parse_scenario(text, "test.yaml"), log, with_views=False)
        bundle = tmp_path / "whole.muster"
        await export(log, bundle)
        for one in (log, BundleLog(bundle)):
            await self._assert_found(one, await entries(log))

    async def _assert_found(self, log: ReadableLog, whole: list[Entry]) -> None:
        records = [one.record for one in whole]
        until = records[len(records) * 3 // 4].position
        for wanted in ([1], [2, 3, until], [records[-1].position, records[-1].position + 1]):
            found = [one async for some in log.entries_at(wanted) for one in some]
            assert found == [one for one in whole if one.record.position in wanted]
        assert [some async for some in log.entries_at([])] == []
        subjects = list(dict.fromkeys(one.subject for one in records))[::2]
        for kinds in ((), (ObjectObserved.kind,)):
            assert await log.positions_of(subjects, until, kinds) == [
                one.position
                for one in records
                if one.position <= until
                and one.subject in subjects
                and one.kind in (kinds or (one.kind,))
            ]
        assert await log.positions_of(["Pod/default/none"], until) == []
        cycles = [one.position for one in records if one.kind in CYCLE_KINDS]
        assert len(cycles) > 4
        assert await log.positions_of_kinds(CYCLE_KINDS, cycles[0], until) == [
            one for one in cycles if cycles[0] < one <= until
        ]
        assert await log.cycles_at([one.position for one in records]) == {
            one.position: max((c for c in cycles if c <= one.position), default=0)
            for one in records
        }
        assert await log.cycles_at([records[-1].position + 1]) == {}
        assert await log.newest_objects(subjects, until) == {
            one.subject: one.position
            for one in records
            if one.position <= until and one.object is not None and one.subject in subjects
        }

    async def test_a_long_log_is_read_in_chunks(self, log: Log) -> None:
        await filled(log, count=3, size=1001)
        sizes = [len(chunk) async for chunk in log.read()]
        assert sum(sizes) == 3003
        assert len(sizes) > 2

    async def test_an_equal_object_is_known_to_every_record_that_names_it(self, log: Log) -> None:
        await log.append(batch(log.head, [pod(1)]))
        again = batch(log.head, [pod(1), pod(1)])
        again.objects.clear()
        await log.append(again)
        assert {entry.content for entry in await entries(log)} == {pod(1).stored.content}

    async def test_a_missing_object_is_named_with_its_position(self, log: Log) -> None:
        made = batch(log.head, [pod(1), pod(2)])
        made.objects.pop()
        await log.append(made)
        with pytest.raises(DamagedLogError, match=f"position 2: object {made.records[1].object}"):
            await entries(log)

    async def test_taking_over_raises_the_epoch_and_nothing_else(self, log: Log) -> None:
        before = await filled(log)
        after = await log.take_over("me")
        assert after == Head(before.position, before.digest, before.epoch + 1) == log.head
        await filled(log)
        assert (await entries(log))[-1].record.epoch == after.epoch

    async def test_a_former_leader_is_fenced(self, log: Log) -> None:
        await log.take_over("me")
        await filled(log)
        await self.depose(log)
        before = log.head
        for made in batches(before, count=2):
            with pytest.raises(FencedError):
                await log.append(made)
        assert len(await entries(log)) == before.position

    async def test_a_batch_that_does_not_follow_the_head_is_refused(self, log: Log) -> None:
        _, second = batches(log.head, count=2)
        with pytest.raises(FencedError):
            await log.append(second)
        assert await entries(log) == []

    async def test_a_sound_log_is_verified_whole(self, log: Log) -> None:
        head = await filled(log, count=3, size=2)
        verified = await verify(log)
        assert (verified.head, verified.records, verified.batches) == (head, 6, 3)
        assert (verified.objects, verified.redacted) == (6, 0)

    async def test_a_time_has_the_position_of_the_last_record_up_to_it(self, log: Log) -> None:
        assert await log.position_at(5) == 0
        await filled(log, count=1, size=8)
        times = [entry.record.recorded_at_ns for entry in await entries(log)]
        assert times == sorted(times)
        for time in {*times, times[0] - 1, times[0] + 1, times[-1] + 1}:
            assert await log.position_at(time) == sum(at <= time for at in times)

    async def test_the_newest_snapshot_of_this_code_is_found(self, log: Log) -> None:
        await filled(log, count=5, size=1)
        for entry in await entries(log):
            record = entry.record
            await log.save_snapshot(
                record.position, record.digest, "here", b"state %d" % record.position
            )
        newest, third = (
            await log.latest_snapshot("here"),
            await log.latest_snapshot("here", before=3),
        )
        assert newest is not None
        assert third is not None
        assert (newest.position, newest.payload) == (5, b"state 5")
        assert (third.position, third.payload) == (3, b"state 3")
        assert await log.snapshot_positions("here") == [1, 2, 3, 4, 5]
        assert await log.latest_snapshot("elsewhere") is None
        assert await log.snapshot_positions("elsewhere") == []

    async def test_snapshots_are_limited_by_a_ladder(
        self, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ladder, "BYTES_FREE", 4_000)
        monkeypatch.setattr(ladder, "SHARE", 1 << 40)
        await filled(log, count=9, size=1)
        for entry in await entries(log):
            record = entry.record
            await log.save_snapshot(record.position, record.digest, "here", bytes(700))
        kept = await log.snapshot_positions("here")
        assert len(kept) == 5
        assert kept[-3:] == [7, 8, 9]

    async def test_a_snapshot_of_another_log_is_refused(self, log: Log) -> None:
        await filled(log)
        with pytest.raises(DamagedLogError, match="position 2"):
            await log.save_snapshot(2, "f" * 64, "here", b"state")

    async def test_a_follower_sees_what_is_appended_while_it_waits(self, log: Log) -> None:
        first, second = batches(log.head, count=2, size=1)
        await log.append(first)
        seen: list[int] = []

        async def follow() -> None:
            async for chunk in log.tail(0):
                seen.extend(entry.record.position for entry in chunk)
                if len(seen) == 1:
                    await log.append(second)
                if len(seen) == 2:
                    return

        await asyncio.wait_for(follow(), timeout=10)
        assert seen == [1, 2]

    async def test_a_bundle_holds_the_same_log(self, log: Log, tmp_path: Path) -> None:
        await log.take_over("me")
        head = await filled(log)
        await export(log, tmp_path / "whole.muster")
        bundle = BundleLog(tmp_path / "whole.muster")
        assert (bundle.base, bundle.head) == (GENESIS, head)
        assert await entries(bundle) == await entries(log)
        assert (await verify(bundle)).head == head

    async def test_a_log_is_imported_record_by_record(self, log: Log) -> None:
        source = MemoryLog()
        await filled(source)
        await source.take_over("first")
        await filled(source, count=2, size=3)
        await source.take_over("second")
        verified = await copy_whole(source, log)
        assert verified.head == log.head == source.head
        assert await entries(log) == await entries(source)
        with pytest.raises(UsageError, match="not empty"):
            await copy_whole(source, log)

    async def test_a_redacted_object_differs_from_a_missing_one(
        self, log: Log, tmp_path: Path
    ) -> None:
        source = MemoryLog()
        await filled(source)
        await export(source, tmp_path / "less.muster", redact=frozenset({"Pod"}))
        await copy_whole(BundleLog(tmp_path / "less.muster"), log)
        assert all(e.redacted and e.content is None for e in await entries(log))
        verified = await verify(log)
        assert (verified.head, verified.redacted) == (source.head, 6)
