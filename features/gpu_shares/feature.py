"""Shares of GPUs, where nodes state that their GPUs are shared."""

from typing import Final

from features.gpu_shares.device_family import GpuShares
from features.gpu_shares.gpu_fragmentation import GpuFragmentation
from projections.feature import Feature

GPU_SHARES: Final = Feature(
    name="GPU shares",
    plugins=(GpuFragmentation,),
    hooks=(GpuShares(),),
)
