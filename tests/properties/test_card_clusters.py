"""Cards, quotas and gangs under all that happens to a cluster: at rest no pending pod fits."""

from collections import Counter
from typing import Final

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.example_count import examples
from tests.properties.card_cluster_sim import (
    CardClusterSim,
    Day,
    NodeShape,
    lives,
    node_shapes,
    policies,
    quotas,
)
from tests.properties.reached import rarely_reached

REACHED_MIN: Final = 1
REACHED: Final = (
    "pods are bound: a gang",
    "pods are nominated",
    "a pod is evicted: preempt",
    "a pod is evicted: reclaim",
    "a whole card is charged",
    "a slice is charged",
    "a share is charged",
    "one of several cards is charged",
    "a quota of cards is used up",
    "a quota is lowered below use",
    "a node is lost under its pods",
)
_seen: Counter[str] = Counter()


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    policy=policies,
    there=st.lists(node_shapes, min_size=1, max_size=3),
    quota=st.tuples(quotas, quotas),
    days=lives(),
)
def towns(
    policy: bytes,
    there: list[NodeShape],
    quota: tuple[dict[str, int], dict[str, int]],
    days: list[Day],
) -> None:
    card_sim = CardClusterSim(policy, there, quota)
    for day in days:
        card_sim.live(day)
        card_sim.judge()
    reached = card_sim.sim.witness.reached
    _seen.update(reached.keys())
    for what in reached:
        event(what)


def test_no_placeable_pod_stays_pending_and_each_card_is_charged_once() -> None:
    towns()
    rare = rarely_reached(_seen, REACHED, REACHED_MIN)
    assert not rare, f"hardly ever happens: {rare} of {_seen}"
