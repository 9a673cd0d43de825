"""The part of a `why` that a tenant may read: nothing about objects of other namespaces.

Fields are taken over one by one, so that a field that `Answer` gains later is not shown before it is added here. Of
sentences that decisions and plugins write, one that names an object of another namespace is left out whole: what else
it says may be about that object too.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from events.amount_text import amount_text
from replay.node_text import table_lines
from replay.why_answer import Answer
from replay.why_text import spelled
from scheduling.explanation import Judged, Limit, Waiting

WITHHELD: Final = "(left out: it names objects of another namespace)"
"""Stands for a sentence that names objects of other namespaces."""

SHOWN_FACTS: Final = (
    *("phase", "node", "pod_group", "queue", "priority", "min_available", "pods"),
    *("requests", "accepts_cards", "charged", "reserved", "devices", "uid"),
)
"""Facts about the subject itself."""

SHOWN_LEVELS: Final = ("pod group", "queue", "admission", "card", "gang", "devices", "quota")
"""Checks whose text is about the pod group and its own queue. Of the others only the result is shown: their texts compare nodes,
and pods that would be evicted."""

_KEY: Final = re.compile(r"(?<![\w./-])(?:[A-Za-z]+/)??([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[a-z0-9]")
"""`namespace/name` or `Kind/namespace/name`. A namespace has no dot, so `nvidia.com/gpu` is not one."""


class TenantStep(Struct, frozen=True):
    """A record about the subject; equal ones in a row are one step."""

    position: int
    at: str
    at_ns: int
    text: str
    count: int


class TenantCheck(Struct, frozen=True):
    """A check that the pod group has to pass. The text is empty if it compares other tenants' objects."""

    level: str
    passed: bool
    text: str


class TenantLimit(Struct, frozen=True):
    """A resource or card of the subject's own queue. The amounts of all that use the queue are added up."""

    name: str
    used: int
    reserved: int
    requested: int
    limit: int | None
    short: int


class TenantLine(Struct, frozen=True):
    """The place of the pod group in the line of its queue."""

    action: str
    place: int
    of: int
    ahead: tuple[str, ...]
    """Pod groups of the same namespace just before it."""


class TenantNodes(Struct, frozen=True):
    """The nodes, judged for one waiting pod, as numbers."""

    pod: str
    total: int
    fitting: int
    large_enough: int
    reasons: dict[str, int]


class TenantWaiting(Struct, frozen=True):
    """What the pod group waits for."""

    pod_group: str
    code: str
    checks: tuple[TenantCheck, ...]
    quota: tuple[TenantLimit, ...]
    nodes: TenantNodes | None
    line: TenantLine | None


class TenantAnswer(Struct, frozen=True):
    """The answer for a pod or pod group."""

    subject: str
    position: int
    at: str
    at_ns: int
    state: str
    facts: dict[str, str]
    waiting: TenantWaiting | None
    pods: tuple[str, ...]
    """The pods of a pod group, with what became of each."""
    steps: tuple[TenantStep, ...]
    steps_left_out: int


def tenant_answer(answer: Answer) -> TenantAnswer:
    """Return what the tenants of the subject's namespace may read. The subject is a pod or a pod group."""
    kind, namespace, _ = answer.subject.split("/")
    assert kind in ("Pod", "PodGroup"), "nodes and queues have no tenant"
    pods = answer.lists.get("pods", ())
    return TenantAnswer(
        subject=answer.subject,
        position=answer.position,
        at=answer.at,
        at_ns=answer.at_ns,
        state=own_text(answer.state, namespace),
        facts={
            name: own_text(answer.facts[name], namespace)
            for name in SHOWN_FACTS
            if name in answer.facts
        },
        waiting=None if answer.waiting is None else _waiting(answer.waiting, namespace),
        pods=tuple(own_text(one, namespace) for one in pods),
        steps=tuple(
            TenantStep(one.position, one.at, one.at_ns, own_text(one.text, namespace), one.count)
            for one in answer.steps
        ),
        steps_left_out=answer.steps_left_out,
    )


