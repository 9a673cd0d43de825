"""All nodes for one pod, a row for each: what `muster fit` and `muster why` list."""

from typing import Final

from msgspec import Struct

from replay.node_text import points_text, shortfall_text, table_lines
from scheduling.explanation import JudgedNode, JudgedPod

ROWS_MAX: Final = 5
"""Maximum number of nodes that fit, and of reasons why others do not, in a text."""

NAMES_MAX: Final = 3
"""Maximum number of nodes that a text names for a reason."""


class NodeRow(Struct, frozen=True):
    """One node."""

    node: str
    fits: bool
    reason: str
    """Why the pod does not fit; empty if it does."""
    score: dict[str, int]
    """Scorer, plugin or device family to thousandths of a point; the sum is the score. Empty if the pod does not fit."""
    devices: tuple[str, ...]
    """Names of the devices that the pod would get."""


class PodNodes(Struct, frozen=True):
    """All nodes for one pod alone."""

    pod: str
    alike: int
    """The number of waiting pods of its group to which the same applies, itself included; 1 for a pod with a node."""
    nodes: tuple[NodeRow, ...]


def pod_nodes(judged: JudgedPod) -> PodNodes:
    """Return the rows of an answer of the decider."""
    return PodNodes(judged.pod, judged.alike, tuple(_row(one) for one in judged.nodes))


def pod_nodes_lines(answer: PodNodes) -> list[str]:
    """Return the best nodes with their scores, and the most frequent reasons why the pod does not fit others."""
    fitting = [one for one in answer.nodes if one.fits]
    others: dict[str, list[str]] = {}
    for one in answer.nodes:
        if not one.fits:
            others.setdefault(one.reason, []).append(one.node)
    more = f" (and {answer.alike - 1} more like it)" if answer.alike > 1 else ""
    lines = [
        f"nodes for pod {answer.pod}{more} alone, before any is placed: it fits {len(fitting)} of"
        f" {len(answer.nodes)}"
    ]
    best = sorted(fitting, key=lambda one: (-sum(one.score.values()), one.node))[:ROWS_MAX]
    names = list(dict.fromkeys(name for one in best for name in one.score))
    devices = ("devices",) if any(one.devices for one in best) else ()
    rows = [("", "score", *names, *devices)]
    for one in best:
        points = [points_text(one.score.get(name, 0)) for name in names]
        total = points_text(sum(one.score.values()))
        rows.append((one.node, total, *points, *((", ".join(one.devices),) if devices else ())))
    lines += table_lines(rows) if best else []
    frequent = sorted(others.items(), key=lambda one: (-len(one[1]), one[0]))[:ROWS_MAX]
    for reason, nodes in frequent:
        named = [*nodes[:NAMES_MAX], *(["..."] if len(nodes) > NAMES_MAX else [])]
        lines.append(f"  {len(nodes):>5}  {reason} ({', '.join(named)})")
    left = len(answer.nodes) - len(best) - sum(len(nodes) for _, nodes in frequent)
    return [*lines, f"  ... and {left} more (-o json lists every node)"] if left else lines


def _row(one: JudgedNode) -> NodeRow:
    reason = "" if one.shortfall is None else shortfall_text(one.shortfall)
    return NodeRow(one.node, one.shortfall is None, reason, one.parts, one.devices)
