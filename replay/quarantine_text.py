"""Texts about nodes that are closed because their kubelets rejected pods (K5.12)."""

from typing import Final

from projections.quarantine import Quarantine, Quarantines
from projections.tenants import tenant_text
from replay.log_time import format_time

SHOWN: Final = 5
"""Number of nodes that a text about all of them names."""


def quarantine_text(quarantines: Quarantines, node: str) -> str:
    """Say to which pods a node is closed, why and until when; empty if to none."""
    found: list[str] = []
    for one in quarantines.standing(node):
        end_ns = quarantines.end_ns(one)
        until = format_time(end_ns, end_ns)
        found.append(f"closed to {_whose(one)} until {until} ({one.reason})")
    return f"its kubelet rejected pods: {'; '.join(found)}" if found else ""


def closed_nodes_text(quarantines: Quarantines) -> str:
    """Name the nodes that are closed to pods, and to which, some of them; empty without any."""
    by_node: dict[str, list[Quarantine]] = {}
    for one in quarantines.all.values():
        if not one.is_over:
            by_node.setdefault(one.node, []).append(one)
    if not by_node:
        return ""
    shown = [
        f"{node} to {'; '.join(f'{_whose(one)} ({one.reason})' for one in found[:SHOWN])}"
        for node, found in sorted(by_node.items())[:SHOWN]
    ]
    count = f"{len(by_node)} {'node is' if len(by_node) == 1 else 'nodes are'} closed"
    return f"{count}: {', '.join(shown)}{', ...' if len(by_node) > SHOWN else ''}"


def _whose(one: Quarantine) -> str:
    pods = f"pods of {tenant_text(one.tenant)}" if one.tenant else "all pods"
    return pods if one.resource == "pods" else f"{pods} that request {one.resource}"
