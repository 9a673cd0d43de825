"""The device families of muster that belong to no feature."""

from typing import Final

from projections.device_family import DeviceFamily
from scheduling.device_families.ascend_chips import AscendChips
from scheduling.device_families.virtual_npus import VirtualNpus
from scheduling.device_families.whole_cards import WholeCards

FAMILIES: Final[tuple[DeviceFamily, ...]] = (WholeCards(), AscendChips(), VirtualNpus())
