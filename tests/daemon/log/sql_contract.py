"""What every log in a database must do beyond `LogContract`."""

# ruff: noqa: S608
# The SQL names tables and columns of ours.

import asyncio
from importlib import import_module
from textwrap import dedent

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError

from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.reading import CHUNK_BYTES
from daemon.log.signatures import Signature
from daemon.log.store import SqlLog
from daemon.log.tables import REVISIONS, metadata
from daemon.log.tables import log as log_table
from daemon.log.verify import verify
from daemon.queries.usage import usage
from daemon.simulation import simulate
from engine.batch import Batch
from events.chain import Draft, seal
from events.cluster import ObjectObserved
from events.codec import encode
from events.decision import Eviction
from events.decisions.eviction import EvictionDecided
from events.errors import (
    DamagedLogError,
    FencedError,
    LogUnavailableError,
    NewerRecordError,
    UsageError,
)
from events.field_manager import FieldChange
from projections.views.catalogue import VIEWS
from projections.views.rows import Row, RowChanges
from replay.log_time import format_time
from simulator.scenario import parse_scenario
from tests.daemon.log.builders import RECORDED_AT_NS, batch, batches, card_views, pod
from tests.daemon.log.contract import LogContract, entries, filled
from tests.daemon.log.raw_database import RawDatabase

COLUMNS = [column.name for column in log_table.columns]


class Trouble:
    """Raises at one point, once."""

    def __init__(self) -> None:
        self.at = ""
        self.error: BaseException = OSError("the disk is gone")
        self.points: list[str] = []

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if point == self.at:
            self.at = ""
            raise self.error


