"""The simulated cluster behind HTTP: bytes, time, faults, and a server that goes down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from daemon.cluster.server.simulated_api_server import Listening, Server, running_server
from events.errors import ClusterError
from events.normalize import JsonObject
from simulator.api_server.access_control import User
from simulator.api_server.faults import (
    Fault,
    FaultContext,
    FaultKind,
    Faults,
    ScriptedFaults,
    SeededFaults,
)
from simulator.manifest_fields import section
from simulator.scenario import parse_scenario
from tests.simulator.api_server.builders import PODS, binding, pod

ALL_PODS = "/api/v1/pods"
NODE = "cluster: [{kind: Node, metadata: {name: n1}, status: {allocatable: {pods: 9}}}]\n"


@asynccontextmanager
async def served(
    faults: Faults | None = None, text: str = NODE
) -> AsyncIterator[tuple[Server, aiohttp.ClientSession]]:
    """A server and a client that waits for nothing longer than a few seconds."""
    scenario = parse_scenario("scenario: a test\n" + text, "test.yaml")
    async with (
        running_server(scenario, faults=faults) as server,
        aiohttp.ClientSession(server.url, timeout=aiohttp.ClientTimeout(total=5)) as client,
    ):
        yield server, client


async def made(client: aiohttp.ClientSession, name: str) -> JsonObject:
    async with client.post(PODS, json=pod(name)) as answer:
        assert answer.status == 201
        document: JsonObject = msgspec.json.decode(await answer.read())
        return document


async def test_a_watch_shows_what_others_do() -> None:
    async with served() as (server, client):
        since = str(server.api.versions.revision)
        query = {"watch": "1", "resourceVersion": since}
        async with client.get(ALL_PODS, params=query) as watching:
            await made(client, "a")
            async with client.post(PODS + "/a/binding", json=binding("a")) as answer:
                assert answer.status == 201
            shown = [msgspec.json.decode(await watching.content.readline()) for _ in range(3)]
    assert [one["type"] for one in shown] == ["ADDED", "MODIFIED", "MODIFIED"]
    assert [one["object"]["status"]["phase"] for one in shown] == ["Pending", "Pending", "Running"]


async def test_a_watch_ends_when_its_time_is_over() -> None:
    """K3.6: the query names `timeoutSeconds`."""
    async with served() as (_, client):
        query = {"watch": "1", "timeoutSeconds": "1", "allowWatchBookmarks": "true"}
        async with client.get("/api/v1/nodes", params=query) as watching:
            lines = (await watching.read()).splitlines()
    assert [msgspec.json.decode(line)["type"] for line in lines] == ["ADDED", "BOOKMARK"]


async def test_scheduled_steps_run_without_a_request() -> None:
    text = NODE + "steps: [{at: 50ms, apply: [{kind: Pod, metadata: {name: late}}]}]\n"
    async with served(text=text) as (server, client):
        query = {"watch": "1", "resourceVersion": str(server.api.versions.revision)}
        async with client.get(ALL_PODS, params=query) as watching:
            line = msgspec.json.decode(await watching.content.readline())
    assert line["object"]["metadata"]["name"] == "late"


async def test_tokens_are_read_from_the_header() -> None:
    async with served() as (server, client):
        server.access.tokens["good"] = User("muster")
        for token, status in (("good", 200), ("bad", 401)):
            headers = {"Authorization": f"Bearer {token}"}
            async with client.get(ALL_PODS, headers=headers) as answer:
                assert answer.status == status


async def test_a_server_that_goes_down_breaks_watches_and_comes_back_with_everything() -> None:
    async with served() as (server, client):
        await made(client, "a")
        async with client.get(ALL_PODS, params={"watch": "1"}) as watching:
            await watching.content.readline()
            await server.go_down()
            with pytest.raises(aiohttp.ClientError):
                await watching.content.readline()
        with pytest.raises(aiohttp.ClientError):
            await client.get(ALL_PODS)
        await server.go_up()
        async with client.get(PODS + "/a") as answer:
            assert answer.status == 200


async def test_a_restarted_server_is_another_cluster() -> None:
    """K1.1, K3.7: its uids are new, and a revision of the one before is too old."""
    async with served() as (server, client):
        first = await made(client, "a")
        before = str(server.api.versions.revision)
    async with served() as (_, client):
        second = await made(client, "a")
        query = {"watch": "1", "resourceVersion": before}
        async with client.get(ALL_PODS, params=query) as watching:
            line = msgspec.json.decode(await watching.content.readline())
    assert (line["type"], line["object"]["code"]) == ("ERROR", 410)
    assert section(first, "metadata")["uid"] != section(second, "metadata")["uid"]


async def test_a_port_that_is_taken_is_an_error_with_its_name() -> None:
    scenario = parse_scenario("scenario: a test\n", "test.yaml")
    async with running_server(scenario) as server:
        with pytest.raises(ClusterError, match=f"cannot listen on 127.0.0.1:{server.port}"):
            async with running_server(scenario, listening=Listening(port=server.port)):
                pass


async def test_a_kubeconfig_leads_to_the_server(tmp_path: Path) -> None:
    async with served() as (server, _):
        written = msgspec.json.decode(server.kubeconfig(tmp_path / "config", "secret").read_bytes())
        assert written["clusters"][0]["cluster"] == {"server": server.url}
        assert written["users"][0]["user"] == {"token": "secret"}


@pytest.mark.parametrize(
    ("kind", "status", "body"),
    [
        (FaultKind.THROTTLE, 429, b"Status"),
        (FaultKind.THROTTLE_LATER, 429, b"retryAfterSeconds"),
        (FaultKind.CONFLICT, 409, b"Conflict"),
        (FaultKind.FAIL, 500, b"InternalError"),
        (FaultKind.FAIL_TEXT, 500, b"Internal Server Error\n"),
    ],
)
async def test_some_faults_refuse_and_do_nothing(kind: FaultKind, status: int, body: bytes) -> None:
    """409, 429 with and without Retry-After, 500 as JSON and as text."""
    faults = ScriptedFaults()
    async with served(faults) as (server, client):
        faults.add(Fault(kind, 3), "create", "pods")
        async with client.post(PODS, json=pod("a")) as answer:
            assert answer.status == status
            assert body in await answer.read()
            assert (answer.headers.get("Retry-After") == "3") is (kind is FaultKind.THROTTLE_LATER)
        assert server.api.simulated.find("Pod", "default", "a") is None
        assert [one.fault for one in server.shell.journal.entries] == [kind.value]


@pytest.mark.parametrize(
    ("kind", "is_done"),
    [(FaultKind.DROP, False), (FaultKind.LOSE, True), (FaultKind.CUT, True)],
)
async def test_some_faults_break_the_connection(kind: FaultKind, is_done: bool) -> None:
    """Drop before and after commit, lost reply, cut line."""
    faults = ScriptedFaults()
    async with served(faults) as (server, client):
        faults.add(Fault(kind), "create", "pods")
        with pytest.raises(aiohttp.ClientError):
            async with client.post(PODS, json=pod("a")) as answer:
                await answer.read()
        assert (server.api.simulated.find("Pod", "default", "a") is not None) is is_done


@pytest.mark.parametrize(
    ("kind", "status", "size"),
    [(FaultKind.FAIL_AFTER, 500, 100), (FaultKind.EMPTY, 201, 0), (FaultKind.TWICE, 409, 100)],
)
async def test_some_faults_do_it_and_say_something_else(
    kind: FaultKind, status: int, size: int
) -> None:
    """It was done though the answer says otherwise; a request that arrives twice."""
    faults = ScriptedFaults()
    async with served(faults) as (server, client):
        faults.add(Fault(kind), "create", "pods")
        async with client.post(PODS, json=pod("a")) as answer:
            assert answer.status == status
            assert len(await answer.read()) >= size
        assert server.api.simulated.find("Pod", "default", "a") is not None


async def test_a_struck_watch_ends_in_the_middle_of_a_line() -> None:
    """K3.2: a last line without newline is not an event."""
    faults = ScriptedFaults()
    async with served(faults) as (_, client):
        await made(client, "a")
        await made(client, "b")
        faults.add(Fault(FaultKind.CUT, 1), "watch", "pods")
        async with client.get(ALL_PODS, params={"watch": "1"}) as watching:
            whole = await watching.content.readline()
            half = await watching.content.readany()
            with pytest.raises(aiohttp.ClientError):
                await watching.content.readany()
        assert msgspec.json.decode(whole)["type"] == "ADDED"
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(half)


async def test_a_struck_watch_can_fall_silent() -> None:
    """K3.12: half a line, and then neither events nor an end."""
    faults = ScriptedFaults()
    async with served(faults) as (_, client):
        await made(client, "a")
        faults.add(Fault(FaultKind.STALL), "watch", "pods")
        timeout = aiohttp.ClientTimeout(sock_read=0.3)
        with pytest.raises(aiohttp.SocketTimeoutError):
            async with client.get(ALL_PODS, params={"watch": "1"}, timeout=timeout) as watching:
                await watching.read()


async def test_a_struck_watch_can_expire_in_both_shapes() -> None:
    """K3.7: 410 as HTTP status and as an `ERROR` event."""
    faults = ScriptedFaults()
    async with served(faults) as (_, client):
        faults.add(Fault(FaultKind.GONE), "watch", "pods")
        faults.add(Fault(FaultKind.GONE_EVENT), "watch", "pods")
        async with client.get(ALL_PODS, params={"watch": "1"}) as watching:
            assert watching.status == 410
        async with client.get(ALL_PODS, params={"watch": "1"}) as watching:
            (line,) = (await watching.read()).splitlines()
    error = msgspec.json.decode(line)
    assert (watching.status, error["type"], error["object"]["code"]) == (200, "ERROR", 410)


async def test_the_journal_knows_the_busiest_minute() -> None:
    """K3.11: not more than 60 requests per watch over any minute."""
    async with served() as (server, client):
        for _ in range(3):
            async with client.get(ALL_PODS) as answer:
                await answer.read()
        async with client.get(PODS + "/nope") as answer:
            assert answer.status == 404
        journal = server.shell.journal
        assert journal.busiest_minute("pods") == 3
        assert journal.watched() == ("pods",)
        assert [one.status for one in journal.entries] == [200, 200, 200, 404]
        journal.note_watching("pods", 59.0)
        journal.note_watching("pods", 70.0)
        assert journal.busiest_minute("pods") == 4


async def test_the_same_seed_strikes_the_same_requests() -> None:
    """Seeded faults, same seed, same bytes."""

    async def run(seed: int) -> list[tuple[str, int]]:
        async with served(SeededFaults(seed, 400, (FaultKind.FAIL, FaultKind.THROTTLE))) as (
            server,
            client,
        ):
            for _ in range(40):
                async with client.get(ALL_PODS) as answer:
                    await answer.read()
            return [(one.fault, one.status) for one in server.shell.journal.entries]

    first, again, other = await run(1), await run(1), await run(2)
    assert first == again != other
    assert {"fail", "throttle", ""} == {fault for fault, _ in first}


class Leaps:
    """A clock that moves only when set."""

    def __init__(self) -> None:
        self.at_ns = 0

    def elapsed_ns(self) -> int:
        return self.at_ns


async def test_time_is_what_the_clock_says() -> None:
    clock = Leaps()
    scenario = parse_scenario("scenario: a test\n" + NODE, "test.yaml")
    async with (
        running_server(scenario, clock=clock) as server,
        aiohttp.ClientSession(server.url, timeout=aiohttp.ClientTimeout(total=5)) as client,
    ):
        query = {"watch": "1", "timeoutSeconds": "3000"}
        async with client.get("/api/v1/nodes", params=query) as watching:
            await watching.content.readline()
            clock.at_ns = 3_000_000_000_000
            server.shell.wake()
            assert await watching.read() == b""


async def test_every_watch_of_a_storm_breaks_some_time() -> None:
    """Drop, cut line, 410 while a watch is under way."""
    faults = SeededFaults(
        1, 0, (FaultKind.LOSE, FaultKind.CUT, FaultKind.GONE_EVENT), watch_events=5
    )
    kinds = {faults.pick(FaultContext(index, "watch", "pods")) for index in range(200)}
    assert {one.kind for one in kinds if one} == {
        FaultKind.LOSE,
        FaultKind.CUT,
        FaultKind.GONE_EVENT,
    }
    assert {one.amount for one in kinds if one} == set(range(5))
    assert faults.pick(FaultContext(1, "list", "pods")) is None
    async with served(faults) as (_, client):
        for name in "abcdef":
            await made(client, name)
        for _ in range(5):
            with pytest.raises(aiohttp.ClientError):
                await _read_to_its_end(client)


async def _read_to_its_end(client: aiohttp.ClientSession) -> None:
    """Broken off; a watch that expired in order is opened once more."""
    while True:
        async with client.get(ALL_PODS, params={"watch": "1"}) as watching:
            assert b'"ERROR"' in await watching.read()


async def test_a_thousand_pods_are_shown_to_many_watchers_in_order() -> None:
    async with served() as (server, client):
        since = str(server.api.versions.revision)

        async def follow() -> list[str]:
            query = {"watch": "1", "resourceVersion": since}
            async with client.get(ALL_PODS, params=query) as watching:
                lines = [await watching.content.readline() for _ in range(1000)]
            return [
                str(section(msgspec.json.decode(one), "object", "metadata")["name"])
                for one in lines
            ]

        async def make(numbers: range) -> None:
            for index in numbers:
                await made(client, f"p{index}")

        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(follow()) for _ in range(5)]
            for first in range(10):
                group.create_task(make(range(first, 1000, 10)))
        seen = [task.result() for task in watchers]
    assert len(set(seen[0])) == 1000
    assert all(one == seen[0] for one in seen)
