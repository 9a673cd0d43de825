"""What ends when its time has come: rests after a failure, pods spared from eviction, quarantines.

A deadline makes a cycle due, and is taken in when that cycle opens.
"""

from itertools import islice
from typing import Protocol

from events.watch import BindRejectedByNode
from projections import sla, suspensions
from projections.cluster import Cluster
from projections.quarantine import Quarantine, rejected


class Timed(Protocol):
    """The part of State that has deadlines."""

    cluster: Cluster
    now_ns: int
    quarantined: dict[str, dict[str, Quarantine]]


def next_deadline(state: Timed) -> int | None:
    """When the next thing is over; None where nothing is timed."""
    cluster = state.cluster
    ends = [*cluster.resting.values(), *cluster.spared.values()]
    ends += cluster.commons.deadlines.values()
    ends += cluster.internal_errors.ends()
    # Time never runs backwards: the first of these ends first.
    ends += islice(cluster.commons.patience.values(), 1)
    for of_node in state.quarantined.values():
        ends += [one.until_ns for one in of_node.values()]
    return min(ends, default=None)


def let_pass(state: Timed, at_ns: int) -> None:
    """Take in all that is over by now."""
    cluster = state.cluster
    for key in [key for key, until in cluster.resting.items() if until <= at_ns]:
        cluster.rouse(key)
    suspensions.let_pass(cluster, at_ns)
    sla.let_pass(cluster, at_ns)
    for uid in [uid for uid, until in cluster.spared.items() if until <= at_ns]:
        _unspare(cluster, uid)
    for name in list(state.quarantined):
        for resource, quarantine in list(state.quarantined[name].items()):
            if quarantine.until_ns <= at_ns:
                _let_out(state, name, resource)


def shut_off(state: Timed, event: BindRejectedByNode) -> None:
    """Give nothing of what a kubelet refused away for a while (K5.12)."""
    cluster = state.cluster
    node = cluster.nodes.nodes.get(event.node)
    if node is None or node.facts is None:
        return
    for resource in event.resources:
        quarantine = rejected(node.quarantine.get(resource), state.now_ns)
        cluster.nodes.set_quarantine(node, resource, quarantine)
    state.quarantined[node.name] = node.quarantine
    cluster.touched.nodes[node.name] = None


def _let_out(state: Timed, name: str, resource: str) -> None:
    cluster = state.cluster
    node = cluster.nodes.nodes.get(name)
    kept = state.quarantined[name]
    kept.pop(resource, None)
    if not kept:
        del state.quarantined[name]
    if node is not None and node.facts is not None:
        cluster.nodes.set_quarantine(node, resource, None)
        cluster.free_up(name)
        cluster.touched.nodes[name] = None


def _unspare(cluster: Cluster, uid: str) -> None:
    """A pod may be evicted after all: whoever waits for its room may ask again."""
    del cluster.spared[uid]
    pod = cluster.pods.get(uid)
    if pod is not None and pod.node:
        cluster.free_up(pod.node)
