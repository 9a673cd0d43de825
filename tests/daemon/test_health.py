"""Ready, and why not; live, and what stands still."""

import pytest

from daemon.health import LOOP_SECONDS, Health


class Stopwatch:
    """Time that a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def elapsed_ns(self) -> int:
        """As a clock has it."""
        return round(self.seconds * 1_000_000_000)


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def health(stopwatch: Stopwatch) -> Health:
    return Health(stopwatch.elapsed_ns)


def test_a_daemon_that_has_only_begun_is_not_ready(health: Health) -> None:
    assert not health.is_ready
    assert not health.has_begun
    health.clear("start")
    assert health.is_ready
    assert health.has_begun


def test_reasons_are_kept_by_name_until_resolved(health: Health) -> None:
    health.clear("start")
    health.set("watch/Pod", "forbidden: watch pods")
    health.set("log", "disk full")
    health.set("log", "disk still full")
    assert list(health.reasons.items()) == [
        ("log", "disk still full"),
        ("watch/Pod", "forbidden: watch pods"),
    ]
    health.clear("watch/Pod")
    health.clear("watch/Node")
    assert not health.is_ready
    health.clear("log")
    assert health.is_ready


def test_a_reason_that_the_manual_does_not_explain_is_a_bug(health: Health) -> None:
    with pytest.raises(AssertionError, match="weather"):
        health.set("weather/Pod", "rain")


def test_what_stopped_moving_is_named_once_its_bound_is_over(
    health: Health, stopwatch: Stopwatch
) -> None:
    health.beat()
    health.beat("watch/Pod", within_seconds=660)
    stopwatch.seconds = LOOP_SECONDS
    assert health.is_live
    stopwatch.seconds = LOOP_SECONDS + 1
    assert health.still == {"loop": LOOP_SECONDS + 1}
    health.beat()
    assert health.is_live
    stopwatch.seconds += 2000
    assert list(health.still) == ["loop", "watch/Pod"]


def test_an_idle_or_unstarted_task_is_not_reported_as_stuck(
    health: Health, stopwatch: Stopwatch
) -> None:
    assert health.is_live
    health.beat("watch/Pod", within_seconds=1)
    health.rest("watch/Pod")
    health.rest("watch/Node")
    stopwatch.seconds = 3600
    assert health.is_live


def test_what_takes_long_may_say_so_beforehand(health: Health, stopwatch: Stopwatch) -> None:
    health.beat(within_seconds=600)
    stopwatch.seconds = 599
    assert health.is_live
    health.beat()
    stopwatch.seconds = 599 + LOOP_SECONDS + 1
    assert not health.is_live


def test_not_being_ready_is_no_reason_to_be_killed(health: Health) -> None:
    health.set("api", "cannot be reached")
    health.beat()
    assert not health.is_ready
    assert health.is_live


def test_a_warning_about_one_thing_does_not_make_the_daemon_unready(health: Health) -> None:
    health.clear("start")
    health.set("reports/NodeInfo", "1 of 2 not updated for 700 s: n1")
    assert health.is_ready
    assert health.reasons == {"reports/NodeInfo": "1 of 2 not updated for 700 s: n1"}
    health.set("watch/Pod", "cannot be watched")
    assert health.blocking == {"watch/Pod": "cannot be watched"}
