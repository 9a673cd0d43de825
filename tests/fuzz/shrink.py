"""Make a case that fails smaller, as long as it fails in the same way."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import structs

from tests.fuzz.case import Case, Change
from tests.fuzz.hostile import Json, JsonObject

TRIES_MAX: Final = 1_500
"""Runs of smaller cases, at most."""

Fails = Callable[[Case], bool]


def shrunk(case: Case, fails: Fails, tries: int = TRIES_MAX) -> Case:
    """A case no part of which can be left out, unless the tries were used up before."""
    left = tries

    def still_fails(one: Case) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(one)

    size = -1
    while size != (size := _size(case)) and left > 0:
        for smaller in (_without_trouble, _without_changes, _without_parts):
            case = smaller(case, still_fails)
    return case


def _size(case: Case) -> int:
    return sum(len(str(one)) for each in case.rounds for one in each)


def _without_trouble(case: Case, fails: Fails) -> Case:
    """Without restarts, without requests that fail, with fewer rounds."""
    for plain in (
        structs.replace(case, restarts=[]),
        structs.replace(case, unanswered=0),
        structs.replace(case, refused=0),
    ):
        if plain != case and fails(plain):
            case = plain
    for index in reversed(range(1, len(case.rounds))):
        rounds = list(case.rounds)
        rounds[index - 1] = rounds[index - 1] + rounds.pop(index)
        if fails(smaller := structs.replace(case, rounds=rounds)):
            case = smaller
    return case


def _without_changes(case: Case, fails: Fails) -> Case:
    """Drop changes, many at a time at first."""
    flat = [(index, one) for index, each in enumerate(case.rounds) for one in each]
    step = max(1, len(flat) // 2)
    while True:
        at = 0
        while at < len(flat):
            rest = flat[:at] + flat[at + step :]
            if fails(smaller := _of(case, rest)):
                flat, case = rest, smaller
            else:
                at += step
        if step == 1:
            return case
        step //= 2


def _of(case: Case, flat: list[tuple[int, Change]]) -> Case:
    rounds: list[list[Change]] = [[] for _ in case.rounds]
    for index, one in flat:
        rounds[index].append(one)
    return structs.replace(case, rounds=rounds)


def _without_parts(case: Case, fails: Fails) -> Case:
    """Drop fields and items of manifests, and halve long texts."""
    for index, each in enumerate(case.rounds):
        for place, change in enumerate(each):
            if change.manifest is not None:
                case = _smaller_manifest(case, index, place, fails)
    return case


def _smaller_manifest(case: Case, index: int, place: int, fails: Fails) -> Case:
    def with_manifest(manifest: JsonObject) -> Case:
        rounds = [list(each) for each in case.rounds]
        rounds[index][place] = structs.replace(rounds[index][place], manifest=manifest)
        return structs.replace(case, rounds=rounds)

    progress = True
    while progress:
        progress = False
        manifest = case.rounds[index][place].manifest
        assert manifest is not None
        for smaller in _smaller(manifest):
            if isinstance(smaller, dict) and fails(one := with_manifest(smaller)):
                case, progress = one, True
                break
    return case


def _smaller(value: Json) -> Iterator[Json]:
    """Values with one part less, the largest parts first."""
    match value:
        case dict():
            for key in value:
                yield {name: one for name, one in value.items() if name != key}
            for key, one in value.items():
                for less in _smaller(one):
                    yield {**value, key: less}
        case list():
            if len(value) > 4:
                yield value[: len(value) // 2]
                yield value[len(value) // 2 :]
            for index in range(min(len(value), 20)):
                yield value[:index] + value[index + 1 :]
            for index, one in enumerate(value[:20]):
                for less in _smaller(one):
                    yield [*value[:index], less, *value[index + 1 :]]
        case str() if len(value) > 40:
            yield value[: len(value) // 2]
        case _:
            pass
