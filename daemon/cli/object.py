"""`muster object`: an object as it was, what changed, and who changed it."""

from typing import Final

import click
import yaml
from msgspec import to_builtins

from daemon.cli.kinds import kinds_named
from daemon.cli.output import (
    AS_FROM,
    Line,
    at_option,
    counted,
    heading,
    log_option,
    moment_option,
    output_option,
    print_document,
    print_json,
    print_lines,
)
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries.moments import recorded_at_ns
from daemon.queries.objects import ObjectChange, PastObject, object_at, object_changes
from events.errors import UsageError
from features.table import KINDS
from replay.log_time import LogTime, format_time

VALUE_CHARS_MAX: Final = 120
"""Characters of a value in text; JSON has all of it."""

FORMS: Final = "give KIND/NAME, or KIND/NAMESPACE/NAME"


@click.command(name="object")
@click.argument("name", metavar="KIND/NAME")
@log_option
@at_option
@click.option(
    "--diff", is_flag=True, help="Show the changes of the object instead, with who made them."
)
@moment_option("--from", "With --diff: begin with this moment.", "first")
@moment_option("--to", "With --diff: end with this moment.", "last", forms=AS_FROM)
@output_option
def object_(
    name: str,
    log: str,
    at: LogTime | None,
    diff: bool,
    first: LogTime | None,
    last: LogTime | None,
    as_json: bool,
) -> None:
    """Show an object as the API server showed it at a moment, as YAML; with --diff, each change of it and who made it.

    KIND is named as for kubectl (Queue, pods, po, jobs.batch ...). Without a namespace it is `default`. What the log leaves
    out of objects (values of environment variables, commands) is missing here, too.

    Examples:

    \b
        muster object Queue/ls --log demo.db
        muster object pod/default/train-0 --log demo.db --at 12.5s
        muster object Queue/ls --log demo.db --diff --from -1h
    """
    subjects = _subjects(name)
    if diff and at is not None:
        raise click.UsageError("--diff takes --from and --to, not --at")
    if not diff and (first is not None or last is not None):
        raise click.UsageError("--from and --to belong to --diff")
    if diff:
        subject, changes, start_ns = ask_log(log, lambda one: _changes(one, subjects, first, last))
        if as_json:
            print_json({"subject": subject, "changes": to_builtins(changes)})
        else:
            print_lines(_diff_lines(subject, changes, start_ns))
        return
    found, start_ns = ask_log(log, lambda one: _past(one, subjects, at))
    if as_json:
        print_json(to_builtins(found))
        return
    at_text = format_time(found.recorded_at_ns, start_ns)
    head = f"# {found.subject}, so since position {found.position} ({at_text})"
    by = found.changed_by
    lines = [head] if by is None else [head, f"# changed by {by.text} at {by.time}"]
    text = yaml.safe_dump(found.manifest, sort_keys=False, allow_unicode=False)
    print_document("\n".join([*lines, text]))


async def _past(
    log: ReadableLog, subjects: list[str], at: LogTime | None
) -> tuple[PastObject, int]:
    found = await object_at(log, subjects, at)
    return found, await recorded_at_ns(log, log.base.position + 1)


async def _changes(
    log: ReadableLog, subjects: list[str], first: LogTime | None, last: LogTime | None
) -> tuple[str, list[ObjectChange], int]:
    subject, changes = await object_changes(log, subjects, first, last)
    return subject, changes, await recorded_at_ns(log, log.base.position + 1)


def _subjects(text: str) -> list[str]:
    """Return what a name means, as subjects of records. Raises UsageError."""
    parts = text.strip().split("/")
    if not 2 <= len(parts) <= 3 or not parts[0] or not parts[-1]:
        raise UsageError(f"{text!r} names no object: {FORMS}")
    subjects: list[str] = []
    for kind in kinds_named(parts[0], "KIND"):
        is_namespaced = KINDS[kind].resource.is_namespaced
        namespace = parts[1] if len(parts) == 3 else ""
        if namespace and not is_namespaced:
            raise UsageError(f"{text!r}: a {kind} has no namespace: give {kind}/{parts[-1]}")
        space = (namespace or "default") if is_namespaced else ""
        subjects.append(f"{kind}/{space}/{parts[-1]}")
    return subjects


def _diff_lines(subject: str, changes: list[ObjectChange], start_ns: int) -> list[Line]:
    lines: list[Line] = [f"{subject.replace('//', '/')}: {counted(len(changes), 'change')}"]
    for one in changes:
        by = one.changed_by
        what = "" if one.fields else f": {one.what}"
        who = "" if by is None else f", changed by {by.text} at {by.time}"
        at = format_time(one.recorded_at_ns, start_ns)
        lines.append(heading(f"position {one.position} ({at}){what}{who}"))
        lines += [
            f"  {field.field}: {_cut(field.before)} -> {_cut(field.after)}" for field in one.fields
        ]
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 3]}..."
