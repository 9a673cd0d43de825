"""The table of device families: importing this module puts those of muster into it, in `projections/device_family.py`."""

from projections.device_family import register_families
from scheduling.device_families.ascend_chips import AscendChips
from scheduling.device_families.gpu_shares import GpuShares
from scheduling.device_families.virtual_npus import VirtualNpus
from scheduling.device_families.whole_cards import WholeCards

register_families(WholeCards(), AscendChips(), VirtualNpus(), GpuShares())
