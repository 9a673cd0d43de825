"""Where the volumes of a waiting pod are, or why its claims cannot be used."""

from collections.abc import Iterable
from typing import Final

from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.volumes.facts import ClaimFacts
from scheduling.explanation import Hurdle
from scheduling.node_ranking import NodeRankings
from scheduling.volumes.claim_check import claim_refusal, facts_of_claim, facts_of_volume

CLAIMS_MAX: Final = 8
"""The most claims that are listed."""


def volume_hurdle(rankings: NodeRankings, group: PodGroup, pod: Pod | None) -> Iterable[Hurdle]:
    """Yield the check of the volumes of a pod; nothing if its volumes need no claim, or the policy does not check them."""
    if pod is None or not pod.pod_class.claims:
        return
    refused = claim_refusal(rankings.cluster, pod.pod_class, group)
    if refused is not None:
        yield Hurdle("volumes", False, refused.message)
        return
    pod_topology = rankings.pod_topology(pod.pod_class)
    if pod_topology is None or not pod_topology.volumes.is_enabled:
        return
    conflict = pod_topology.volumes.conflict()
    if conflict is not None:
        yield Hurdle("volumes", False, conflict.message)
        return
    where = {claim.claim: one.text for claim, one in reversed(pod_topology.volumes.constraints())}
    names = list(dict.fromkeys(one.claim for one in pod.pod_class.claims))
    shown = [_claim_text(rankings.cluster, one, where.get(one, "")) for one in names[:CLAIMS_MAX]]
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    yield Hurdle("volumes", True, ", ".join([*shown, *more]))


def _claim_text(cluster: Cluster, name: str, where: str) -> str:
    claim = facts_of_claim(cluster, name) or ClaimFacts()
    volume = facts_of_volume(cluster, claim.volume)
    text = f"claim {name} is bound to {claim.volume}"
    if not where:
        return f"{text}, which every node can reach"
    if volume is not None and volume.is_local:
        return f"{text}, a local volume: its pods run only on {where}"
    return f"{text} ({where})"
