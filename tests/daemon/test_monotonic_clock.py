"""Time for the loop never runs backwards, whatever happens to the clock on the wall."""

import asyncio

from daemon.monotonic_clock import FOLLOWED_NS, MonotonicClock, SteppedTime

SECOND = 1_000_000_000
MONTH = 30 * 24 * 3600 * SECOND


class Wall:
    """A clock that is set by the test."""

    is_over = False

    def __init__(self) -> None:
        self.now, self.elapsed = 1000, 5
        self.waited: list[int | None] = []

    def now_ns(self) -> int:
        return self.now

    def elapsed_ns(self) -> int:
        return self.elapsed

    def passes(self, ns: int, *, set_by: int = 0) -> None:
        """Time passes, and the clock is set besides."""
        self.elapsed += ns
        self.now += ns + set_by

    async def settle(self) -> None:
        return

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        self.waited.append(until_ns)


def test_the_clock_follows_the_wall_clock_while_that_is_not_adjusted() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    assert steady.now_ns() == 1000
    wall.passes(7)
    assert steady.now_ns() == 1007


def test_a_clock_set_back_goes_on_half_as_fast_until_the_wall_is_there() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    steady.now_ns()
    wall.passes(10, set_by=-500)
    assert (steady.now_ns(), steady.ahead_ns) == (1005, 495)
    wall.passes(900)
    assert (steady.now_ns(), steady.ahead_ns) == (1455, 45)
    wall.passes(200)
    assert (steady.now_ns(), steady.ahead_ns) == (1610, 0)


def test_a_clock_set_forward_within_the_bound_is_followed_at_once() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    steady.now_ns()
    wall.passes(10, set_by=FOLLOWED_NS)
    assert steady.now_ns() == 1010 + FOLLOWED_NS
    assert not steady.is_off


def test_a_clock_set_30_days_forward_and_back_moves_the_log_by_what_passed_meanwhile() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    began = steady.now_ns()
    wall.passes(0, set_by=MONTH)
    steady.now_ns()
    for _ in range(60):
        wall.passes(SECOND)
        steady.now_ns()
    assert steady.now_ns() - began == 120 * SECOND
    assert steady.is_off
    wall.passes(0, set_by=-MONTH)
    assert steady.now_ns() - began == 120 * SECOND
    assert not steady.is_off
    before = steady.now_ns()
    for _ in range(120):
        wall.passes(SECOND)
        assert before <= steady.now_ns()
        before = steady.now_ns()
    assert steady.ahead_ns == 0


def test_a_log_that_is_30_days_ahead_is_not_ahead_for_ever() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    steady.not_before(wall.now + MONTH)
    assert steady.is_off
    days = 0
    while steady.ahead_ns:
        wall.passes(MONTH // 30)
        steady.now_ns()
        days += 1
    assert days == 60


async def test_a_wait_is_as_long_as_time_needs_at_its_pace() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    steady.now_ns()
    wall.passes(0, set_by=-500)
    await steady.wait(1030, asyncio.Event(), 20)
    await steady.wait(None, asyncio.Event(), 20)
    wall.passes(0, set_by=500 + 2 * FOLLOWED_NS)
    await steady.wait(1030, asyncio.Event(), 20)
    assert wall.waited == [500 + 60, None, wall.now + 15]


def test_a_clock_behind_the_log_continues_from_the_log() -> None:
    wall = Wall()
    steady = MonotonicClock(wall)
    steady.not_before(4000)
    assert (steady.now_ns(), steady.ahead_ns) == (4000, 3000)
    wall.passes(10)
    assert steady.now_ns() == 4005
    steady.not_before(3000)
    assert steady.now_ns() == 4005


def test_a_stepped_clock_is_passed_on() -> None:
    wall = Wall()
    steady = SteppedTime(wall)
    steady.not_before(4000)
    assert steady.now_ns() == 1000
    wall.passes(10, set_by=-500)
    assert steady.now_ns() == 510