def own_text(text: str, namespace: str) -> str:
    """Return a text, or WITHHELD if it names an object of another namespace."""
    is_own = all(found[1] == namespace for found in _KEY.finditer(text))
    return text if is_own else WITHHELD


def tenant_lines(answer: TenantAnswer) -> list[str]:
    """Return the answer as lines of text."""
    lines = [f"{answer.subject} at position {answer.position} ({answer.at}): {answer.state}"]
    width = max((len(name) for name in answer.facts), default=0)
    lines += [f"  {spelled(name):<{width}}  {text}" for name, text in answer.facts.items()]
    if answer.waiting is not None:
        lines += ["", *_waiting_lines(answer.waiting)]
    if answer.pods:
        lines += ["", "pods:", *(f"  {one}" for one in answer.pods)]
    lines += ["", "history:"]
    width = max((len(step.at) for step in answer.steps), default=0)
    for step in answer.steps:
        more = f" ({step.count} times)" if step.count > 1 else ""
        lines.append(f"  {step.position:>6}  {step.at:<{width}}  {step.text}{more}")
    if answer.steps_left_out:
        lines.append(f"  ({answer.steps_left_out} steps in between are left out)")
    return lines


def _waiting(waiting: Waiting, namespace: str) -> TenantWaiting:
    line = waiting.line
    return TenantWaiting(
        pod_group=waiting.pod_group,
        code=waiting.code,
        checks=tuple(
            TenantCheck(
                one.level,
                one.passed,
                own_text(one.text, namespace) if one.level in SHOWN_LEVELS else "",
            )
            for one in waiting.hurdles
        ),
        quota=tuple(_limits(waiting.admission or waiting.quota)),
        nodes=None if waiting.nodes is None else _nodes(waiting.nodes, namespace),
        line=None
        if line is None
        else TenantLine(
            action=line.action,
            place=line.place,
            of=line.of,
            ahead=tuple(one for one in line.ahead if one.partition("/")[0] == namespace),
        ),
    )


def _limits(limits: Iterable[Limit]) -> Iterable[TenantLimit]:
    for one in limits:
        # An ancestor's use is that of other teams.
        if not one.queue:
            yield TenantLimit(one.name, one.used, one.reserved, one.requested, one.limit, one.short)


def _nodes(nodes: Judged, namespace: str) -> TenantNodes:
    reasons: dict[str, int] = {}
    for text, count in nodes.reasons.items():
        shown = own_text(text, namespace)
        reasons[shown] = reasons.get(shown, 0) + count
    return TenantNodes(nodes.pod, nodes.total, nodes.fitting, nodes.large_enough, reasons)


def _waiting_lines(waiting: TenantWaiting) -> list[str]:
    lines = [f"checks of pod group {waiting.pod_group}:"]
    for one in waiting.checks:
        text = one.text or ("passed" if one.passed else "not passed")
        lines.append(
            f"  {'ok' if one.passed else 'NO'}  {one.level}: {text.removeprefix(f'{one.level}: ')}"
        )
    if (line := waiting.line) is not None:
        ahead = f", behind {', '.join(line.ahead)}" if line.ahead else ""
        lines.append(f"  place {line.place} of {line.of} in line for {line.action}{ahead}")
    rows: list[tuple[str, ...]] = [("", "used", "reserved", "requested", "limit", "short")]
    for limit in waiting.quota:
        numbers = (limit.used, limit.reserved, limit.requested, limit.limit, limit.short)
        shown = ["none" if one is None else amount_text(limit.name, one) for one in numbers]
        rows.append((limit.name, *shown))
    if len(rows) > 1:
        lines += ["quota of its queue:", *table_lines(rows)]
    if (nodes := waiting.nodes) is not None:
        lines.append(
            f"nodes for pod {nodes.pod} alone: it fits {nodes.fitting} of {nodes.total} now, and"
            f" {nodes.large_enough} if they were empty"
        )
        most_first = sorted(nodes.reasons.items(), key=lambda one: (-one[1], one[0]))
        lines += [f"  {count:>5}  {text}" for text, count in most_first]
    return lines
