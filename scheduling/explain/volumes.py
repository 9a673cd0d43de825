"""Where the volumes of a waiting pod are, or why its claims cannot be used."""

from collections.abc import Iterable
from typing import Final

from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.volumes.facts import ClaimFacts
from scheduling.explanation import Hurdle
from scheduling.node_ranking import NodeRankings
from scheduling.volumes.claim_check import ClaimCheck, VolumeLookup

CLAIMS_MAX: Final = 8
"""The most claims that are listed."""


def volume_hurdle(rankings: NodeRankings, group: PodGroup, pod: Pod | None) -> Iterable[Hurdle]:
    """Yield the check of the volumes of a pod; nothing if its volumes need no claim, or the policy does not check them."""
    if pod is None or not pod.pod_class.claims:
        return
    refused = ClaimCheck(rankings.cluster, pod.pod_class).refusal(group)
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
    lookup = VolumeLookup(rankings.cluster)
    names = list(dict.fromkeys(one.claim for one in pod.pod_class.claims))
    shown = [_claim_text(lookup, one, where.get(one, "")) for one in names[:CLAIMS_MAX]]
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    yield Hurdle("volumes", True, ", ".join([*shown, *more]))


def _claim_text(lookup: VolumeLookup, name: str, where: str) -> str:
    claim = lookup.claim(name) or ClaimFacts()
    volume = lookup.volume(claim.volume)
    text = f"claim {name} is bound to {claim.volume}"
    if not where:
        return f"{text}, which every node can reach"
    if volume is not None and volume.is_local:
        return f"{text}, a local volume: its pods run only on {where}"
    return f"{text} ({where})"
