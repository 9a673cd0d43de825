"""`muster verify`: every scenario and every recorded log under a folder, as a test."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from msgspec import Struct

from daemon.cli.exit_codes import BUG
from daemon.cli.failure import reason_of
from daemon.cli.inputs import complete, is_scenario, read_scenario
from daemon.cli.known_divergence import SUFFIX, KnownDivergence, known_divergence, log_of
from daemon.cli.output import counted, output_option, print_json, print_lines, verdict
from daemon.cli.simulate import SHOWN_MAX, run_scenario
from daemon.log.opening import ask_log
from daemon.queries.replay import replay_log
from events.errors import UsageError

LOG_SUFFIXES = (".db", ".muster")


class Checked(Struct, frozen=True):
    """A file, and its problems."""

    path: Path
    kind: str
    problems: tuple[str, ...] = ()
    is_bug: bool = False
    """Whether it ended in a bug of muster's."""
    known: KnownDivergence | None = None
    """The divergence that it is known to have, and has."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@output_option
def verify(folder: Path, as_json: bool) -> int:
    """Run every scenario and replay every recorded log under DIR.

    A scenario passes if its result is as expected, a log (.db, .muster) if every decision is made again as
    recorded. A divergence that a log of an earlier version is known to have is stated beside it, for names.muster in
    names.muster.diverges.yaml, with the keys position, what, decider and reason; then it has to be that one. The exit code is 1 if anything fails, and 70 if anything ends in a bug of muster's; all files
    are checked in any case.

    Example:

    \b
        muster verify tests
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: not a folder")
    failed = done = bugs = 0
    for checked in _check_all(folder):
        done += 1
        failed += bool(checked.problems)
        bugs += checked.is_bug
        if as_json:
            print_json(
                {
                    "file": str(checked.path),
                    "kind": checked.kind,
                    "passed": not checked.problems,
                    "problems": list(checked.problems),
                    "known_divergence": _known_document(checked.known),
                }
            )
        else:
            result = verdict(not checked.problems, "passed", "FAILED")
            notes = [*checked.problems, *_known_lines(checked.known)]
            print_lines([(result, f"  {checked.path}"), *(f"        {one}" for one in notes)])
    if not done:
        raise UsageError(f"{folder}: neither a scenario with `expect` nor a recorded log there")
    if not as_json:
        print_lines([f"{counted(done, 'file')}, {failed} failed"])
    if bugs:
        return BUG
    return 1 if failed else 0


def _check_all(folder: Path) -> Iterator[Checked]:
    for path in sorted(folder.rglob("*")):
        if is_scenario(path):
            checked = _checked(path, "scenario", _check_scenario)
            if checked is not None:
                yield checked
        elif path.suffix in LOG_SUFFIXES and path.is_file():
            checked = _checked(path, "log", _check_log)
            assert checked is not None
            yield checked
        elif path.name.endswith(SUFFIX) and not log_of(path).is_file():
            yield Checked(path, "log", (f"there is no {log_of(path).name} beside it",))


def _checked(path: Path, kind: str, check: Callable[[Path], Checked | None]) -> Checked | None:
    """The result of a check; an exception is a problem of its file, and does not end the others."""
    try:
        return check(path)
    except MemoryError:
        raise
    except Exception as error:
        reason, code = reason_of(error)
        return Checked(path, kind, (reason,), is_bug=code == BUG)


def _check_scenario(path: Path) -> Checked | None:
    """None if the scenario expects nothing."""
    scenario = read_scenario(path)
    if scenario.expect is None:
        return None
    loaded = complete(scenario, path.parent)
    differences = asyncio.run(run_scenario(loaded, None)).result.differences
    problems = [str(difference) for difference in differences[:SHOWN_MAX]]
    if len(differences) > SHOWN_MAX:
        problems.append(f"... and {len(differences) - SHOWN_MAX} more")
    return Checked(path, "scenario", tuple(problems))


def _check_log(path: Path) -> Checked:
    known = known_divergence(path)
    found = ask_log(str(path), replay_log).divergence
    if known is not None:
        problem = known.problem(found)
        return Checked(path, "log", (problem,)) if problem else Checked(path, "log", known=known)
    if found is None:
        return Checked(path, "log")
    other = ", decided by another version then" if found.is_of_another_version else ""
    return Checked(path, "log", (f"divergence at position {found.position}: {found.what}{other}",))


def _known_lines(known: KnownDivergence | None) -> list[str]:
    if known is None:
        return []
    return [f"known to diverge at position {known.position}: {known.what}", known.reason]


def _known_document(known: KnownDivergence | None) -> dict[str, object] | None:
    if known is None:
        return None
    return {
        "position": known.position,
        "what": known.what,
        "decider": known.decider,
        "reason": known.reason,
    }
