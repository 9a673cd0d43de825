"""The options of `tell` and `log tail` that choose records."""

from collections.abc import Callable
from typing import Final, TypeVar

import click

from daemon.cli.kinds import kinds_named
from events.decision import Decision
from events.errors import UsageError
from events.union import DECISIONS, EVENTS, Observation, Outcome
from features.table import KINDS
from replay.record_filter import RecordFilter
from replay.why_subject import candidates

_F = TypeVar("_F", bound=Callable[..., object])

FAMILIES: Final = {
    "decision": lambda one: issubclass(one, Decision),
    "observation": lambda one: issubclass(one, Observation),
    "outcome": lambda one: issubclass(one, Outcome),
}
"""Names of many kinds of records."""


def filter_options(command: _F) -> _F:
    """`--subject`, `--kind`, `--queue` and `--node`, passed to the command as texts."""
    options = (
        click.option(
            "--subject",
            "subjects",
            multiple=True,
            metavar="SUBJECT",
            help="Only records of this subject, named as for `muster why`, or KIND/NAMESPACE/NAME; several times for several.",
        ),
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            metavar="KIND",
            help="Only records of this kind: pod_bound, eviction_decided ..., all decisions, outcomes or observations, or the "
            "observations of a Kubernetes kind (Pod, nodes ...); several times for several.",
        ),
        click.option(
            "--queue", metavar="QUEUE", default="", help="Only records that concern this queue."
        ),
        click.option(
            "--node", metavar="NODE", default="", help="Only records that concern this node."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def record_filter(
    subjects: tuple[str, ...], kinds: tuple[str, ...], queue: str, node: str
) -> RecordFilter:
    """Return the filter that options describe. Raises UsageError for a subject or kind that there is not."""
    record_kinds: dict[str, None] = {}
    object_kinds: dict[str, None] = {}
    for kind in kinds:
        found = _record_kinds(kind)
        record_kinds.update(dict.fromkeys(found))
        if not found:
            object_kinds.update(dict.fromkeys(_object_kinds(kind)))
    return RecordFilter(
        subjects=frozenset(one for text in subjects for one in _subjects(text)),
        record_kinds=frozenset(record_kinds),
        object_kinds=frozenset(object_kinds),
        queue=queue.strip(),
        node=node.strip(),
    )


def _record_kinds(text: str) -> list[str]:
    """Return the kinds of records that a name means; none if it names no kind of records."""
    name = text.strip()
    family = FAMILIES.get(name.lower().removesuffix("s"))
    if family is not None:
        return [one.kind for one in EVENTS if family(one)]
    kinds = [one.kind for one in EVENTS if name in (one.kind, _plain(one.kind))]
    return kinds or [one.kind for one in DECISIONS if name == one.word]


def _object_kinds(text: str) -> list[str]:
    try:
        return kinds_named(text, "--kind")
    except UsageError:
        names = ", ".join(dict.fromkeys(_plain(one.kind) for one in EVENTS))
        raise UsageError(
            f"--kind {text}: there is no such kind; give decision, outcome, observation, a Kubernetes kind, or one of {names}"
        ) from None


def _plain(kind: str) -> str:
    """Return a kind without its version."""
    return kind.rpartition(".")[0]


def _subjects(text: str) -> list[str]:
    """Return the subjects of records that a name may mean."""
    parts = text.strip().split("/")
    if len(parts) > 1 and parts[0][:1].isupper() and parts[0] in KINDS:
        is_namespaced = KINDS[parts[0]].resource.is_namespaced
        space = parts[1] if len(parts) == 3 else "default" * is_namespaced
        if len(parts) > 3 or not parts[-1] or (space and not is_namespaced):
            raise UsageError(f"--subject {text}: give KIND/NAME, or KIND/NAMESPACE/NAME")
        return [f"{parts[0]}/{space}/{parts[-1]}"]
    return [
        f"{kind}/{key}" if kind in ("Pod", "PodGroup") else f"{kind}//{key}"
        for kind, key in candidates(text)
    ]
