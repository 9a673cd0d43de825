"""The answer to a `why` as lines of text."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from events.amount_text import amount_text, amounts_text
from replay.node_text import points_text, shortfall_text, table_lines
from replay.why_answer import Answer, QuotaChange, Step
from scheduling.explanation import Choice, Held, Judged, JudgedNode, Limit, Waiting

WALK_MAX: Final = 60
"""Maximum steps of a placement in the network that text shows."""


Rows: TypeAlias = list[tuple[str, ...]]
"""A table: its headers, and its rows."""


def lines_of(answer: Answer, table: Callable[[Rows], list[str]] = table_lines) -> list[str]:
    """Return all lines of an answer: what it is, what it waits for, why it got its nodes, its history. `table` lays the wide tables
    out."""
    subject = answer.subject.replace("//", "/")  # Nodes and queues have no namespace.
    lines = [f"{subject} at position {answer.position} ({answer.at}): {answer.state}"]
    lines += _facts(answer.facts)
    if answer.quota_change is not None:
        lines += ["", *_quota_change(answer.quota_change)]
    if answer.waiting is not None:
        lines += ["", *waiting_lines(answer.waiting)]
    for choice in answer.choices:
        lines += ["", *_choice(choice, answer, table)]
    for heading, entries in answer.lists.items():
        if entries:
            lines += ["", f"{spelled(heading)}:", *(f"  {entry}" for entry in entries)]
    lines += ["", "history:", *_steps(answer.steps)]
    if answer.steps_left_out:
        lines.append(f"  ({answer.steps_left_out} steps in between are left out)")
    if answer.steps_since:
        lines.append(
            f"  (before position {answer.steps_since}, only changes of the object itself are listed)"
        )
    return lines


def spelled(name: str) -> str:
    """Return the name of a fact or list as text shows it: `pod_group` as `pod group`."""
    return name.replace("_", " ")


def _facts(facts: Mapping[str, str]) -> list[str]:
    width = max((len(name) for name in facts), default=0)
    return [f"  {spelled(name):<{width}}  {text}" for name, text in facts.items()]


def _quota_change(change: QuotaChange) -> list[str]:
    by = (
        f"by {change.manager} at {change.changed_at}" if change.manager else "by an unknown manager"
    )
    if change.what == "changed":
        lines = [f"quota changed last at position {change.position} ({change.at}), {by}:"]
        return lines + [f"  {one.field}: {one.before} -> {one.after}" for one in change.fields]
    lines = [f"quota as first seen at position {change.position} ({change.at}), {by}:"]
    return lines + [f"  {one.field}: {one.after}" for one in change.fields]


def _steps(steps: Iterable[Step]) -> list[str]:
    lines: list[str] = []
    width = max((len(step.at) for step in steps), default=0)
    for step in steps:
        more = ""
        if step.count > 1:
            more = f" (and {step.count - 1} more like it, up to {step.last_position})"
        lines.append(f"  {step.position:>6}  {step.at:<{width}}  {step.text}{more}")
        lines += [f"  {'':>6}  {'':<{width}}    {detail}" for detail in step.details]
    return lines


def waiting_lines(waiting: Waiting) -> list[str]:
    """Return what a pod group waits for, level by level."""
    lines = [f"checks of pod group {waiting.pod_group}:"]
    lines += [
        # Texts about victims begin with the name of their action, which is the level.
        f"  {'ok' if one.passed else 'NO'}  {one.level}: {one.text.removeprefix(f'{one.level}: ')}"
        for one in waiting.hurdles
    ]
    if waiting.since:
        lines.append(f"  refused at position {waiting.since}")
    if waiting.line is not None:
        line = waiting.line
        ahead = f", behind {', '.join(line.ahead)}" if line.ahead else ""
        lines.append(f"  place {line.place} of {line.of} in line for {line.action}{ahead}")
    if waiting.admission:
        lines += _limits("quota of its queue for admission:", waiting.admission)
    else:
        lines += _limits("quota of its queue for placement:", waiting.quota)
    if waiting.nodes is not None:
        lines += _judged(waiting.nodes)
    for held in waiting.held:
        lines += _held(held)
    return lines


def _limits(heading: str, limits: Iterable[Limit]) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "used", "reserved", "requested", "limit", "short")]
    for one in limits:
        numbers = (one.used, one.reserved, one.requested, one.limit, one.short)
        shown = ["none" if number is None else amount_text(one.name, number) for number in numbers]
        rows.append((f"{one.name} of queue {one.queue}" if one.queue else one.name, *shown))
    return [heading, *table_lines(rows)] if len(rows) > 1 else []


def _judged(nodes: Judged) -> list[str]:
    if not nodes.total:
        return [f"nodes for pod {nodes.pod}: there are none"]
    lines = [f"nodes for pod {nodes.pod} alone: it fits {nodes.fitting} of {nodes.total} now"]
    if not nodes.large_enough:
        lines.append("  it would fit none of them even if they were empty")
    elif not nodes.fitting:
        lines.append(f"  it would fit {nodes.large_enough} of them if they were empty")
    lines += _reasons(nodes.reasons)
    if nodes.nearest:
        lines.append("nearest nodes:")
    return [*lines, *(f"  {one.node}: {shortfall_text(one)}" for one in nodes.nearest)]


def _held(held: Held) -> list[str]:
    whole = f" of {amount_text(held.name, held.total)}" if held.total else ""
    shares = ", ".join(f"{name} {amount_text(held.name, n)}" for name, n in held.queues.items())
    lines = [
        f"{held.name}: {amount_text(held.name, held.allocated)}{whole} held by pod groups"
        f"{', by queue: ' if shares else ''}{shares}"
    ]
    lines += [
        f"  {amount_text(held.name, one.held)} by {one.pod_group} of queue {one.queue}"
        for one in held.holders
    ]
    if held.others:
        lines.append(f"  and {held.others} more")
    return lines


def _choice(choice: Choice, answer: Answer, table: Callable[[Rows], list[str]]) -> list[str]:
    charged = f", charged {amounts_text(choice.cards)}" if choice.cards else ""
    of = f" of {choice.domain}" if choice.domain else ""
    lines = [
        f"why {choice.node} for {choice.pod}{charged}: decision {answer.decision} of cycle"
        f" {answer.cycle}, it fitted {choice.candidates} of {choice.nodes} nodes{of}"
    ]
    if not choice.agrees:
        lines.append(
            "  (recomputed now, another node ranks first: another version of the code decided this)"
        )
    names = list(dict.fromkeys(name for one in choice.ranked for name in one.parts))
    free = list(dict.fromkeys(name for one in choice.ranked for name in one.free))
    devices = ("devices",) if any(one.devices for one in choice.ranked) else ()
    rows = [("", "score", *names, *(f"free {name}" for name in free), *devices)]
    for one in choice.ranked:
        given = (", ".join(one.devices),) if devices else ()
        rows.append((*_judged_node(one, choice, names, free), *given))
    lines += table(rows)
    lines += _reasons(choice.reasons)
    if choice.walk:
        shown, more = choice.walk[:WALK_MAX], len(choice.walk) - WALK_MAX
        lines += ["how the nodes of the whole job were chosen:", *(f"  {one}" for one in shown)]
        lines += [f"  and {more} more steps"] if more > 0 else []
    lines += _limits("quota of its queue just before:", choice.limits)
    return lines


def _judged_node(
    one: JudgedNode, choice: Choice, names: list[str], free: list[str]
) -> tuple[str, ...]:
    chosen = "*" if one.node == choice.node else " "
    points = [points_text(one.parts.get(name, 0)) for name in names]
    amounts = [amount_text(name, one.free.get(name, 0)) for name in free]
    return (f"{chosen} {one.node}", points_text(one.score), *points, *amounts)


def _reasons(reasons: Mapping[str, int]) -> list[str]:
    most_first = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return [f"  {count:>5}  {text}" for text, count in most_first]
