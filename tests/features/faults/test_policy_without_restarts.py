"""A policy that does not move pods after faults has no table of restarts, and keeps nothing for restarts that had begun."""

import msgspec

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from features.table import FEATURES
from projections.cluster import Cluster
from projections.node_updates import change_policy
from projections.policy.policy import parse_policy
from projections.rescheduling import Reschedulings
from projections.snapshot import restore, take
from tests.checkout import ROOT
from tests.scenarios.play import scenario_of
from tests.scheduling.builders import EngineHarness

RESERVED = (
    "faults/another_job_does_not_get_the_node_of_a_healthy_pod_while_its_reservation_lasts.yaml"
)
WITHOUT = {"actions": "enqueue, allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}


def without_restarts(cluster: Cluster) -> None:
    """Set a policy that does not move pods after faults."""
    policy = parse_policy(msgspec.json.encode(WITHOUT), FEATURES.policy_table)[0]
    assert not policy.reschedules
    change_policy(cluster, policy)
    cluster.finish_record()


async def test_another_policy_frees_the_nodes_that_a_restart_keeps() -> None:
    run = await simulate(
        scenario_of(ROOT / "tests/scenarios" / RESERVED), MemoryLog(), with_views=False
    )
    state, cluster = run.state, run.state.cluster
    kept = take(state)
    [key] = cluster.tables.of(Reschedulings).restarts
    [node] = cluster.reschedulings.reservations_on()
    assert any(cluster.nodes.nodes[node].nominated.values())
    without_restarts(cluster)
    assert cluster.tables.find(Reschedulings) is None
    assert not any(cluster.nodes.nodes[node].nominated.values())
    assert node in cluster.wakeup_events.nodes_freed
    state.validate()
    restored = restore(kept, FEATURES)
    assert restored.cluster.tables.of(Reschedulings).restarts.keys() == {key}
    without_restarts(restored.cluster)
    assert not any(restored.cluster.nodes.nodes[node].nominated.values())


def test_the_built_in_policy_has_no_table_of_restarts() -> None:
    cluster = EngineHarness().state.cluster
    assert cluster.tables.find(Reschedulings) is None
    assert cluster.reschedulings == Reschedulings()
