"""Random timelines: at rest a fresh daemon would do nothing more, and nothing is reserved for a group that cannot have it."""

import os
import secrets
from collections import Counter
from typing import Final

import pytest

from tests.properties.timelines import Played, cut_down, failure, text_of, timeline

SEEDS: Final = 64
SOAK_SEEDS: Final = 20_000
REACHED_MIN: Final = 1
"""In so many timelines at least each of these must happen, or nothing is known of it."""

REACHED: Final = (
    "pods are bound: a gang",
    "pods are nominated: a gang",
    "at rest with a promise",
    "at rest with a group that is blocked",
    "a promise is withdrawn",
    "a promise is crossed: close",
    "a promise is crossed: group gone",
    "a promise is crossed: minimum",
    "a pod is evicted: preempt",
    "a pod is evicted: reclaim",
    "a pod is evicted: gangpreempt",
    "a pod is evicted: gangreclaim",
    "a fresh daemon is asked",
)


def play(seeds: range) -> None:
    """Play the timelines of these seeds. The first that fails is cut down and shown."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        played = Played(timeline(seed))
        try:
            played.play()
        except AssertionError as error:
            small = cut_down(timeline(seed))
            raise AssertionError(
                f"seed {seed}: {error}\ncut down: {failure(small)}\n{text_of(small)}"
            ) from error
        seen.update(played.seen.keys())
    rare = {one: seen[one] for one in REACHED if seen[one] < REACHED_MIN}
    assert not rare, f"hardly ever happens: {rare} of {seen}"


def test_at_rest_a_fresh_daemon_would_do_nothing_more_and_nothing_is_reserved_in_vain() -> None:
    play(range(SEEDS))


@pytest.mark.soak
def test_that_holds_for_many_timelines() -> None:
    """MUSTER_SEED plays the same timelines again; the seed is printed where one fails."""
    number = int(os.environ.get("MUSTER_SEED") or secrets.randbits(32))
    print(f"MUSTER_SEED={number}")  # noqa: T201  # pytest shows it with a failure
    play(range(number, number + SOAK_SEEDS))
