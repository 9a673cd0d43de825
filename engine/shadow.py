"""Open decisions of a shadow: which of them it stops assuming, and when.

A shadow asks nothing of the API server, so no answer ends a decision. A placement that it decided stays assumed until
its pod has a node, which the scheduler of the pod gave it, or until it has been assumed for `hold_ns`. After that the pod
waits again and its room is free. An expected eviction ends in the same way.
"""

from collections.abc import Iterator
from typing import Final

from events.outcome import ShadowDecisionEnded
from projections.apply_outcome import BIND, EVICT
from projections.commitments import Commitment
from projections.state import State

HOLD_NS: Final = 300_000_000_000
"""How long a decision is assumed, where the settings do not say."""


class ShadowDecisions:
    """Since when this process knows each open decision of a State. After a restart the time begins again."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._since_ns: dict[tuple[str, str, int], int] = {}

    def ended(self, now_ns: int, hold_ns: int) -> Iterator[tuple[ShadowDecisionEnded, int]]:
        """Yield the outcomes of the decisions that end now, each with the position of its decision."""
        since: dict[tuple[str, str, int], int] = {}
        for what, decisions in (
            (BIND, self._state.commitments),
            (EVICT, self._state.evictions),
        ):
            for one in list(decisions.values()):
                key = what, one.uid, one.decision
                began_ns = self._since_ns.get(key, now_ns)
                if what == BIND and self._is_placed(one):
                    reason = "placed"
                elif now_ns - began_ns >= hold_ns:
                    reason = "expired"
                else:
                    since[key] = began_ns
                    continue
                yield (
                    ShadowDecisionEnded(
                        pod=one.pod,
                        uid=one.uid,
                        node=one.node,
                        what=what,
                        at_ns=now_ns,
                        reason=reason,
                    ),
                    one.decision,
                )
        self._since_ns = since

    def _is_placed(self, one: Commitment) -> bool:
        pod = self._state.cluster.pods.get(one.uid)
        return pod is not None and bool(pod.facts.node)
