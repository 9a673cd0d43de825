"""Policies under which one tenant attacks another, and the queues of the two."""

import json
from typing import Any, Final

from msgspec import Struct

from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import Object
from tests.control_plane.manifests import CARD, GPU, GPU_NAME
from tests.e2e.hostile_tenant import TENANT
from tests.e2e.rig import POOL, Rig

ACTIONS: Final = (
    "enqueue, reschedule, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim"
)
DESERVED: Final = {"cpu": "128", "memory": "512Gi", GPU: "16", CARD: "4"}
"""What each of the two queues deserves: it holds what the neighbour's pods take, and less than half of the cluster."""


class Policy(Struct, frozen=True, kw_only=True):
    """A policy of the table."""

    name: str
    tiers: list[list[str | Object]]
    decider: str = ""
    """The decider of the pool of the test's nodes; empty for the one pool that actions and plugins decide."""
    quotas: bool = True
    actions: str = ACTIONS

    def document(
        self, rig: Rig, queues: dict[str, list[str]], creation_timeout: str = ""
    ) -> Object:
        """The policy file.

        `queues` are namespaces by the queue that only they may use, `creation_timeout` is the time for which an admitted group
        without pods keeps its reservation.
        """
        tiers = [
            {"plugins": [{"name": one} if isinstance(one, str) else one for one in tier]}
            for tier in self.tiers
        ]
        document: Object = {"tiers": tiers, "tenants": {"label": TENANT}}
        document["queues"] = [
            {"name": name, "namespaces": namespaces} for name, namespaces in queues.items()
        ]
        if creation_timeout:
            arguments = {"podCreationTimeout": creation_timeout}
            document["configurations"] = [{"name": "enqueue", "arguments": arguments}]
        if not self.quotas:
            document["quotas"] = "none"
        if not self.decider:
            return document | {"actions": self.actions}
        own: dict[str, Any] = {
            "name": "own",
            "nodeSelector": {POOL: rig.namespace},
            "decider": self.decider,
            "slots": [GPU],
            # Released pods are evicted at once, whatever their job states.
            "preemptionTimeout": "0s",
            "preemptionTimeoutMax": "0s",
            "weightMax": 1,
        }
        if self.decider == "fair_share":
            own["shareBasis"] = "equal"
        return document | {"pools": [own], "defaultComputePool": "own", "defaultAuxPool": "own"}


_SCORES: Final = [
    *("nodeorder", "binpack", "gpu-fragmentation", "volcano-npu", "network-topology-aware"),
]
ALL: Final = Policy(
    name="all",
    tiers=[
        ["priority", "gang", "conformance", "sla"],
        ["drf", "overcommit", "predicates", "capacity", *_SCORES],
    ],
)
"""Every action, and every plugin that can stand beside the others."""

PRIORITY: Final = Policy(
    name="priority",
    decider="priority",
    tiers=[["priority", "gang", "conformance"], ["predicates", "capacity", *_SCORES]],
)
FAIR_SHARE: Final = Policy(
    name="fair_share",
    decider="fair_share",
    tiers=[["priority", "gang", "conformance"], ["predicates", "capacity", *_SCORES]],
)
HIERARCHY: Final = Policy(
    name="hierarchical drf",
    quotas=False,
    tiers=[
        ["priority", "gang", "conformance"],
        [{"name": "drf", "enableHierarchy": True}, "predicates", *_SCORES],
    ],
)
"""Without a plugin of quotas: `proportion` may not stand beside hierarchical `drf`."""
CARDS: Final = Policy(
    name="capacity-card",
    tiers=[
        ["priority", "gang", "conformance", "sla"],
        [
            *("drf", "overcommit", "predicates"),
            {"name": "capacity-card", "arguments": {"unnamedCardPolicy": "infer"}},
            *_SCORES,
        ],
    ],
)
POLICIES: Final = (ALL, PRIORITY, FAIR_SHARE, HIERARCHY, CARDS)


def queue(name: str, weights: str = "1/1") -> Object:
    """A queue that deserves enough for a tenant under each of the policies."""
    quota = {GPU_NAME: 16, f"{GPU_NAME}/milli": 16_000, "Ascend910": 4}
    annotations = {
        "volcano.sh/card.quota": json.dumps(quota),
        "volcano.sh/hierarchy": f"root/{name}",
        "volcano.sh/hierarchy-weights": weights,
    }
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"weight": 1, "deserved": DESERVED, "reclaimable": True},
    }
