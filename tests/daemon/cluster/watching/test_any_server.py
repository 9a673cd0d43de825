"""Whatever the server does: nothing is lost, nothing comes twice, and it is not asked too often."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.cluster.client.errors import (
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)
from events.errors import ClusterError
from projections.api_resource import Resource
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from tests.daemon.cluster.watching.api import Api, line, lost, status
from tests.daemon.cluster.watching.builders import Daemon, running
from tests.daemon.cluster.watching.virtual import virtual

SETTLED_SECONDS: Final = 1600
"""Longer than a watch may be open (600), silent (30) and backed off from (120), twice."""

ANSWERS: Final[dict[str, ClusterError | bytes]] = {
    "500": ServerError("asked", 500),
    "504": ServerError("asked", 504, "Timeout"),
    "429": ThrottledError("asked", 429),
    "429 with Retry-After": ThrottledError("asked", 429, "", "", (), 7.0),
    "503 for ever": ServerError("asked", 503, "", "", (), 1e9),
    "410": ExpiredError("asked", 410),
    "401": UnauthorizedError("asked", 401),
    "403": ForbiddenError("asked", 403),
    "404": NotFoundError("asked", 404),
    "away": UnreachableError("connection refused"),
    "lost": lost(),
    "plain text": b"upstream connect error",
    "a page without end": b'{"metadata":{"resourceVersion":"9","continue":"x"},"items":[]}',
    "nothing": b"",
}

SENT: Final[dict[str, bytes | ClusterError | None]] = {
    "end": None,
    "cut": lost(),
    "410": line("ERROR", status(410, "Expired")),
    "500": line("ERROR", status(500, "InternalError")),
    "plain text": b"502 Bad Gateway\n",
    "half a line": b'{"type":"ADDED","obj',
    "an empty line": b"\n",
    "no object": b'{"type":"ADDED","object":{}}\n',
}

KINDS: Final = (NODES, PODS)
NAMES: Final = st.sampled_from("abcdef")
WHICH: Final = st.sampled_from(KINDS)
STEPS: Final = st.one_of(
    st.tuples(st.just("put"), WHICH, NAMES),
    st.tuples(st.just("delete"), WHICH, NAMES),
    st.tuples(st.just("send"), WHICH, st.sampled_from(sorted(SENT))),
    st.tuples(st.just("answer"), WHICH, st.sampled_from(sorted(ANSWERS))),
    st.tuples(
        st.sampled_from(["mend", "compact", "again", "bookmark", "repeat", "hush"]),
        WHICH,
        st.just(""),
    ),
)
WAITS: Final = st.sampled_from([0.0, 0.0, 0.1, 1.0, 5.0, 30.0, 400.0])


class Trouble:
    """A server with which anything may happen."""

    def __init__(self, daemon: Daemon, api: Api) -> None:
        self.daemon = daemon
        self.api = api
        self.answers: dict[str, ClusterError | bytes] = {}
        api.spoil = self.spoil

    def spoil(self, what: str, query: Mapping[str, str]) -> ClusterError | bytes | None:
        """What is answered to everything about a kind."""
        return self.answers.get(what.rpartition(" ")[2])

    def step(self, what: str, resource: Resource, which: str) -> None:
        """Let something happen."""
        getattr(self, what)(resource, which)

    def put(self, resource: Resource, which: str) -> None:
        """Add an object, or change it."""
        self.api.put(which, resource)

    def delete(self, resource: Resource, which: str) -> None:
        """Take an object away, if it is there."""
        if which in self.api.objects[resource.name]:
            self.api.delete(which, resource)

    def send(self, resource: Resource, which: str) -> None:
        """Say something in an open watch, or end it."""
        self.api.send(resource, SENT[which])

    def answer(self, resource: Resource, which: str) -> None:
        """From now on this is the answer to everything about a kind."""
        self.answers[resource.plural] = ANSWERS[which]

    def mend(self, resource: Resource, which: str) -> None:
        """Everything is answered truly again."""
        self.answers.clear()

    def compact(self, resource: Resource, which: str) -> None:
        """All history is forgotten."""
        self.api.compact()

    def again(self, resource: Resource, which: str) -> None:
        """Restart the loop from its durable state."""
        self.daemon.again(dict(self.daemon.seen.progress))

    def bookmark(self, resource: Resource, which: str) -> None:
        """The server tells how far it is."""
        self.api.bookmark(resource)

    def repeat(self, resource: Resource, which: str) -> None:
        """The server shows its latest events once more."""
        for _, name, kind, obj in self.api.history[-5:]:
            if name == resource.name:
                self.api.send(resource, line(kind, obj))

    def hush(self, resource: Resource, which: str) -> None:
        """A watch that stays open, and through which nothing comes any more."""
        for stream in [one for one in self.api.streams if one.resource == resource]:
            stream.keeps_open = True
            self.api.streams.remove(stream)


def not_too_often(api: Api, *, with_pages: bool = False) -> None:
    """K3.11: over any minute not more than 60 requests a watch, whatever the server does.

    The further pages of a list that comes to its end are not counted.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for at, what, query in api.asked:
        if with_pages or "continue" not in query:
            times[what.rpartition(" ")[2]].append(at)
    for what, asked in times.items():
        pairs = zip(asked, asked[60:], strict=False)
        assert all(later - at > 60 for at, later in pairs), what


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(STEPS, WAITS), max_size=25),
    chances=st.lists(st.floats(0, 0.999), min_size=1, max_size=5),
    streams_lists=st.booleans(),
)
def test_what_was_handed_over_equals_what_the_server_has(
    steps: list[tuple[tuple[str, Resource, str], float]],
    chances: list[float],
    streams_lists: bool,
) -> None:
    """K2 to K4, K3.11, K3.14: the follower also refuses what comes twice and lists that come in pieces."""

    async def story() -> None:
        api = Api(KINDS)
        api.page = 2
        turn = count()

        def jitter() -> float:
            return chances[next(turn) % len(chances)]

        async with running(
            api, jitter=jitter, resources=KINDS, streams_lists=streams_lists
        ) as daemon:
            trouble = Trouble(daemon, api)
            for step, wait in steps:
                trouble.step(*step)
                await asyncio.sleep(wait)
            trouble.answers.clear()
            await asyncio.sleep(SETTLED_SECONDS)
            for kind in ("Node", "Pod"):
                there = {
                    one["metadata"]["uid"]: (name, one["metadata"]["resourceVersion"])
                    for name, one in api.objects[kind].items()
                }
                assert daemon.seen.objects[kind] == there
            assert {one.state for one in daemon.watches.health()} == {"watching"}
            not_too_often(api)

    virtual(story())


def test_a_server_that_answers_every_request_at_once_in_a_useless_way_is_not_hammered() -> None:
    """K3.11, for each way of being useless, and with the least patient of chances."""

    async def story() -> None:
        for answer in ANSWERS.values():
            api = Api(KINDS)
            async with running(api, resources=KINDS, jitter=lambda: 0.0) as daemon:
                Trouble(daemon, api).answers.update(dict.fromkeys(("nodes", "pods"), answer))
                for kind in KINDS:
                    api.send(kind, None)
                await asyncio.sleep(300)
                not_too_often(api, with_pages=True)

    virtual(story())
