"""Everything an operator sees, around a log and a supervisor of the test's own."""

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from daemon.log.memory import MemoryLog
from daemon.metrics.export import text_of
from daemon.notifying_log import NotifyingLog
from daemon.observability import Observability
from daemon.settings import Settings, Supervision
from daemon.stderr import Teller
from engine.batch import Batch
from events.errors import LogUnavailableError, SettingsError
from tests.daemon.log.builders import batch, pod


class Ticks:
    """A clock of which each look costs a quarter of a second."""

    def __init__(self) -> None:
        self.now_ns = 0

    def elapsed_ns(self) -> int:
        """As a clock has it."""
        self.now_ns += 250_000_000
        return self.now_ns


class AwayLog(MemoryLog):
    """A log that takes nothing in."""

    async def append(self, *batches: Batch) -> None:
        """Never."""
        raise LogUnavailableError("away")


@pytest.fixture
def operation() -> Observability:
    return Observability(lambda: 0, Teller(), "1.2.3", 4)


async def test_listeners_get_a_batch_after_it_is_durable_with_its_duration() -> None:
    told: list[tuple[Batch, float]] = []
    inner = MemoryLog()

    def hear(batch: Batch, seconds: float) -> None:
        assert inner.head.position == batch.after.position
        told.append((batch, seconds))

    log = NotifyingLog(inner, Ticks().elapsed_ns, [hear, hear])
    one = batch(await log.take_over("test"), [pod(1)])
    await log.append(one)
    assert told == [(one, 0.25), (one, 0.25)]


async def test_listeners_do_not_get_a_batch_that_is_not_durable() -> None:
    told: list[Batch] = []
    log = NotifyingLog(AwayLog(), Ticks().elapsed_ns, [lambda batch, _: told.append(batch)])
    with pytest.raises(LogUnavailableError):
        await log.append(batch(await log.take_over("test"), [pod(1)]))
    assert told == []


async def test_probes_and_metrics_are_there_before_anything_else(operation: Observability) -> None:
    with capture_logs() as said:
        async with operation.open(Settings(listen="127.0.0.1:0"), Path(), Supervision()):
            (line,) = said
            url = f"http://{line['address']}"
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{url}/readyz") as answer:
                    assert (await answer.json())["reasons"] == {
                        "start": "the daemon has only begun"
                    }
                async with session.get(f"{url}/metrics") as answer:
                    assert "muster_ready 0.0" in await answer.text()


async def test_nothing_listens_where_nothing_should(operation: Observability) -> None:
    with capture_logs() as said:
        async with operation.open(Settings(listen=""), Path(), Supervision()):
            await asyncio.sleep(0)
    assert said == []


async def test_the_supervisor_gets_ready_and_stopping(
    operation: Observability, tmp_path: Path
) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(address)
        supervisor.setblocking(False)
        operation.health.clear("start")
        async with operation.open(Settings(listen=""), Path(), Supervision(address)):
            first = await asyncio.wait_for(
                asyncio.get_running_loop().sock_recv(supervisor, 4096), timeout=5
            )
        assert first.startswith(b"READY=1")
        assert supervisor.recv(4096).startswith(b"STOPPING=1")


async def test_a_token_stands_in_a_file_beside_the_settings(
    operation: Observability, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n", encoding="ascii")
    settings = Settings(listen="127.0.0.1:0", token_file="token")  # noqa: S106  # a file's name
    with capture_logs() as said:
        async with operation.open(settings, tmp_path, Supervision()):
            url = f"http://{said[0]['address']}/whatever"
            async with aiohttp.ClientSession() as session:
                async with session.get(url) as answer:
                    assert answer.status == 401
                headers = {"Authorization": "Bearer secret"}
                async with session.get(url, headers=headers) as answer:
                    assert answer.status == 404


@pytest.mark.parametrize("content", [None, b"", b"  \n", b"\xff\xfe", b"two\nlines"])
async def test_a_token_that_cannot_be_used_is_named(
    content: bytes | None, operation: Observability, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    settings = Settings(listen="", token_file="token")  # noqa: S106  # a file's name
    with pytest.raises(SettingsError, match="token"):
        async with operation.open(settings, tmp_path, Supervision()):
            pass


async def test_what_ends_the_daemon_is_not_hidden(operation: Observability) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with operation.open(Settings(listen=""), Path(), Supervision()):
            raise LogUnavailableError("away")
    assert caught.group_contains(LogUnavailableError)


async def test_a_heard_log_is_counted(operation: Observability) -> None:
    log = operation.heard(MemoryLog())
    await log.append(batch(await log.take_over("test"), [pod(1), pod(2)]))
    text = text_of(operation.metrics.collect())
    assert b'muster_records_total{kind="object_observed"} 2.0' in text
    assert b"muster_append_seconds_count 1.0" in text


async def test_probes_are_answered_at_an_address_of_their_own_and_nothing_else_there(
    operation: Observability, tmp_path: Path
) -> None:
    """Volcano E.1: a health address beside that of the metrics."""
    settings = Settings(listen="", probes_listen="127.0.0.1:0")
    with capture_logs() as said:
        async with (
            operation.open(settings, tmp_path, Supervision()),
            aiohttp.ClientSession() as session,
        ):
            (address,) = [one["address"] for one in said if one["event"] == "listening for probes"]
            found = {}
            for path in ("healthz", "livez", "readyz", "metrics"):
                async with session.get(f"http://{address}/{path}") as response:
                    found[path] = response.status
    assert found == {"healthz": 200, "livez": 200, "readyz": 503, "metrics": 404}


class StandingLog(MemoryLog):
    """A log that does not answer."""

    async def append(self, *batches: Batch) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


async def test_an_append_without_an_answer_is_a_reason_not_to_be_ready() -> None:
    now = [0]
    operation = Observability(lambda: now[0], Teller(), "1.2.3", 4)
    operation.health.clear("start")
    async with operation.open(Settings(listen=""), Path(), Supervision()):
        log = operation.heard(StandingLog())
        one = batch(await log.take_over("test"), [pod(1)])
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(log.append(one))
            await asyncio.sleep(0)
            now[0] = 5_000_000_000
            assert operation.health.is_ready
            now[0] += 1_000_000_000
            assert operation.health.reasons == {"log": "no answer to an append for 6 s"}
            assert operation.health.is_live
            waiting.cancel()
        assert operation.health.is_ready
