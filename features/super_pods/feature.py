"""SuperPoDs of A3 servers, where the policy names `volcano-npu`."""

from typing import Final

from features.ascend.volcano_npu import names_npu
from features.super_pods.annotations import SuperPodAnnotations
from features.super_pods.documents import SuperPodTopology
from features.super_pods.index import SuperPods
from features.super_pods.logical_super_pods import LogicalSuperPods
from features.super_pods.placement import SuperPodPlacement
from features.super_pods.rows import SuperPodPlace
from projections.feature import Feature

SUPER_PODS: Final = Feature(
    name="SuperPoDs",
    is_named=names_npu,
    hooks=(
        SuperPodPlacement(),
        SuperPodAnnotations(),
        LogicalSuperPods(),
        SuperPodPlace(),
        SuperPodTopology(),
    ),
    indexes=(SuperPods,),
)
