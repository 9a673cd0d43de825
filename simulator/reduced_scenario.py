"""The text of a reduced scenario: comments that say where it comes from, and YAML that people can read."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
import yaml

from events.duration import SECOND
from events.normalize import Json, JsonObject
from features.table import FEATURES
from projections.policy.policy import BUILT_IN, parse_policy
from replay.printable import printable
from simulator.manifest import Manifest
from simulator.manifest_fields import section
from simulator.reduce_condition import DECISION_WORDS
from simulator.reduce_target import Item, Target
from simulator.scenario import Apply, Delete, Patch, Scenario, Step

WIDTH: Final = 100
_FIRST_KEYS: Final = ("apiVersion", "kind", "metadata", "spec", "status")


_VERBS: Final[dict[type, str]] = {Apply: "apply", Delete: "delete", Patch: "patch"}
"""The steps that a timeline has, and what they are called."""


class _Dumper(yaml.SafeDumper):
    """Writes every repeated value in full: anchors are hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def scenario_text(
    sentence: str,
    comments: Sequence[str],
    scenario: Scenario,
    policy: bytes,
    target: Target,
) -> str:
    """Return the text of a scenario, with what it expects."""
    document: JsonObject = {"scenario": printable(sentence)}
    table = FEATURES.policy_table
    if parse_policy(policy, table)[0] != parse_policy(BUILT_IN, table)[0]:
        document["policy"] = msgspec.json.decode(policy)
    if scenario.period_ns != SECOND:
        document["period"] = _duration(scenario.period_ns)
    if scenario.until_ns is not None:
        document["until"] = _duration(scenario.until_ns)
    if scenario.cycles is not None:
        document["cycles"] = scenario.cycles
    document["cluster"] = [_readable(one.manifest) for one in scenario.cluster]
    if scenario.steps:
        document["steps"] = list(_steps(scenario.steps))
    expect = expectation(target)
    if expect:
        document["expect"] = expect
    lines = [f"# {printable(one)}" for one in comments]
    return "\n".join([*lines, *_yaml_lines(document)]) + "\n"


def _steps(steps: Sequence[Step]) -> Iterator[JsonObject]:
    """Yield steps; those that do the same at the same time in a row are one."""
    for (at_ns, verb), group in groupby(steps, lambda one: (one.at_ns, _VERBS[type(one)])):
        actions: list[Json] = [_action(one) for one in group]
        yield {"at": _duration(at_ns), verb: actions}


def _action(step: Step) -> JsonObject:
    if isinstance(step, Apply):
        return _readable(step.manifest)
    assert isinstance(step, Delete | Patch)
    about: JsonObject = {"kind": step.kind.kind, "apiVersion": step.kind.api_version}
    if step.namespace not in ("", "default"):
        about["namespace"] = step.namespace
    about["name"] = step.name
    return about if isinstance(step, Delete) else {**about, "merge": step.merge}


def _duration(length_ns: int) -> str:
    """Return a duration as scenarios are written, without loss."""
    for unit, name in ((SECOND, "s"), (1_000_000, "ms"), (1_000, "us")):
        if length_ns % unit == 0:
            return f"{length_ns // unit}{name}"
    return f"{length_ns}ns"


def expectation(target: Target) -> JsonObject:
    """Return what the scenario expects: the recorded decision of a divergence, else what is decided.

    Nothing is expected of decisions that the document of `simulate` does not list (`config_invalid`).
    """
    words = [one[0] for one in (target.recorded, target.decided) if one is not None]
    if any(one not in ("", *DECISION_WORDS) for one in (*words, *(p.word for p in target.made))):
        return {}
    if target.recorded is not None and target.not_made:
        return {"decisions": [_entry(target.recorded)]}
    if target.recorded is not None and target.decided is not None and target.made:
        entries: list[Json] = [_entry(target.recorded, with_message=len(target.made) == 1)]
        if len(target.made) > 1:
            entries.append(_entry(target.decided))
        return {"decisions": entries}
    if target.decided is not None and target.decided[0] == "bind":
        return {"pods": {target.decided[1].pod: {"node": None}}}
    if target.decided is not None:
        return {"decisions": [_entry(target.decided)]}
    if target.waiting is not None:
        return {"pod_groups": {target.waiting.pod_group: {"code": target.waiting.code}}}
    made: list[Json] = []
    for pattern in target.made:
        fields: JsonObject = {"kind": pattern.word} if pattern.word else {}
        fields.update({key: value for key, value in pattern.fields.items() if value})
        made.append(fields)
    return {"decisions": made} if any(made) else {}


def item_text(item: Item | None) -> str:
    """Return an entry of a decision in a few words."""
    if item is None:
        return "nothing"
    return ", ".join(f"{key} {value}" for key, value in _entry(item).items())


def _entry(item: Item, *, with_message: bool = False) -> JsonObject:
    word, one = item
    names = ["pod", "pod_group", "node", "code", "in_favour_of"]
    if one.pod:
        names.remove("pod_group")
    entry: JsonObject = {"kind": word}
    entry.update({name: getattr(one, name) for name in names if getattr(one, name)})
    if with_message:
        entry["message"] = one.message
    return entry


def _readable(manifest: Manifest) -> JsonObject:
    """Return a manifest with its keys in the usual order, without the default namespace and without empty parts."""
    metadata = _without_empty(section(manifest, "metadata"))
    if metadata.get("namespace") == "default":
        del metadata["namespace"]
    name = metadata.pop("name")
    whole: JsonObject = {**_without_empty(manifest), "metadata": {"name": name, **metadata}}
    keys = dict.fromkeys((*(key for key in _FIRST_KEYS if key in whole), *whole))
    return {key: whole[key] for key in keys}


def _without_empty(part: Mapping[str, Json]) -> JsonObject:
    return {key: value for key, value in part.items() if value not in ({}, None)}


def _yaml_lines(document: JsonObject) -> Iterator[str]:
    for key, value in document.items():
        text = yaml.dump(
            {key: value},
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=None if isinstance(value, dict | list) else False,
            width=WIDTH,
        )
        yield from text.splitlines()
