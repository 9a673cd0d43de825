"""The queue of Events: bounded, apart, and giving up in time (rules K11.2, K11.3)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from daemon.cluster.acting import recorder as module
from daemon.cluster.acting.k8s_events import EventNotice, Regarding
from daemon.cluster.acting.recorder import TRIES_MAX, Recorder
from daemon.cluster.client.errors import (
    AlreadyExistsError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    ThrottledError,
    UnansweredError,
)
from engine.batch import Batch
from events.chain import Draft, seal
from events.codec import encode
from events.outcome import PodBound
from events.record import GENESIS, Record
from tests.daemon.cluster.acting.builders import cluster
from tests.daemon.cluster.acting.scripted import Scripted, Time, pacing, said

CREATE, PATCH = "create events", "patch events"

GONE = said(NotFoundError, 404, "NotFound", "no such event")
EXISTS = said(AlreadyExistsError, 409, "AlreadyExists", "")
LOST = UnansweredError("create events: the connection was lost")
BROKEN = said(ServerError, 500, "InternalError")


class Given:
    """A recorder, what it asked, and the time that it waited."""

    def __init__(self, client: Scripted) -> None:
        self.client = client
        self.time = Time()
        self.now_ns = 1_763_712_900_000_042_000
        self.recorder = Recorder(client, pacing(self.time), lambda: self.now_ns, "host-1")


@asynccontextmanager
async def running(*answers: bytes | Exception, repeats: bool = False) -> AsyncIterator[Given]:
    given = Given(Scripted(*answers, repeats=repeats))  # type: ignore[arg-type]  # of the cluster's
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(given.recorder.run())
        yield given
        assert await given.recorder.drained(5.0)
        task.cancel()


def notice(name: str = "a", action: str = "Binding") -> EventNotice:
    return EventNotice(
        Regarding("Pod", name, f"u-{name}", "default"), "Normal", "Scheduled", action, "m"
    )


def record(event: PodBound) -> Record:
    draft = Draft(
        position=1,
        batch=1,
        epoch=1,
        recorded_at_ns=0,
        cycle=None,
        cause=None,
        kind=event.kind,
        subject="Pod/default/a-0",
        body=encode(event),
        object=None,
    )
    return seal(GENESIS.digest, draft)


async def test_a_durable_record_becomes_an_event() -> None:
    async with running(b"{}") as given:
        bound = PodBound(pod="default/a-0", uid="uid-a-0", node="n1")
        given.recorder.observe(Batch(before=GENESIS, records=[record(bound)]), cluster())
    (asked,) = given.client.asked
    assert (asked.what, asked.name, asked.namespace) == (CREATE, "", "default")
    assert asked.document["reason"] == "Scheduled"
    assert asked.document["reportingInstance"] == "host-1"
    assert given.recorder.written == 1


async def test_an_event_series_is_patched_and_recreated_when_its_event_is_gone_k11_2() -> None:
    async with running(b"{}", b"{}", GONE, b"{}", b"{}") as given:
        given.recorder.note([notice()] * 4)
    asked = given.client.asked
    assert [one.what for one in asked] == [CREATE, PATCH, PATCH, CREATE, PATCH]
    names = [one.name for one in asked if one.what == PATCH]
    assert names[0] == names[1]
    assert names[2] != names[0]
    assert asked[1].content_type == "application/merge-patch+json"
    assert b'"count":2' in asked[1].body
    assert b'"count":2' in asked[4].body
    assert given.recorder.written == 4


async def test_an_event_is_tried_twelve_times_and_then_dropped_k11_3() -> None:
    async with running(BROKEN, repeats=True) as given:
        given.recorder.note([notice()])
    assert len(given.client.asked) == TRIES_MAX == 12
    assert (given.recorder.written, given.recorder.dropped) == (0, 1)


async def test_what_the_server_forbids_is_dropped_at_once() -> None:
    async with running(said(ForbiddenError, 403, "Forbidden"), b"{}") as given:
        given.recorder.note([notice("a"), notice("b")])
    assert given.client.whats == [CREATE, CREATE]
    assert (given.recorder.written, given.recorder.dropped) == (1, 1)


async def test_an_event_whose_answer_was_lost_is_not_made_twice() -> None:
    async with running(LOST, EXISTS) as given:
        given.recorder.note([notice()])
    names = [one.document["metadata"] for one in given.client.asked]
    assert names[0] == names[1]
    assert given.recorder.written == 1


async def test_a_name_that_another_has_is_left_to_it_k11_1() -> None:
    async with running(EXISTS, b"{}") as given:
        given.recorder.note([notice()])
    names = [one.document["metadata"] for one in given.client.asked]
    assert names[0] != names[1]
    assert given.recorder.written == 1


async def test_throttling_is_waited_for() -> None:
    async with running(said(ThrottledError, 429, retry_after_seconds=4.0), b"{}") as given:
        given.recorder.note([notice()])
    assert max(given.time.slept) >= 4.0


async def test_a_full_queue_drops_and_counts_and_never_waits_k11_3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 3)
    given = Given(Scripted(b"{}", repeats=True))
    given.recorder.note(notice(str(one)) for one in range(10))
    assert given.recorder.dropped == 7
    assert not await given.recorder.drained(0.01)


async def test_what_a_budget_does_not_allow_is_not_asked_k11_3() -> None:
    async with running(b"{}", repeats=True) as given:
        given.recorder.note([notice()] * 40)
    assert len(given.client.asked) == 25


async def test_events_are_written_no_faster_than_a_server_should_have_to_take_them() -> None:
    async with running(b"{}", repeats=True) as given:
        given.recorder.note(notice(str(one)) for one in range(600))
    assert given.recorder.written == 600
    assert sum(given.time.slept) == pytest.approx((600 - 100) / 50, rel=0.01)


def crowd(count: int, namespace: str = "crowd") -> list[EventNotice]:
    """Notices about many pods of one namespace."""
    return [
        EventNotice(
            Regarding("Pod", f"p{index}", f"{namespace}-{index}", namespace),
            *("Normal", "Scheduled", "Binding", "m"),
        )
        for index in range(count)
    ]


async def test_namespaces_take_turns_and_the_newest_comes_first_while_many_wait() -> None:
    async with running(b"{}", repeats=True) as given:
        given.recorder.note([*crowd(130), *crowd(2, "few")])
    written = [one.body.decode() for one in given.client.asked]
    first = ["crowd-129", "few-0", "crowd-128", "few-1", "crowd-127"]
    assert all(uid in body for uid, body in zip(first, written, strict=False))
    assert "crowd-0" in written[-100]
    assert len(written) == 132


async def test_events_of_pods_that_are_gone_are_dropped_while_many_wait() -> None:
    async with running(b"{}", repeats=True) as given:
        given.recorder.observe(Batch(before=GENESIS, records=[]), cluster())
        given.recorder.note(crowd(130))
    assert given.recorder.dropped == 30
    assert given.recorder.written == 100


async def test_if_too_many_wait_the_oldest_of_the_longest_queue_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 5)
    async with running(b"{}", repeats=True) as given:
        given.recorder.note([*crowd(2, "few"), *crowd(9)])
    written = [one.body.decode() for one in given.client.asked]
    assert given.recorder.dropped == 6
    assert sum("few-" in body for body in written) == 2
