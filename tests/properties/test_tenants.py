"""Random tenants write random keys on their own objects: no pod of another one is evicted, delayed or loses a device for it."""

import os
import secrets
from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, event, given, seed, settings
from msgspec import structs

from events.privileges import POD, ROWS, Privilege
from tests.example_count import examples
from tests.properties.reached import rarely_reached
from tests.properties.tenant_machine import (
    BARE,
    Attack,
    History,
    Job,
    Written,
    check,
    histories,
    text_of,
    things_of_note,
)
from tests.properties.tenant_worlds import WORLDS, World
from tests.properties.tenant_writes import FIELDS, TENANT_KINDS, VALUES, Write, is_drawn

EXAMPLES: Final = 30
"""Of each world."""
SOAK_EXAMPLES: Final = 400

OF_TENANTS: Final = [row for row in ROWS if any(one in TENANT_KINDS for one in row.kinds)]

_LENIENT = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


@pytest.mark.parametrize("row", OF_TENANTS, ids=lambda row: row.key)
def test_every_row_about_an_object_of_a_tenant_is_drawn(row: Privilege) -> None:
    assert is_drawn(row)


def test_nothing_is_drawn_that_is_not_in_the_table() -> None:
    keys = {row.key for row in OF_TENANTS}
    assert [key for key in (*VALUES, *FIELDS) if key not in keys] == []


QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
OTHERS_QUEUE: Final = Write(QUEUE_NAME, {"metadata": {"annotations": {QUEUE_NAME: "blue"}}})
NO_EVICTION: Final = Write("spec.maxUnavailable", {"spec": {"maxUnavailable": 0}})
ATTACKS: Final = {
    "queues": (Attack(Job("red", 0, 1, BARE), (Written(-1, POD, -1, OTHERS_QUEUE),)), "charged to"),
    "configurations": (Attack(Job("red", 0, 12, BARE), budget=NO_EVICTION), "is bound at"),
}
"""Key of the policy that bounds an attack; the attack; and what the judge says without that key."""


@pytest.mark.parametrize("key", ATTACKS)
def test_the_judge_finds_an_attack_that_the_policy_does_not_bound(key: str) -> None:
    attack, found = ATTACKS[key]
    history = History(WORLDS[0], (Job("blue", 1, 2, BARE),), (attack,))
    check(history)
    policy = {name: value for name, value in history.world.policy.items() if name != key}
    open_world = structs.replace(history.world, policy=policy)
    with pytest.raises(AssertionError, match=found):
        check(structs.replace(history, world=open_world))


def run(world: World, count: int, number: int | None = None) -> Counter[str]:
    """Check so many histories of a world, and return in how many of them something of note happened."""
    seen: Counter[str] = Counter()

    @settings(max_examples=count, deadline=None, suppress_health_check=_LENIENT)
    @given(histories((world,)))
    def one(history: History) -> None:
        try:
            outcome = check(history)
        except BaseException as error:
            error.add_note(text_of(history))
            raise
        for what in dict.fromkeys(things_of_note(history, outcome)):
            event(what)
            seen[what] += 1

    (one if number is None else seed(number)(one))()
    return seen


@pytest.mark.parametrize("world", WORLDS, ids=lambda one: one.name)
def test_no_tenant_is_above_another(world: World) -> None:
    seen = run(world, examples(EXAMPLES))
    wanted = ("a victim is bound", "an attacker is bound", "something is written")
    rare = rarely_reached(seen, wanted, 1)
    assert not rare, f"hardly ever happens: {rare} of {seen}"


@pytest.mark.soak
@pytest.mark.parametrize("world", WORLDS, ids=lambda one: one.name)
def test_no_tenant_is_above_another_in_many_histories(world: World) -> None:
    """MUSTER_SEED plays the same histories again; the seed is printed where one fails."""
    number = int(os.environ.get("MUSTER_SEED") or secrets.randbits(32))
    print(f"MUSTER_SEED={number}")  # noqa: T201  # pytest shows it with a failure
    run(world, SOAK_EXAMPLES, number)
