"""Random histories: sums add up, gangs are whole, quotas hold, the log folds and replays to the same."""

import os
import secrets
from collections import Counter
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from events import requeue
from scheduling import session
from tests.example_count import examples
from tests.properties.checked_index import CheckedIndex
from tests.properties.claim_machine import ClaimHistory
from tests.properties.machine import History
from tests.properties.reached import rarely_reached

REACHED_MIN: Final = 1
"""In so many histories at least each of these must happen, or nothing is known of it."""
REACHED: Final = (
    "pods are bound",
    "pods are bound: a gang",
    "pods are nominated",
    "a promise is withdrawn",
    "a pod is evicted: reclaim",
    "a whole card is charged",
    "a slice is charged",
    "a share is charged",
    "one of several cards is charged",
    "a quota of cards is used up",
    "a quota is lowered below use",
    "a bind fails",
    "a node is lost under its pods",
    "a fold leaves indexes out",
)
REACHED_BY_CLAIMS: Final = (
    "pods are bound: with a claim",
    *(
        f"a claim refuses a pod: {one}"
        for one in ("ClaimMissing", "ClaimUnbound", "VolumeMissing", "VolumeInUse")
    ),
)

_LENIENT = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


class Counted(History):
    """Counts in how many histories something of note happened."""

    seen: ClassVar[Counter[str]] = Counter()

    def teardown(self) -> None:
        super().teardown()
        self.seen.update(self.witness.reached.keys())


class CountedClaims(Counted, ClaimHistory):
    """The same with claims and volumes, counted apart."""

    seen: ClassVar[Counter[str]] = Counter()


class Checked(History):
    """Ends with the first lookup that misses a class."""

    def __init__(self) -> None:
        super().__init__()
        CheckedIndex.failures.clear()

    @invariant()
    def the_requeue_index_finds_all(self) -> None:
        """Whatever is requeued is looked up."""
        assert not CheckedIndex.failures, CheckedIndex.failures[0]


class CheckedClaims(Checked, ClaimHistory):
    """The same with claims and volumes."""


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> type[CheckedIndex]:
    """Every lookup in the requeue index is checked."""
    monkeypatch.setattr(session, "RequeueIndex", CheckedIndex)
    CheckedIndex.failures.clear()
    return CheckedIndex


def test_any_history_obeys_the_rules(checked: type[CheckedIndex]) -> None:
    profile = settings(
        max_examples=examples(400),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(Counted, settings=profile)
    rare = rarely_reached(Counted.seen, REACHED, REACHED_MIN)
    assert not rare, f"hardly ever happens: {rare} of {Counted.seen}"
    assert not checked.failures
    assert checked.lookups[0] > 1_000


def test_any_history_of_claims_obeys_the_rules(checked: type[CheckedIndex]) -> None:
    profile = settings(
        max_examples=examples(100),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=_LENIENT,
    )
    before = checked.lookups[0]
    run_state_machine_as_test(CountedClaims, settings=profile)
    rare = rarely_reached(CountedClaims.seen, REACHED_BY_CLAIMS, REACHED_MIN)
    assert not rare, f"hardly ever happens: {rare} of {CountedClaims.seen}"
    assert not checked.failures
    assert checked.lookups[0] > before


NOT_IN_HISTORIES: Final = ("ROOM", "HYPER_NODES", "CLASS_BUDGET")
"""Events that histories without HyperNodes and large clusters do not have (`tests/scheduling/test_requeue_index.py`)."""
AWAITED: Final = [one for one in vars(requeue) if one.isupper() and one not in NOT_IN_HISTORIES]


@pytest.mark.parametrize("mutated", [*AWAITED, "update"])
def test_histories_find_an_index_that_misses_an_event(
    checked: type[CheckedIndex], monkeypatch: pytest.MonkeyPatch, mutated: str
) -> None:
    """An event that the index does not record, or a change of a pod group that it does not follow."""
    if mutated == "update":
        real_update = checked._update  # noqa: SLF001
        monkeypatch.setattr(
            checked, "_update", lambda self, key: real_update(self, key) if key[-1] != "1" else None
        )
    else:
        awaited, real_await = getattr(requeue, mutated), checked._await  # noqa: SLF001
        monkeypatch.setattr(
            checked,
            "_await",
            lambda self, found, one: (
                None if one.startswith(awaited) else real_await(self, found, one)
            ),
        )
    profile = settings(
        max_examples=110,
        stateful_step_count=40,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=_LENIENT,
    )
    with pytest.raises(AssertionError, match="requeue"):
        run_state_machine_as_test(
            CheckedClaims if mutated == "VOLUMES" else Checked, settings=profile
        )


@pytest.mark.soak
def test_any_long_history_obeys_the_rules() -> None:
    """MUSTER_SEED plays the same histories again; the seed is printed where one fails."""
    number = int(os.environ.get("MUSTER_SEED") or secrets.randbits(32))
    print(f"MUSTER_SEED={number}")  # noqa: T201  # pytest shows it with a failure
    profile = settings(
        max_examples=5000,
        stateful_step_count=80,
        deadline=None,
        print_blob=True,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(seed(number)(History), settings=profile)
