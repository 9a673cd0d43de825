"""A fuzzed history as data: what is created, changed and deleted in each round, and its text form.

The text form is JSON in which long periodic texts and literal numbers are written short, so that a case that
failed can be kept as a regression test: `{"$text": "[", "$times": 100000}`, `{"$json": "1e400"}`,
`{"$open": "[", "$close": "]", "$depth": 3000}`.
"""

import json
import re
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from tests.fuzz.hostile import Json, JsonObject

SHORT: Final = 200
"""Characters. Texts up to here are written as they are."""

UNIT_MAX: Final = 16
"""Characters of a repeated unit, at most."""

_NESTED: Final = re.compile(rb"(\[+|(?:\{\"a\":)+)1(\]+|\}+)")


class Change(Struct, frozen=True, kw_only=True):
    """An object is created or replaced; without a manifest, it is deleted."""

    resource: str
    """As `Resource.name`."""
    name: str
    namespace: str = ""
    manifest: "JsonObject | None" = None


class Case(Struct, kw_only=True):
    """One history. The first round is what the daemon finds when it starts."""

    seed: int = 0
    policy: JsonObject = field(default_factory=dict)
    rounds: list[list[Change]] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    """Rounds before which the daemon is started again."""
    unanswered: int = 0
    """Of 100 requests, how many are carried out without an answer."""
    refused: int = 0
    """Of 100 requests, how many are refused."""

    @property
    def objects(self) -> int:
        """How many objects are created or changed."""
        return sum(one.manifest is not None for each in self.rounds for one in each)


def written(case: Case) -> str:
    """The text form of a case."""
    whole = {
        "seed": case.seed,
        "policy": case.policy,
        "restarts": case.restarts,
        "unanswered": case.unanswered,
        "refused": case.refused,
        "rounds": [[_change(one) for one in each] for each in case.rounds],
    }
    return json.dumps(whole, indent=1, ensure_ascii=True) + "\n"


def read(text: str) -> Case:
    """The case of a text form."""
    whole: dict[str, Any] = json.loads(text)
    rounds = [[Change(**_long(one)) for one in each] for each in whole.pop("rounds")]
    return Case(rounds=rounds, **whole)


def encoded(manifest: JsonObject) -> bytes:
    """The manifest as an API server sends it."""
    return msgspec.json.encode(manifest)


def _change(change: Change) -> JsonObject:
    whole: JsonObject = {"resource": change.resource, "name": change.name}
    if change.namespace:
        whole["namespace"] = change.namespace
    if change.manifest is not None:
        whole["manifest"] = _short(change.manifest)
    return whole


def _short(value: Json) -> Json:
    match value:
        case str() if len(value) > SHORT:
            return _periodic(value)
        case Raw():
            return _literal(bytes(value))
        case dict():
            return {key: _short(one) for key, one in value.items()}
        case list() if len(value) > SHORT and all(one == value[0] for one in value):
            return {"$list": _short(value[0]), "$times": len(value)}
        case list():
            return [_short(one) for one in value]
        case _:
            return value


def _periodic(text: str) -> Json:
    """A long text as a repeated unit and its rest, if it is one."""
    for size in range(1, UNIT_MAX + 1):
        unit = text[:size]
        times = len(text) // size
        while times and not text.startswith(unit * times):
            times -= 1 if times < UNIT_MAX else times // UNIT_MAX
        while text.startswith(unit, times * size):
            times += 1
        if times * size > len(text) - SHORT:
            return {"$text": unit, "$times": times, "$rest": text[times * size :]}
    return text


def _literal(raw: bytes) -> Json:
    nested = _NESTED.fullmatch(raw)
    if nested is None:
        return {"$json": _short(raw.decode())}
    unit = '{"a":' if nested[1].startswith(b"{") else "["
    return {"$open": unit, "$depth": len(nested[1]) // len(unit)}


def _long(value: Any) -> Any:
    if isinstance(value, list):
        return [_long(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$text" in value:
        return value["$text"] * value["$times"] + value["$rest"]
    if "$list" in value:
        return [_long(value["$list"]) for _ in range(value["$times"])]
    if "$json" in value:
        return Raw(_long(value["$json"]).encode())
    if "$open" in value:
        close = "]" if value["$open"] == "[" else "}"
        return Raw((value["$open"] * value["$depth"] + "1" + close * value["$depth"]).encode())
    return {key: _long(one) for key, one in value.items()}