class SqlLogContract(LogContract):
    """Held by SQLite and PostgreSQL. Fixtures: `url`, `door`, `trouble`, `log`."""

    async def depose(self, log: Log) -> None:
        await self._raw_database.run("UPDATE log_head SET epoch = epoch + 1")

    @pytest.fixture(autouse=True)
    def _keep_raw_database(self, raw_database: RawDatabase) -> None:
        self._raw_database = raw_database

    async def test_the_migrations_make_the_tables_of_the_metadata(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        def differences(connection: Connection) -> list[object]:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            return list(compare_metadata(context, metadata))

        async with raw_database.connection() as connection:
            assert await connection.run_sync(differences) == []

    async def test_signatures_are_kept_and_cannot_be_changed(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        assert isinstance(log, SqlLog)
        head = await filled(log)
        first = Signature(head.position, head.digest, 5, "k1", "00")
        await log.save_signature(first)
        await log.save_signature(msgspec.structs.replace(first, signed_at_ns=6))
        await log.save_signature(msgspec.structs.replace(first, key="k2"))
        assert [(one.key, one.signed_at_ns) for one in await log.signatures()] == [
            ("k1", 5),
            ("k2", 5),
        ]
        with pytest.raises(DamagedLogError, match="does not have the digest"):
            await log.save_signature(msgspec.structs.replace(first, digest="0" * 64))
        for change in ("DELETE FROM log_signature", "UPDATE log_signature SET key = 'k3'"):
            with pytest.raises(DBAPIError, match="append only"):
                await raw_database.run(change)

    async def test_the_primary_keys_have_the_order_of_the_metadata(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        def keys(connection: Connection) -> dict[str, list[str]]:
            of = inspect(connection).get_pk_constraint
            return {name: of(name)["constrained_columns"] for name in metadata.tables}

        async with raw_database.connection() as connection:
            found = await connection.run_sync(keys)
        assert found == {
            name: [column.name for column in one.primary_key]
            for name, one in metadata.tables.items()
        }

    async def test_the_history_of_queues_keeps_its_rows_in_migration_0004(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        # As it was then.
        for before in (
            "DROP VIEW queue_quota",
            "DROP VIEW queue_quota_history",
            "ALTER TABLE queue_quota_rows RENAME TO queue_quota_history",
            "CREATE VIEW queue_quota AS SELECT * FROM queue_quota_history",
        ):
            await raw_database.run(before)
        async with raw_database.connection() as connection:
            if connection.dialect.name == "postgresql":
                index = "queue_quota_rows_pkey RENAME TO queue_quota_history_pkey"
                await connection.exec_driver_sql(f"ALTER INDEX {index}")
        rows = [
            ("a", "cpu", None, 0, 0, 5, 0, 5, 0, 1, 2),
            ("a", "cpu", 9, 0, 0, 6, 0, 6, 0, 2, None),
        ]
        for row in rows:
            cells = ", ".join("NULL" if cell is None else repr(cell) for cell in row)
            await raw_database.run(f"INSERT INTO queue_quota_history VALUES ({cells})")

        def migrated(connection: Connection) -> None:
            with Operations.context(MigrationContext.configure(connection)):
                import_module("migrations.versions.0004_queue_history_by_position").upgrade()

        async with raw_database.connection() as connection:
            await connection.run_sync(migrated)
        history = "SELECT * FROM queue_quota_history ORDER BY from_position"
        assert await raw_database.run(history) == rows
        assert await raw_database.run("SELECT * FROM queue_quota") == [rows[1][:-2]]

    async def test_records_are_read_at_positions_and_found_by_their_objects(self, log: Log) -> None:
        assert isinstance(log, SqlLog)
        await filled(log, count=2)
        await log.append(batch(log.head, [pod(0, phase="Running")]))
        first, *_, last = subjects = [one.record.subject for one in await entries(log)]
        assert first == last
        found = [entry async for some in log.entries_at([2, 5]) for entry in some]
        assert found == [(await entries(log))[index] for index in (1, 4)]
        newest = await log.newest_objects([first, subjects[1], "Pod/default/none"])
        assert newest == {first: 5, subjects[1]: 2}
        assert await log.newest_objects([first, subjects[1]], 4) == {first: 1, subjects[1]: 2}
        kinds, asked = ("object_observed.v1",), [first, subjects[1], "Pod/default/none"]
        assert await log.positions_of(asked, 5, kinds) == [1, 2, 5]
        assert await log.positions_of(asked, 4, kinds) == [1, 2]
        assert await log.positions_of(asked, 5, ("pod_bound.v1",)) == []
        assert sorted(await log.first_and_last_objects("Pod")) == [1, 2, 2, 3, 3, 4, 4, 5]
        assert await log.first_and_last_objects("Po") == []

    async def test_usage_is_summed_up_by_owner_and_label(self, log: Log) -> None:
        text = """
            scenario: one pod of a job
            cluster:
              - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, pods: 9}}}
              - kind: Pod
                metadata:
                  name: a-0
                  labels: {team: ml}
                  ownerReferences: [{kind: Job, name: a, uid: j, apiVersion: batch/v1, controller: true}]
                  annotations: {muster.sh/run-seconds: "3600"}
                spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
              - {kind: Pod, metadata: {name: b, labels: {team: web}}, spec: {containers: [{name: c, resources: {requests: {cpu: 8}}}]}}
            until: 3700s
        """
        await simulate(parse_scenario(dedent(text), "a.yaml"), log, with_views=True)
        for by, names in (
            ("owner", ["Job/default/a", "Pod/default/b"]),
            ("label:team", ["ml", "web"]),
        ):
            answer = await usage(log, by)
            assert [one.name for one in answer.rows] == names
            assert round(answer.rows[0].pod_hours, 2) == 1
            assert round(answer.rows[1].waiting_pod_hours, 2) == 1

    @pytest.mark.parametrize("table", ["log", "objects"])
    @pytest.mark.parametrize("change", ["UPDATE {} SET digest = 'x'", "DELETE FROM {}"])
    async def test_what_was_appended_cannot_be_changed(
        self, log: Log, raw_database: RawDatabase, table: str, change: str
    ) -> None:
        await filled(log)
        with pytest.raises(DBAPIError, match=f"{table} is append only"):
            await raw_database.run(change.format(table))

    async def test_large_objects_are_read_a_few_at_a_time(self, log: Log) -> None:
        """Else a thousand objects of a tenant are in memory at once, and unpacked in one turn of the event loop."""
        size = CHUNK_BYTES // 3
        made = batch(log.head, [pod(index, phase="x" * size) for index in range(8)])
        await log.append(made)
        chunks = [chunk async for chunk in log.read(0, None)]
        assert [len(chunk) for chunk in chunks] == [3, 3, 2]
        assert [entry.record for chunk in chunks for entry in chunk] == made.records

    async def test_a_log_outlives_its_process(self, log: Log, url: str) -> None:
        head = await filled(log)
        await log.close()
        again = await open_log(url, "write")
        assert again.head == head
        await filled(again)
        await again.close()

    async def test_a_reader_sees_what_is_committed_and_cannot_write(
        self, log: Log, url: str
    ) -> None:
        await filled(log)
        reader = await open_log(url)
        more = await filled(log)
        assert [e.record.position for e in await entries(reader)][-1] == more.position
        assert not await reader.latest_snapshot("code")
        await reader.close()

    async def test_rows_of_views_follow_the_batches_of_a_group_in_order(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        first, second, third = batches(log.head, count=3, size=1)
        first.views.update(card_views("n1", 8, at=1))
        second.views.update(card_views("n1", 6, at=2, since=1))
        third.views.update(card_views("n1", 4, at=3, since=2))
        async with asyncio.TaskGroup() as group:
            for item in (first, second, third):
                group.create_task(log.append(item))
        assert await log.view_rows("node_card") == [("n1", "A100", "nvidia.com/gpu", 8, 8, 4, 4, 3)]
        history = await raw_database.run(
            "SELECT free, from_position, to_position FROM node_card_history ORDER BY from_position"
        )
        assert history == [(8, 1, 2), (6, 2, 3), (4, 3, None)]
        stand = {item.name: item for item in await log.projections()}
        assert (stand["node_card"].position, stand["node_card"].checksum) == (3, 3)
        assert {item.position for item in stand.values()} == {3}

    async def test_a_history_shows_the_times_of_its_records(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        first, second = batches(log.head, count=2, size=1)
        first.views.update(card_views("n1", 8, at=1))
        second.views.update(card_views("n1", 6, at=2, since=1))
        for item in (first, second):
            await log.append(item)
        shown = [
            format_time(one.records[0].recorded_at_ns, RECORDED_AT_NS) for one in (first, second)
        ]
        history = "SELECT from_time, to_time FROM node_card_history ORDER BY from_position"
        assert await raw_database.run(history) == [(shown[0], shown[1]), (shown[1], None)]

    async def test_views_can_be_cleared_and_rewritten(self, log: Log) -> None:
        made = batch(log.head, [pod(1)], card_views("n1", 8, at=1))
        await log.append(made)
        await log.clear_views()
        assert await log.view_rows("node_card") == []
        assert {item.position for item in await log.projections()} == {0}
        await log.write_views([made.views], 0, 1)
        assert len(await log.view_rows("node_card")) == 1
        assert {item.position for item in await log.projections()} == {1}

    async def test_a_view_of_other_code_is_marked_as_behind(
        self, log: Log, raw_database: RawDatabase, url: str
    ) -> None:
        await filled(log)
        await log.close()
        await raw_database.run(
            "UPDATE projection SET version = version + 1 WHERE name = 'decision'"
        )
        again = await open_log(url, "write")
        await filled(again)
        stand = {item.name: item.position for item in await again.projections()}
        await again.close()
        assert stand == {view.name: 0 if view.name == "decision" else 12 for view in VIEWS}

    @pytest.mark.parametrize(
        ("change", "exit_code", "said"),
        [
            ("UPDATE alembic_version SET version_num = '9999'", 5, "schema '9999'"),
            ("UPDATE log_head SET format = 3", 5, "log format 3; this release reads format 2"),
            ("UPDATE log_head SET format = 1", 2, "log format 1 of an earlier build"),
        ],
    )
    @pytest.mark.parametrize("mode", ["read", "write"])
    async def test_a_log_of_another_format_is_refused_and_not_touched(
        self,
        log: Log,
        raw_database: RawDatabase,
        url: str,
        change: str,
        exit_code: int,
        said: str,
        mode: str,
    ) -> None:
        await filled(log)
        await log.close()
        await raw_database.run(change)
        before = (
            await raw_database.run("SELECT * FROM log_head"),
            await raw_database.run("SELECT * FROM projection"),
        )
        with pytest.raises((NewerRecordError, UsageError), match=said) as caught:
            await open_log(url, "write") if mode == "write" else await open_log(url)
        assert caught.value.exit_code == exit_code
        assert "\n" not in str(caught.value)
        after = (
            await raw_database.run("SELECT * FROM log_head"),
            await raw_database.run("SELECT * FROM projection"),
        )
        assert after == before

    @pytest.mark.parametrize("point", ["before_commit", "inside_commit"])
    async def test_a_failed_append_leaves_nothing_and_the_log_goes_on(
        self, log: Log, trouble: Trouble, point: str
    ) -> None:
        before = await filled(log)
        first, second = batches(before, count=2)
        trouble.at = point
        results = await asyncio.gather(
            log.append(first), log.append(second), return_exceptions=True
        )
        assert [type(result) for result in results] == [LogUnavailableError] * 2
        with pytest.raises(LogUnavailableError):
            await log.append(first)
        assert await log.reopen() == before
        await log.append(first)
        assert (await verify(log)).head == first.after

    async def test_a_commit_whose_answer_was_lost_is_found_in_the_log(
        self, log: Log, trouble: Trouble
    ) -> None:
        first, second = batches(log.head, count=2)
        trouble.at, trouble.error = "after_commit", ConnectionResetError("answer lost")
        await log.append(first)
        await log.append(second)
        assert (await verify(log)).head == second.after

    async def test_a_broken_off_append_stops_the_log_until_it_is_reopened(
        self, log: Log, trouble: Trouble
    ) -> None:
        first, second = batches(log.head, count=2)
        trouble.at, trouble.error = "inside_commit", asyncio.CancelledError()
        with pytest.raises(asyncio.CancelledError):
            await log.append(first)
        with pytest.raises(LogUnavailableError):
            await log.append(second)
        await log.reopen()
        await log.append(first)

    async def test_reopening_after_a_takeover_by_another_is_fenced(
        self, log: Log, trouble: Trouble
    ) -> None:
        await log.take_over("me")
        trouble.at = "inside_commit"
        with pytest.raises(LogUnavailableError):
            await filled(log)
        await self.depose(log)
        with pytest.raises(FencedError):
            await log.reopen()

    async def test_a_failed_transaction_beside_an_append_stops_the_log(
        self, log: Log, trouble: Trouble
    ) -> None:
        head = await filled(log)
        trouble.at = "inside_commit"
        with pytest.raises(LogUnavailableError):
            await log.save_snapshot(head.position, head.digest, "code", b"state")
        assert await log.latest_snapshot("code") is None
        await log.reopen()
        await log.save_snapshot(head.position, head.digest, "code", b"state")
        assert await log.latest_snapshot("code") is not None

    async def test_a_changed_byte_of_any_column_is_found_at_its_position(
        self, log: Log, raw_database: RawDatabase, url: str
    ) -> None:
        await filled(log, count=1, size=3)
        await log.close()
        for at in (1, 2, 3):
            for column in COLUMNS:
                ((kept,),) = await raw_database.run(
                    f"SELECT {column} FROM log WHERE position = {at}"
                )
                now_at = at + 1000 if column == "position" else at
                sql = f"UPDATE log SET {column} = :value WHERE position = "
                await raw_database.force(f"{sql}{at}", value=_changed(kept))
                await self._is_damaged(url, at)
                await raw_database.force(f"{sql}{now_at}", value=kept)
        await _verified(url)

    async def test_a_changed_byte_of_an_object_is_found_at_its_position(
        self, log: Log, raw_database: RawDatabase, url: str
    ) -> None:
        made = batch(log.head, [pod(1), pod(2), pod(3)])
        await log.append(made)
        await log.close()
        where = f"WHERE digest = '{made.records[1].object}'"
        for column in ("codec", "bytes"):
            ((kept,),) = await raw_database.run(f"SELECT {column} FROM objects {where}")
            for index in (0, 2, 4, 5, -1):
                sql = f"UPDATE objects SET {column} = :value {where}"
                await raw_database.force(sql, value=_changed(kept, index))
                await self._is_damaged(url, 2)
                await raw_database.force(sql, value=kept)
        await _verified(url)
        await raw_database.force(f"UPDATE objects SET digest = '{'0' * 64}' {where}")
        await self._is_damaged(url, 2)

    @pytest.mark.parametrize(
        ("change", "position"),
        [
            ("DELETE FROM log WHERE position = 4", 4),
            ("DELETE FROM log WHERE position = 2", 2),
            ("UPDATE log_head SET digest = 'f' || substr(digest, 2)", 4),
            ("UPDATE log_head SET position = 5", 5),
            ("UPDATE log_head SET epoch = 0", 4),
        ],
    )
    async def test_a_row_that_is_gone_or_a_wrong_head_is_found(
        self, log: Log, raw_database: RawDatabase, url: str, change: str, position: int
    ) -> None:
        await log.take_over("me")
        await filled(log, count=2, size=2)
        await log.close()
        await raw_database.force(change)
        await self._is_damaged(url, position)

    async def test_two_rows_or_two_objects_that_changed_places_are_found(
        self, log: Log, raw_database: RawDatabase, url: str
    ) -> None:
        made = batch(log.head, [pod(1), pod(2), pod(3)])
        await log.append(made)
        await log.close()
        for old, new in ((2, -1), (3, 2), (-1, 3)):
            await raw_database.force(f"UPDATE log SET position = {new} WHERE position = {old}")
        await self._is_damaged(url, 2)
        for old, new in ((2, -1), (3, 2), (-1, 3)):
            await raw_database.force(f"UPDATE log SET position = {new} WHERE position = {old}")
        await _verified(url)
        one, other = made.records[0].object, made.records[1].object
        for source, target in ((one, "held"), (other, one), ("held", other)):
            sql = "UPDATE objects SET digest = :target WHERE digest = :source"
            await raw_database.force(sql, source=source, target=target)
        await self._is_damaged(url, 1)

    async def test_the_schema_revisions_are_those_of_the_migrations(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        assert await raw_database.run("SELECT version_num FROM alembic_version") == [
            (REVISIONS[-1],)
        ]

    async def test_the_view_of_changes_names_the_field_manager(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        seen = pod(1)
        change = FieldChange("kubectl-edit", "Update", "2026-01-31T09:30:00Z", "status")
        event = ObjectObserved(uid="1", resource_version="2", changed_by=change)
        head = log.head
        draft = Draft(
            *(head.position + 1, head.position + 1, head.epoch, RECORDED_AT_NS, None, None),
            *(event.kind, seen.subject, encode(event), seen.stored.digest),
        )
        record = seal(head.digest, draft)
        await log.append(Batch(before=head, records=[record], objects=[seen.stored], views={}))
        await filled(log, count=1, size=1)
        columns = "position, time, subject, manager, operation, changed_at, subresource"
        rows = await raw_database.run(f"SELECT {columns} FROM object_change ORDER BY position")
        time = "2023-11-14T22:13:20.000Z"
        assert rows[0] == (1, time, seen.subject, *msgspec.structs.astuple(change))
        assert rows[1][3:] == (None, None, None, None)

    async def test_the_view_of_evictions_says_for_whom(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        head = await log.take_over("test")
        evictions = tuple(Eviction(f"team/p{i}", f"u{i}", "n1") for i in (1, 2))
        event = EvictionDecided(
            pod_group="team/low",
            queue="ls",
            evictions=evictions,
            action="preempt",
            in_favour_of="a/hi",
        )
        draft = Draft(
            *(head.position + 1, head.position + 1, head.epoch, RECORDED_AT_NS, None, None),
            *(event.kind, "PodGroup/team/low", encode(event), None),
        )
        record = seal(head.digest, draft)
        # Of the first pod there is a placement that ends with the eviction, and one that ended before.
        place = ("team/p1", "team/low", "ls", "n1", "[]")
        rows: list[Row] = [
            ("u1", -1, *place, '{"OLD":1}', 0, 0, 0, ""),
            ("u1", 0, *place, '{"H200":8}', 0, None, None, ""),
        ]
        views = {"placement": RowChanges(upserted=rows)}
        await log.append(Batch(before=head, records=[record], objects=[], views=views))
        found = await raw_database.run(
            "SELECT pod, namespace, node, pod_group, queue, cards, evicted_for, action, code, time "
            "FROM eviction ORDER BY pod"
        )
        same = ("team", "n1", "team/low", "ls")
        time = "2023-11-14T22:13:20.000Z"
        assert found == [
            ("team/p1", *same, '{"H200":8}', "a/hi", "preempt", "", time),
            ("team/p2", *same, None, "a/hi", "preempt", "", time),
        ]

    async def test_the_view_of_pods_has_rows_with_times(
        self, log: Log, raw_database: RawDatabase
    ) -> None:
        head = await log.take_over("test")
        draft = Draft(
            *(head.position + 1, head.position + 1, head.epoch, RECORDED_AT_NS, None, None),
            *("pod_deleted.v1", "Pod/team/p1", b"{}", None),
        )
        record = seal(head.digest, draft)
        same = ("team", "Job/team/p", '{"team":"vision"}', "team/g", "q", '{"H200":8}')
        opened: list[Row] = [
            ("u1", "team/p1", *same, "", record.position),
            ("u1", "team/p1", *same, "team/high", record.position + 1),
        ]
        closed: list[Row] = [(record.position, "u1", record.position)]
        views = {"pod": RowChanges(opened=opened, closed=closed)}
        await log.append(Batch(before=head, records=[record], objects=[], views=views))
        columns = "pod, namespace, owner, labels, pod_group, queue, cards, evicted_for"
        found = await raw_database.run(f"SELECT {columns} FROM pod")
        assert found == [("team/p1", *same, "team/high")]
        found = await raw_database.run(
            "SELECT evicted_for, from_time, to_time FROM pod_history ORDER BY from_position"
        )
        time = "2023-11-14T22:13:20.000Z"
        assert found == [("", time, time), ("team/high", None, None)]

    async def _is_damaged(self, url: str, position: int) -> None:
        with pytest.raises(DamagedLogError, match=rf"position {position}\b") as caught:
            await _verified(url)
        assert caught.value.exit_code == 4


async def _verified(url: str) -> None:
    log = await open_log(url)
    try:
        await verify(log)
    finally:
        await log.close()


def _changed(value: object, index: int = 3) -> object:
    """A value as it is after one bit of it was changed; numbers move far enough to be free."""
    match value:
        case None:
            return 1
        case int():
            return value + 1000
        case str():
            place = index % len(value)
            return f"{value[:place]}{chr(ord(value[place]) ^ 1)}{value[place + 1 :]}"
        case bytes():
            flipped = bytearray(value)
            flipped[index] ^= 1
            return bytes(flipped)
        case _:
            raise AssertionError(value)
