"""Waiting before asking again (K3.11)."""

from hypothesis import given
from hypothesis import strategies as st

from daemon.cluster.client.backoff import (
    HEALTHY_SECONDS,
    LONGEST_SECONDS,
    Backoff,
    RequestBudget,
)


def test_waits_double_from_four_fifths_of_a_second_up_to_thirty() -> None:
    """K3.11: 0.8 s doubling to 30 s."""
    backoff = Backoff(lambda: 1.0)
    waits = [backoff.failed(0.0) for _ in range(8)]
    assert waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_a_wait_is_anything_from_nothing_to_all_of_it() -> None:
    """K3.11: full jitter."""
    chances = iter((0.0, 0.5, 0.25))
    backoff = Backoff(lambda: next(chances))
    assert [backoff.failed(0.0) for _ in range(3)] == [0.0, 0.8, 0.8]


def test_two_minutes_of_health_make_the_next_failure_the_first() -> None:
    """K3.11: reset after 2 min of health, which begin when the wait is over."""
    backoff = Backoff(lambda: 1.0)
    backoff.failed(0.0)
    assert backoff.failed(0.8 + HEALTHY_SECONDS - 0.1) == 1.6
    assert backoff.failed(200.0 + 1.6 + HEALTHY_SECONDS) == 0.8


def test_a_thousand_failures_wait_no_longer_than_the_longest() -> None:
    backoff = Backoff(lambda: 1.0)
    assert max(backoff.failed(0.0) for _ in range(1000)) == LONGEST_SECONDS


def test_reset_restarts_the_backoff() -> None:
    backoff = Backoff(lambda: 1.0)
    backoff.failed(0.0)
    backoff.reset()
    assert backoff.failed(0.0) == 0.8


@given(st.lists(st.floats(0.0, 5.0), min_size=200, max_size=400))
def test_no_server_behaviour_causes_more_than_sixty_requests_in_any_minute(
    pauses: list[float],
) -> None:
    """K3.11: a client that waits as long as the budget says never sends more than one request a second."""
    budget, now = RequestBudget(), 0.0
    asked: list[float] = []
    for pause in pauses:
        now += pause * (pause > 4.0)
        now += budget.wait_seconds(now)
        budget.spend(now)
        asked.append(now)
    # Two more a minute are what the client may repeat after a 401.
    assert all(later - first > 60.0 for first, later in zip(asked, asked[58:], strict=False))


def test_a_budget_lets_the_first_requests_pass_at_once() -> None:
    budget = RequestBudget(requests_max=2, window_seconds=10.0)
    for now in (0.0, 4.0):
        assert budget.wait_seconds(now) == 0.0
        budget.spend(now)
    assert (budget.wait_seconds(5.0), budget.wait_seconds(10.0)) == (5.0, 0.0)
