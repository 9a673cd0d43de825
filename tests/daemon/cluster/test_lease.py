"""The Lease as the API server has it: what is written, with which times, over which version."""

import re

import msgspec
import pytest
from msgspec.structs import replace

from daemon.cluster.client.calls import CREATE_LEASE, GET_LEASE, UPDATE_LEASE, Call
from daemon.cluster.client.errors import AlreadyExistsError, ConflictError, NotFoundError
from daemon.cluster.lease import ApiLease, Lease, micro_time
from events.errors import ClusterError

MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
AT_NS = 1_700_000_000_123_456_789


class Server:
    """An API server that knows one Lease, and keeps what it does not understand."""

    def __init__(self) -> None:
        self.document: dict[str, dict[str, object]] | None = None
        self.asked: list[tuple[Call, str, str]] = []
        self.bodies: list[dict[str, dict[str, object]]] = []
        self.answer: bytes | None = None
        """What it answers whatever it is asked."""
        self._version = 0

    async def request(
        self,
        call: Call,
        *,
        name: str = "",
        namespace: str = "",
        body: bytes | None = None,
        deadline_seconds: float = 30.0,
    ) -> bytes:
        self.asked.append((call, namespace, name))
        if self.answer is not None:
            return self.answer
        if body is not None:
            self._write(call, msgspec.json.decode(body))
        if self.document is None:
            raise NotFoundError(call.what, 404, "NotFound")
        return msgspec.json.encode(self.document)

    def _write(self, call: Call, body: dict[str, dict[str, object]]) -> None:
        self.bodies.append(body)
        if call.verb == "create" and self.document is not None:
            raise AlreadyExistsError(call.what, 409, "AlreadyExists")
        if call.verb == "update":
            assert self.document is not None
            if body["metadata"]["resourceVersion"] != self.document["metadata"]["resourceVersion"]:
                raise ConflictError(call.what, 409, "Conflict")
        self._version += 1
        self.document = body
        self.document["metadata"]["resourceVersion"] = str(self._version)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def lease(server: Server) -> ApiLease:
    return ApiLease(server, "muster-system", "muster")


def held(by: str) -> Lease:
    at = micro_time(AT_NS)
    return Lease(holder=by, duration_seconds=15, acquired=at, renewed=at)


@pytest.mark.parametrize("at_ns", [AT_NS, 1_700_000_000_000_000_000, 1_700_000_000_000_000_999])
def test_times_are_utc_with_exactly_six_fractional_digits_k14_1(at_ns: int) -> None:
    assert MICRO.fullmatch(micro_time(at_ns))


def test_a_moment_is_written_in_utc() -> None:
    assert micro_time(AT_NS) == "2023-11-14T22:13:20.123456Z"


async def test_a_lease_that_is_not_there_is_none_and_can_be_made(
    server: Server, lease: ApiLease
) -> None:
    assert await lease.read() is None
    made = await lease.create(held("a"))
    assert (made.holder, made.duration_seconds, made.version) == ("a", 15, "1")
    assert server.asked == [
        (GET_LEASE, "muster-system", "muster"),
        (CREATE_LEASE, "muster-system", ""),
    ]
    (body,) = server.bodies
    assert msgspec.json.encode(body).startswith(
        b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",'
    )
    assert body["metadata"] == {
        "name": "muster",
        "namespace": "muster-system",
        "resourceVersion": "1",
    }
    assert body["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": micro_time(AT_NS),
        "renewTime": micro_time(AT_NS),
        "leaseTransitions": 0,
    }


async def test_a_lease_that_someone_else_has_made_is_not_made_again(lease: ApiLease) -> None:
    await lease.create(held("a"))
    with pytest.raises(AlreadyExistsError):
        await lease.create(held("b"))


async def test_a_write_expects_the_version_just_read_k14_3(server: Server, lease: ApiLease) -> None:
    made = await lease.create(held("a"))
    again = await lease.update(made)
    with pytest.raises(ConflictError):
        await lease.update(made)
    assert (await lease.update(again)).version == "3"
    assert server.asked[-1] == (UPDATE_LEASE, "muster-system", "muster")


async def test_a_write_keeps_what_others_wrote_k1_6(server: Server, lease: ApiLease) -> None:
    await lease.create(held("a"))
    assert server.document is not None
    server.document["metadata"]["labels"] = {"app": "muster"}
    server.document["spec"]["strategy"] = "OldestEmulationVersion"
    read = await lease.read()
    assert read is not None
    await lease.update(read)
    assert server.document["metadata"]["labels"] == {"app": "muster"}
    assert server.document["spec"]["strategy"] == "OldestEmulationVersion"


async def test_a_lease_without_fields_has_no_holder(server: Server, lease: ApiLease) -> None:
    server.answer = b'{"metadata":{"resourceVersion":"7"},"spec":{"holderIdentity":null}}'
    assert await lease.read() == Lease(version="7", document=server.answer)


async def test_a_time_that_is_not_known_is_null_and_not_an_empty_text(
    server: Server, lease: ApiLease
) -> None:
    """An empty text is no time: the server would not take it."""
    await lease.create(Lease(holder="a", duration_seconds=15))
    spec = server.bodies[0]["spec"]
    assert (spec["acquireTime"], spec["renewTime"]) == (None, None)


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b'{"metadata":{}}', b'{"metadata":1}', b'{"spec":{"x":1}}']
)
async def test_an_answer_that_is_no_lease_is_an_error_that_names_it(
    server: Server, lease: ApiLease, answer: bytes
) -> None:
    server.answer = answer
    with pytest.raises(ClusterError, match="Lease/muster-system/muster"):
        await lease.read()


async def test_a_lease_that_is_older_than_it_was_raises_a_doubt(server: Server) -> None:
    """Its server may have been set back to an older snapshot; one that was made again is newer."""
    doubts: list[str] = []
    lease = ApiLease(server, "muster-system", "muster", doubts.append)
    made = await lease.create(held("one"))
    renewed = await lease.update(made)
    assert server.document is not None
    await lease.read()
    assert doubts == []
    server.document["metadata"]["resourceVersion"] = made.version
    assert (await lease.read()) is not None
    assert doubts == [
        f"Lease/muster-system/muster is at revision {made.version}, and {renewed.version} was seen"
    ]
    await lease.read()
    assert len(doubts) == 1


async def test_the_end_of_the_log_is_an_annotation_beside_those_of_others(
    server: Server, lease: ApiLease
) -> None:
    await lease.create(held("a"))
    assert server.document is not None
    assert "annotations" not in server.document["metadata"]
    server.document["metadata"]["annotations"] = {"example.com/note": "kept"}
    read = await lease.read()
    assert read is not None
    assert (read.anchor, read.log) == ("", "")
    written = await lease.update(replace(read, anchor="7:ab", log="cd"))
    assert (written.anchor, written.log) == ("7:ab", "cd")
    assert server.document["metadata"]["annotations"] == {
        "example.com/note": "kept",
        "muster.sh/log": "cd",
        "muster.sh/log-anchor": "7:ab",
    }
    # A write that states nothing leaves them.
    again = await lease.update(written)
    assert (again.anchor, again.log) == ("7:ab", "cd")
