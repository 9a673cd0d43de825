"""The files that a user names: scenarios with what they refer to, and policies."""

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from daemon.settings import with_environment
from events.errors import PolicyError, UsageError
from events.normalize import JsonObject
from projections.policy import parse_policy
from replay.world import sources
from replay.world.scenario import Scenario, parse_scenario
from replay.world.sources import Completed

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
    """Whether a file is a scenario, as far as one look tells."""
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("scenario:") for line in read_text(path).splitlines())


def load_scenario(path: Path) -> Completed:
    """Read a scenario, its policy file and its trace. Their paths begin at the scenario's folder."""
    return complete(parse_scenario(read_text(path), str(path)), path.parent)


def complete(scenario: Scenario, folder: Path) -> Completed:
    """Bring in what a scenario refers to. `${NAME}` in a path is an environment variable."""

    def read(name: str) -> str:
        place = scenario.policy_place if name == scenario.policy_file else scenario.source
        return read_text(folder / with_environment(name, place), place)

    done = sources.completed(scenario, read)
    if scenario.policy is not None:
        _check_policy(scenario.policy, f"{scenario.policy_place}: policy")
    elif scenario.policy_file is not None and done.scenario.policy is not None:
        _check_policy(done.scenario.policy, str(folder / scenario.policy_file))
    return done


def read_policy(path: Path, *, tells: bool = True) -> bytes:
    """A policy file, YAML or JSON, as JSON. A malformed value is named by its path.

    What it skips is told, unless somebody else does.
    """
    return _check_policy(sources.read_policy(read_text(path), str(path)), str(path), tells=tells)


def read_text(path: Path, named_in: str = "") -> str:
    """The text of a file, which may be packed with gzip."""
    place = f"{named_in}: {path}" if named_in else str(path)
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except UnicodeError as error:
        raise UsageError(f"{place}: not a text in UTF-8: {error}") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{place}: not packed with gzip: {error}") from error
    except OSError as error:
        raise UsageError(f"{place}: {error.strerror}") from error


def _check_policy(policy: JsonObject, source: str, *, tells: bool = True) -> bytes:
    content = msgspec.json.encode(policy, order="deterministic")
    try:
        _, warned = parse_policy(content)
    except PolicyError as error:
        raise PolicyError(f"{source}: {error}") from error
    for one in warned if tells else ():
        click.echo(f"muster: warning: {source}: {one.path}: {one.message}", err=True)
    return content
