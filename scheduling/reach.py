"""How much room evictions could make at most, node by node, without looking at all of them again.

    at most = future + what pods of certain queues below a certain priority request

What plugins, budgets and pods themselves forbid is left out of account: a node that is short by this sum is
not worth a closer look. The sums only ever save time; each can be made anew from State.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.nodes import Node, Request
from projections.pod_class import Amounts
from projections.pods import ALLOCATED

COLUMNS_MAX: Final = 1024
"""Columns kept at a time; when there are more, all are forgotten."""

Whose: TypeAlias = tuple[str, str, int | None]
"""Action, queue of the one who asks, and the priority from which on nobody is evicted (None: anybody may be)."""

_Tally: TypeAlias = dict[tuple[str, int], Amounts]
"""Queue and priority of groups to what their pods on one node request."""


class Reach:
    """The sums of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layout = -1
        self._moved = self._remade = 0
        self._tallies: list[_Tally | None] = []
        self._columns: dict[tuple[Whose, str], npt.NDArray[np.int64]] = {}

    def within(self, whose: Whose, request: Request) -> npt.NDArray[np.bool_]:
        """Which nodes evictions could free for a request, slot by slot."""
        self._refresh()
        can = np.ones(len(self._cluster.nodes.order), dtype=np.bool_)
        for name, amount in request:
            can &= self._column(whose, name) >= amount
        return can

    def _column(self, whose: Whose, name: str) -> npt.NDArray[np.int64]:
        found = self._columns.get((whose, name))
        if found is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns.clear()
            nodes = self._cluster.nodes.order
            found = np.fromiter(
                (self._most(node, whose, name) for node in nodes), dtype=np.int64, count=len(nodes)
            )
            self._columns[whose, name] = found
        return found

    def _refresh(self) -> None:
        table = self._cluster.nodes
        if self._layout != table.layout:
            self._layout = table.layout
            self._columns.clear()
            self._tallies = [None] * len(table.order)
        else:
            slots = dict.fromkeys(table.moved[self._moved :])
            slots.update(dict.fromkeys(table.remade[self._remade :]))
            for slot in slots:
                self._tallies[slot] = None
            for (whose, name), column in self._columns.items():
                for slot in slots:
                    column[slot] = self._most(table.order[slot], whose, name)
        self._moved, self._remade = len(table.moved), len(table.remade)

    def _most(self, node: Node, whose: Whose, name: str) -> int:
        action, queue, bound = whose
        tally = self._tallies[node.slot]
        if tally is None:
            tally = self._tallies[node.slot] = self._tally(node)
        most = node.future(name)
        for (owner, priority), amounts in tally.items():
            if (owner == queue) == (action == "preempt") and (bound is None or priority < bound):
                most += amounts.get(name, 0)
        return most

    def _tally(self, node: Node) -> _Tally:
        cluster = self._cluster
        tally: _Tally = {}
        for uid in node.pods:
            pod = cluster.pods[uid]
            group = cluster.groups.get(pod.group_key)
            if group is None or not pod.facts.is_evictable or pod.status not in ALLOCATED:
                continue
            amounts = tally.setdefault((group.queue, group.priority), {})
            for name, amount in pod.pod_class.request:
                amounts[name] = amounts.get(name, 0) + amount
        return tally
