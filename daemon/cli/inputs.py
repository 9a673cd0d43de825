"""Files that a user names: scenarios with the files that they refer to, and policies."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from daemon.cli.output import print_warning
from daemon.limits import limits_of
from daemon.policy_check import check_cluster_policy
from daemon.settings import with_environment
from daemon.text_file import STDIN, read_input, read_text
from events.duration import nanoseconds
from events.errors import PolicyError, UsageError
from events.normalize import JsonObject
from events.policy_document import read_policy_document
from features.table import FEATURES
from projections.policy.policy import PolicyWarning, parse_policy
from simulator import scenario_sources
from simulator.scenario import Scenario, parse_scenario
from simulator.scenario_sources import LoadedScenario
from simulator.what_if_change import Change, parse_change
from simulator.what_if_history import RecordedHistory

SUFFIXES = (".yaml", ".yml")


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


def is_scenario(path: Path) -> bool:
    """Return True if a file looks like a scenario."""
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("scenario:") for line in read_text(path).splitlines())


def read_duration(option: str, text: str) -> int:
    """Return the duration that an option states (`90s`), in nanoseconds."""
    try:
        return nanoseconds(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def load_scenario(path: Path) -> LoadedScenario:
    """Read a scenario (`-`: from standard input), its policy file and its trace. Relative paths start at the scenario's folder."""
    return complete(read_scenario(path), path.parent)


def read_scenario(path: Path) -> Scenario:
    """Read a scenario without the files that it refers to."""
    text, source = read_input(path)
    return parse_scenario(text, source, limits_of().yaml_nodes)


def complete(scenario: Scenario, folder: Path) -> LoadedScenario:
    """Read the files that a scenario refers to. `${NAME}` in a path is an environment variable."""

    def read(name: str) -> str:
        place = scenario.policy_place if name == scenario.policy_file else scenario.source
        return read_text(folder / with_environment(name, place), place)

    done = scenario_sources.load_sources(scenario, read, limits_of().yaml_nodes)
    if scenario.policy is not None:
        _check_policy(scenario.policy, f"{scenario.policy_place}: policy")
    elif scenario.policy_file is not None and done.scenario.policy is not None:
        _check_policy(done.scenario.policy, str(folder / scenario.policy_file))
    return done


def load_change(
    text: str, path: Path, history: RecordedHistory | None, length_ns: int | None
) -> Change:
    """Read a change of a recorded past from the text of a file, and its policy file. Relative paths start at its folder.

    Steps may name only the objects of the history, unless that is None, and come within a length of time.
    """
    nodes_max = limits_of().yaml_nodes
    objects = None if history is None else history.names
    source = STDIN if str(path) == "-" else str(path)
    change = parse_change(text, source, nodes_max, objects=objects, length_ns=length_ns)
    if change.policy_file is not None:
        file = path.parent / with_environment(change.policy_file, change.policy_place)
        text = read_text(file, change.policy_place)
        policy = read_policy_document(text, str(file), nodes_max)
        change = msgspec.structs.replace(change, policy=policy)
        _check_policy(policy, str(file), tells=history is None)
    elif change.policy is not None:
        _check_policy(change.policy, f"{change.policy_place}: policy", tells=history is None)
    return change


def read_policy(path: Path, *, tells: bool = True) -> bytes:
    """Return a policy file (YAML, JSON, or a ConfigMap that holds one) as JSON. A malformed value is named by its path.

    Prints what it skips, unless the caller does.
    """
    text, source = read_input(path)
    policy = read_policy_document(text, source, limits_of().yaml_nodes)
    return _check_policy(policy, source, tells=tells)


def read_cluster_policy(path: Path, *, tells: bool = True) -> bytes:
    """Return a policy file as `read_policy` does, for scheduling a cluster: it must keep quotas or say that there are none."""
    text, source = read_input(path)
    policy = read_policy_document(text, source, limits_of().yaml_nodes)
    content, warnings = _parsed_policy(policy, source)
    check_cluster_policy(content, source)
    if tells:
        _print_warnings(warnings, source)
    return content


def _check_policy(policy: JsonObject, source: str, *, tells: bool = True) -> bytes:
    content, warnings = _parsed_policy(policy, source)
    if tells:
        _print_warnings(warnings, source)
    return content


def _parsed_policy(policy: JsonObject, source: str) -> tuple[bytes, tuple[PolicyWarning, ...]]:
    """Return a policy as JSON, and the warnings about it. Raises PolicyError with the name of its source."""
    content = msgspec.json.encode(policy, order="deterministic")
    try:
        _, warnings = parse_policy(content, FEATURES.policy_table)
    except PolicyError as error:
        raise PolicyError(f"{source}: {error}") from error
    return content, warnings


def _print_warnings(warnings: tuple[PolicyWarning, ...], source: str) -> None:
    for one in warnings:
        print_warning(f"{source}: {one.path}: {one.message}")
