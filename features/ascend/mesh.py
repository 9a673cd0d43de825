"""Meshes of four linked chips, `4k` to `4k + 3` (policies `chip4-node8` and `chip4-node16`).

Fewer than 4 chips of a task are in one mesh; 4, 8, 12 and 16 are complete meshes; other numbers are any chips.
"""

from dataclasses import dataclass
from typing import Final

from features.ascend.chips import (
    ChipRequest,
    Chips,
    Group,
    Placing,
    Product,
    device_names,
    groups,
    lowest,
)

MESH: Final = 4


@dataclass(frozen=True)
class Mesh(Product):
    """Two or four meshes of four chips."""

    title = "mesh of 4"
    group = Group("mesh", MESH)
    chips_max: int = 8

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return chips of the mesh in which the fewest remain, the lowest complete meshes, or the lowest ids."""
        count, most = request.count, self.chips_max
        waste = usable.bit_count() - count
        if count > MESH and count % MESH:
            return Placing(most * (most - waste), lowest(usable, count))
        size = min(count, MESH)
        meshes = [one for one in groups(usable, MESH, most) if one.bit_count() >= size]
        needed = max(1, count // MESH)
        if len(meshes) < needed:
            return None
        chosen = sum(sorted(meshes, key=int.bit_count)[:needed])
        best = most * (len(meshes) - needed) + waste
        scale = most * most // MESH
        return Placing(scale * (scale - best), lowest(chosen, count))

    def topology_problem(self, request: ChipRequest, chips: Chips, usable: int) -> str:
        """Name the chips that cannot reach other nodes."""
        lost = device_names(request.resource, chips.network_unhealthy)
        return (
            "the npus on this node don't satisfy the schedulable topology, "
            f"network unhealthy card is [ {lost} ]"
        )
