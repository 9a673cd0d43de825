"""The device families of muster that belong to no feature."""

from typing import Final

from projections.device_family import DeviceFamily
from scheduling.device_families.whole_cards import WholeCards

FAMILIES: Final[tuple[DeviceFamily, ...]] = (WholeCards(),)
