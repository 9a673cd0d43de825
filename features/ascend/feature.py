"""Ascend NPUs: whole chips and virtual NPUs, and the reports of their device stack."""

from typing import Final

from features.ascend.ascend_chips import AscendChips
from features.ascend.config_map import REPORT_KINDS
from features.ascend.fault_config_maps import FaultNodes, RestartRecords
from features.ascend.virtual_npus import VirtualNpus
from features.ascend.volcano_npu import VolcanoNpu, names_npu
from projections.feature import Feature

ASCEND: Final = Feature(
    name="Ascend NPUs",
    plugins=(VolcanoNpu,),
    hooks=(*REPORT_KINDS, AscendChips(), VirtualNpus()),
)

ASCEND_FAULTS: Final = Feature(
    name="fault reports of Ascend NPUs",
    is_named=names_npu,
    hooks=(FaultNodes(), RestartRecords()),
)
