"""All nodes for one pod, a row for each: what `muster fit` and `muster why` list."""

from typing import Final

from msgspec import Struct

from replay.node_text import points_text, shortfall_text, table_lines
from scheduling.explanation import JudgedNode, JudgedPod

ROWS_MAX: Final = 5
"""Maximum number of nodes that fit, and of nodes that do not, in a text."""


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
    """Return the best nodes with their scores, and some of those that the pod does not fit."""
    fitting = [one for one in answer.nodes if one.fits]
    others = [one for one in answer.nodes if not one.fits]
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
    lines += [f"  {one.node}: {one.reason}" for one in others[:ROWS_MAX]]
    left = len(fitting) - len(best) + max(0, len(others) - ROWS_MAX)
    return [*lines, f"  ... and {left} more (-o json lists every node)"] if left else lines


def _row(one: JudgedNode) -> NodeRow:
    reason = "" if one.shortfall is None else shortfall_text(one.shortfall)
    return NodeRow(one.node, one.shortfall is None, reason, one.parts, one.devices)
