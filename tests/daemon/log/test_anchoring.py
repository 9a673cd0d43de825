"""The daemon anchors its log at intervals, and finds by its own signatures that the past was rewritten while it was away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.cluster.acting.correlation import Correlator
from daemon.cluster.acting.k8s_events import Regarding, log_anchored
from daemon.log.anchoring import Anchoring
from daemon.log.auditing import keep_audited
from daemon.log.opening import open_log
from daemon.log.signatures import SigningKey, read_signing_key, write_keys
from daemon.log.store import SqlLog
from events.errors import DamagedLogError, LogUnavailableError
from events.record import Head
from tests.daemon.log.contract import filled
from tests.daemon.log.rewriting import rewrite
from tests.daemon.metrics.builders import made, samples


class Clock:
    now_ns = 1_000

    def __call__(self) -> int:
        self.now_ns += 1
        return self.now_ns


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    write_keys(tmp_path / "sign.pem", tmp_path / "sign.pem.pub")
    return read_signing_key(tmp_path / "sign.pem")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    found = await open_log(str(tmp_path / "log.db"), "write")
    assert isinstance(found, SqlLog)
    await found.take_over("test")
    yield found
    await found.close()


def anchoring(
    log: SqlLog, key: SigningKey | None, published: list[Head], every_seconds: float = 900.0
) -> Anchoring:
    return Anchoring(log, key, every_seconds, now_ns=Clock(), publish=published.append)


async def test_each_head_is_signed_and_published_once(log: SqlLog, key: SigningKey) -> None:
    published: list[Head] = []
    anchors = anchoring(log, key, published)
    await anchors.anchor()
    assert published == []  # The log is empty.
    first = await filled(log)
    await anchors.anchor()
    await anchors.anchor()
    second = await filled(log)
    await anchors.finish()
    assert published == [first, second]
    assert [(one.position, one.digest) for one in await log.signatures()] == [
        (one.position, one.digest) for one in published
    ]
    assert [one.position for one in await anchors.signed()] == [first.position, second.position]


async def test_it_goes_on_at_intervals_and_without_a_key_signs_nothing(log: SqlLog) -> None:
    head = await filled(log)
    published: list[Head] = []
    task = asyncio.create_task(anchoring(log, None, published, every_seconds=0.01).run())  # noqa: TID251  # cancelled below
    while len(published) < 2:
        await asyncio.sleep(0.005)
        if published == [head]:
            await filled(log, count=1)
    task.cancel()
    assert published[0] == head
    assert published[1].position > head.position
    assert await log.signatures() == []


async def test_a_log_that_cannot_be_written_is_signed_at_the_next_interval(
    log: SqlLog, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await filled(log)
    published: list[Head] = []
    anchors = anchoring(log, key, published)

    async def refuse(signature: object) -> None:
        raise LogUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(log, "save_signature", refuse)
        await anchors.anchor()
    assert published == []
    await anchors.anchor()
    assert published == [head]


async def test_the_audit_of_the_next_start_finds_that_the_past_was_rewritten(
    log: SqlLog, key: SigningKey, tmp_path: Path
) -> None:
    head = await filled(log)
    await anchoring(log, key, []).anchor()
    await log.close()
    rewrite(tmp_path / "log.db", 3)
    again = await open_log(str(tmp_path / "log.db"), "write")
    assert isinstance(again, SqlLog)
    try:
        await keep_audited(again, lambda: 0)  # The chain is sound in itself.
        with pytest.raises(
            DamagedLogError, match=f"position {head.position}: the past was rewritten"
        ):
            await keep_audited(again, lambda: 0, anchoring(again, key, []).signed)
    finally:
        await again.close()


async def test_a_log_that_was_rewritten_under_the_daemon_is_not_signed(
    log: SqlLog, key: SigningKey, tmp_path: Path
) -> None:
    await filled(log)
    rewrite(tmp_path / "log.db", 3)
    with pytest.raises(DamagedLogError, match="does not have the digest of the signature"):
        await anchoring(log, key, []).anchor()
    assert await log.signatures() == []


def test_the_metric_has_one_series_and_each_event_its_own_digest() -> None:
    metrics = made()
    digests = ("a" * 64, "b" * 64)
    for position, digest in enumerate(digests, start=5):
        head = Head(position=position, digest=digest, epoch=1)
        metrics.sources.anchor = lambda head=head: head  # type: ignore[misc]
        found = [one for one in samples(metrics) if one.name == "muster_log_anchor_info"]
        labels = {"position": str(position), "digest": digest}
        assert [(one.labels, one.value) for one in found] == [(labels, 1)]
    lease = Regarding("Lease", "muster", "", "muster-system", "coordination.k8s.io/v1")
    correlator = Correlator("host")
    for position, digest in enumerate(digests, start=5):
        write = correlator.write(log_anchored(position, digest, lease), 1_000_000_000 + position)
        assert write is not None
        assert write.is_new
        assert f"{position}:{digest}" in write.body.decode()
