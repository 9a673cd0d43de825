"""The files that a user names: scenarios with what they refer to, and policies."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from daemon.settings import with_environment
from events.errors import PolicyError, UsageError
from events.normalize import JsonObject
from projections.policy import parse_policy
from replay.world.document import read_document
from replay.world.errors import ScenarioError
from replay.world.openb import Notes, Pieces, with_pieces
from replay.world.openb_table import shipped_table
from replay.world.openb_trace import TraceText, openb_pieces
from replay.world.scenario import Scenario, TraceSource, parse_scenario
from replay.world.workload import workload_pieces

SUFFIXES = (".yaml", ".yml")


class Loaded(Struct, frozen=True):
    """A scenario with everything that it refers to."""

    scenario: Scenario
    notes: Notes | None
    """What is to be said of its trace or workload."""


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """The files named, and in place of a folder the scenarios in it, by name.

    A YAML file in a folder that does not say `scenario:` is something else, such as a policy.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += [one for one in sorted(path.rglob("*")) if is_scenario(one)]
        else:
            found.append(path)
    return found


def load_scenario(path: Path) -> Loaded:
    """Read a scenario, its policy file and its trace. Their paths begin at the scenario's folder."""
    return complete(parse_scenario(read_text(path), str(path)), path.parent)


def complete(scenario: Scenario, folder: Path) -> Loaded:
    """Bring in what a scenario refers to."""
    if scenario.policy_file is not None:
        policy = msgspec.json.decode(read_policy(folder / scenario.policy_file), type=JsonObject)
        scenario = msgspec.structs.replace(scenario, policy=policy)
    elif scenario.policy is not None:
        _check_policy(scenario.policy, f"{scenario.source}: policy")
    pieces = _pieces(scenario, folder)
    if pieces is None:
        return Loaded(scenario, None)
    return Loaded(with_pieces(scenario, pieces), pieces.notes)


def read_policy(path: Path) -> bytes:
    """A policy file, YAML or JSON, as JSON. A malformed value is named by its path."""
    try:
        document = read_document(read_text(path), str(path))
        policy = {name: value.plain() for name, value in document.mapping("a policy").items()}
    except ScenarioError as error:
        raise PolicyError(str(error)) from error
    return _check_policy(policy, str(path))


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise UsageError(f"{path}: not a text in UTF-8: {error}") from error


def _check_policy(policy: JsonObject, source: str) -> bytes:
    content = msgspec.json.encode(policy, order="deterministic")
    try:
        parse_policy(content)
    except PolicyError as error:
        raise PolicyError(f"{source}: {error}") from error
    return content


def _pieces(scenario: Scenario, folder: Path) -> Pieces | None:
    if scenario.workload is not None:
        return workload_pieces(scenario.workload, shipped_table())
    if scenario.trace is None:
        return None
    trace = scenario.trace
    return openb_pieces(
        _trace_text(scenario, folder, "nodes"),
        _trace_text(scenario, folder, "pods"),
        order=trace.order,
        arrivals=None if trace.arrivals is None else _trace_text(scenario, folder, "arrivals"),
        period_ns=scenario.period_ns,
    )


def _trace_text(scenario: Scenario, folder: Path, key: str) -> TraceText:
    assert isinstance(scenario.trace, TraceSource)
    named = with_environment(getattr(scenario.trace, key), f"{scenario.source}: trace.{key}")
    path = folder / named
    try:
        return TraceText(str(path), read_text(path))
    except UsageError as error:
        raise UsageError(f"{scenario.source}: trace.{key}: {error}") from error


def is_scenario(path: Path) -> bool:
    """Whether a file is a scenario, as far as one look tells."""
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("scenario:") for line in read_text(path).splitlines())
