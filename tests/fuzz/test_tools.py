"""The fuzzer itself: equal seeds give equal cases, cases survive being written, and what fails is made small."""

from tests.fuzz.case import Case, Change, encoded, read, written
from tests.fuzz.generator import RESOURCES, generated
from tests.fuzz.shrink import shrunk

SEEDS = range(40)


def test_equal_seeds_give_equal_cases() -> None:
    assert written(generated(7)) == written(generated(7))
    assert written(generated(7)) != written(generated(8))


def test_a_case_is_the_same_after_it_was_written_and_read() -> None:
    for seed in SEEDS:
        case = generated(seed)
        again = read(written(case))
        sent, read_again = (
            [encoded(one.manifest) for each in which.rounds for one in each if one.manifest]
            for which in (case, again)
        )
        assert sent == read_again


def test_every_kind_with_a_weight_is_created_and_changed() -> None:
    changes = [one for seed in SEEDS for each in generated(seed).rounds for one in each]
    assert {one.resource for one in changes if one.manifest is not None} == set(RESOURCES)
    assert any(one.manifest is None for one in changes)


def test_a_failing_case_is_made_as_small_as_what_makes_it_fail() -> None:
    def fails(case: Case) -> bool:
        return any(
            "queue" in str(one.manifest) and one.name.startswith("podgroup")
            for each in case.rounds
            for one in each
        )

    small = shrunk(generated(1), fails)
    [change] = [one for each in small.rounds for one in each]
    assert isinstance(change, Change)
    assert small.restarts == []
    assert len(str(change.manifest)) < 60
