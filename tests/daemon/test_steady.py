"""Time for the loop never runs backwards, whatever happens to the clock on the wall."""

import asyncio

from daemon.steady import SteadyClock


class Wall:
    """A clock that is set by the test."""

    is_stepped = False
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


def test_time_is_that_of_the_wall_as_long_as_nobody_sets_it() -> None:
    wall = Wall()
    steady = SteadyClock(wall)
    assert steady.now_ns() == 1000
    wall.passes(7)
    assert steady.now_ns() == 1007


def test_a_clock_set_back_goes_on_from_where_it_was_at_the_pace_of_elapsed_time() -> None:
    wall = Wall()
    steady = SteadyClock(wall)
    steady.now_ns()
    wall.passes(10, set_by=-500)
    assert steady.now_ns() == 1010
    wall.passes(10)
    assert steady.now_ns() == 1020


def test_a_clock_set_forward_is_followed() -> None:
    wall = Wall()
    steady = SteadyClock(wall)
    steady.now_ns()
    wall.passes(10, set_by=500)
    assert steady.now_ns() == 1510
    wall.passes(10, set_by=-500)
    assert steady.now_ns() == 1520


async def test_a_wait_is_as_long_as_before_the_clock_was_set_back() -> None:
    wall = Wall()
    steady = SteadyClock(wall)
    steady.now_ns()
    wall.passes(0, set_by=-500)
    await steady.wait(1030, asyncio.Event(), 20)
    await steady.wait(None, asyncio.Event(), 20)
    assert wall.waited == [530, None]


def test_whoever_begins_behind_the_log_goes_on_from_the_log() -> None:
    wall = Wall()
    steady = SteadyClock(wall)
    steady.not_before(4000)
    assert steady.now_ns() == 4000
    wall.passes(10)
    assert steady.now_ns() == 4010
    steady.not_before(3000)
    assert steady.now_ns() == 4010


def test_a_stepped_clock_is_passed_on() -> None:
    wall = Wall()
    wall.is_stepped = True
    steady = SteadyClock(wall)
    steady.not_before(4000)
    assert steady.now_ns() == 1000
    wall.passes(10, set_by=-500)
    assert steady.now_ns() == 510
