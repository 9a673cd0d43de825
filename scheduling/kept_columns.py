"""Columns of the nodes that classes of pods with the same selector, tolerations and devices may use.

Such classes differ in the amounts that they request only. What nodes have and use, and the shares that are used before a pod
comes, are the same for all of them: they are kept, and read again for the nodes in the journal of changes.
"""

from typing import Final

import numpy as np

from projections.nodes import NodeTable
from projections.pods import Charge
from scheduling.device_points import DevicePoints
from scheduling.node_columns import Mask, NodeColumns, Slots, shares
from scheduling.node_predicates import NodePredicates

REREAD_SHARE: Final = 8
"""If up to one node in this many has changed, only those are read again; if more have, all are when they are asked for."""


class KeptColumns(NodeColumns):
    """The columns of the nodes that admit such pods and have the cards that they may be charged, free or not."""

    def __init__(self, table: NodeTable, predicates: NodePredicates, devices: DevicePoints) -> None:
        super().__init__(table, np.zeros(0, dtype=np.intp))
        self._predicates, self._devices = predicates, devices
        self._layout = self._updated = -1
        self._moved = 0
        self.points = self.zeros()
        """What devices add to the scores; -1 for a node on which those that are needed are not free."""
        self._place_of = self.slots
        """Slot to the place in the columns; -1 for other nodes."""

    def refresh(self) -> None:
        """Read what has changed, and forget the shares with a pod of the class before."""
        table = self._table
        if (self._layout, self._updated) != (table.layout, len(table.updated_slots)):
            self._layout, self._updated = table.layout, len(table.updated_slots)
            self._moved = len(table.changed_slots)
            self._find()
            return
        for key in [key for key in self._shares if key[1]]:
            del self._shares[key]
        changed = dict.fromkeys(table.changed_slots[self._moved :])
        self._moved = len(table.changed_slots)
        if len(changed) * REREAD_SHARE > len(self.slots):
            self._forget()
            self.points = self._devices.of_slots(self.slots)
        elif changed:
            places = self._place_of[list(changed)]
            self._read(places[places >= 0])

    def with_room(self, request: Charge) -> Mask | None:
        """Return which of the nodes have so much of everything free, and the devices; None if no node has one of the resources."""
        found = self.points >= 0
        for name, amount in request:
            amounts = self.amounts(name)
            if amounts is None:
                return None
            found &= amounts[1] >= amount
        return found

    def _find(self) -> None:
        """Find the nodes, because nodes came, were changed or went."""
        self.slots = self._predicates.admitting()
        there = self._devices.counted()
        if there is not None:
            self.slots = self.slots[there[self.slots]]
        self._place_of = np.full(len(self._table.order), -1, dtype=np.intp)
        self._place_of[self.slots] = np.arange(len(self.slots))
        self.points = self._devices.of_slots(self.slots)
        self._forget()

    def _read(self, places: Slots) -> None:
        """Read the nodes at these places of the columns again."""
        slots, free_now = self.slots[places], self._table.free
        if self._devices.names_devices:
            self.points[places] = self._devices.of_slots(slots)
        if not self._amounts.keys() <= free_now.keys():
            self._forget()
            return
        for name, (_, free) in self._amounts.items():
            free[places] = free_now[name][slots]
        for name, base in self._bases.items():
            whole, free = self._amounts[name]
            base.used[places] = whole[places] - free[places]
            before = self._shares.get((name, 0))
            if before is not None:
                before[places] = shares(
                    base.used[places] >> base.scale, whole[places] >> base.scale
                )

    def _forget(self) -> None:
        self._amounts, self._bases, self._shares = {}, {}, {}
