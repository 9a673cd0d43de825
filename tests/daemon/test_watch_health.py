"""What watches mean for readiness and for the watchdog, told by standings of the test's own."""

import pytest
from msgspec import Struct

from daemon.health import Health
from daemon.watch_health import PATIENCE_SECONDS, SILENCE_SECONDS, WatchHealthCheck


class Standing(Struct):
    """A watch in good order."""

    resource: str = "Pod"
    is_required: bool = True
    state: str = "watching"
    state_seconds: float = 1.0
    is_listed: bool = True
    requests: int = 2
    last_event_seconds: float | None = None
    reason: str = ""
    lag_seconds: float | None = None


class Watched:
    """Standings, a clock, and the health that asks."""

    def __init__(self) -> None:
        self.pods = Standing()
        self.standings = [self.pods, Standing("Deployment", is_required=False)]
        self.seconds = 0.0
        self.health = Health(self.elapsed_ns)
        self.health.clear("start")
        self.check = WatchHealthCheck(
            lambda: self.standings,
            self.elapsed_ns,
            lambda: self.health.stands("log"),
            "https://10.0.0.1",
        )

    def elapsed_ns(self) -> int:
        """As a clock has it."""
        return round(self.seconds * 1_000_000_000)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_forbidden_kind_names_the_missing_verb_by_rule_k3_9(watched: Watched) -> None:
    watched.pods.state, watched.pods.reason = "forbidden", "watch pods: 403 Forbidden"
    with watched.health.asking(watched.check):
        assert watched.health.reasons == {
            "watch/Pod": "forbidden for 1 s: watch pods: 403 Forbidden"
        }
    assert watched.health.is_ready


def test_a_short_absence_is_no_reason_and_a_long_one_is(watched: Watched) -> None:
    watched.pods.state, watched.pods.reason = "waiting", "connection refused"
    watched.pods.state_seconds = PATIENCE_SECONDS
    assert watched.check.reasons() == {}
    watched.pods.state_seconds = 31.4
    assert watched.check.reasons() == {"watch/Pod": "waiting for 31 s: connection refused"}


def test_nothing_is_ready_before_each_list_is_there_by_rule_k3_15(watched: Watched) -> None:
    watched.pods.is_listed = False
    watched.standings.append(Standing("Queue", is_required=False, is_listed=False))
    assert watched.check.reasons() == {"lists": "not listed yet: Pod, Queue"}
    watched.pods.state, watched.pods.reason = "waiting", "connection refused"
    assert watched.check.reasons() == {
        "lists": "not listed yet: Pod, Queue (https://10.0.0.1: connection refused)"
    }


def test_a_kind_that_is_not_needed_holds_nothing_up(watched: Watched) -> None:
    other = watched.standings[1]
    other.state, other.is_listed, other.state_seconds = "forbidden", False, 1000
    assert watched.check.reasons() == {}


def test_a_silent_watch_is_live_while_it_is_reopened(watched: Watched) -> None:
    with watched.health.asking(watched.check):
        for _ in range(20):
            assert watched.health.is_live
            watched.seconds += 630
            for one in watched.standings:
                one.requests += 1
        assert watched.health.is_live


def test_a_busy_watch_is_alive_without_a_new_request(watched: Watched) -> None:
    watched.standings = [watched.pods]
    watched.pods.last_event_seconds = 5
    assert watched.check.still() == {}
    watched.seconds = 5000
    assert watched.check.still() == {}


def test_a_watch_that_is_not_reopened_is_stalled_by_rule_k3_12(watched: Watched) -> None:
    with watched.health.asking(watched.check):
        assert watched.health.is_live
        watched.seconds = SILENCE_SECONDS + 1
        watched.pods.requests += 1
        assert watched.health.still == {"watch/Deployment": SILENCE_SECONDS + 1}
    assert watched.health.is_live, "a watch that ended need not progress"


def test_a_server_that_is_away_is_no_reason_to_be_killed(watched: Watched) -> None:
    for _ in range(100):
        watched.pods.state, watched.pods.state_seconds = "waiting", watched.seconds
        for one in watched.standings:
            one.requests += 1
        assert watched.check.still() == {}
        watched.seconds += 30


def test_watches_may_pause_while_the_log_accepts_no_records(watched: Watched) -> None:
    with watched.health.asking(watched.check):
        assert watched.health.is_live
        watched.health.set("log", "disk full")
        watched.seconds = 3600
        assert watched.health.is_live
        watched.health.clear("log")
        assert watched.health.is_live
        watched.seconds += SILENCE_SECONDS
        assert watched.health.is_live
        watched.seconds += 1
        assert list(watched.health.still) == ["watch/Deployment", "watch/Pod"]


def test_a_watch_that_is_a_minute_behind_is_said_and_the_daemon_stays_ready() -> None:
    watched = Watched()
    watched.pods.lag_seconds = 59.0
    assert watched.check.reasons() == {}
    watched.pods.lag_seconds = 75.4
    with watched.health.asking(watched.check):
        found = {"behind/Pod": "events come 75 s after the objects were written"}
        assert watched.health.reasons == found
        assert watched.health.is_ready
