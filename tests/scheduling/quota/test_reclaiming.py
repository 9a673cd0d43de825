"""Reclaim: which queues may reclaim, and which pods are victims."""

from scheduling.plugins.proportion import DeservedShares
from scheduling.quota.reclaiming import Reclaiming, shared_ancestors
from tests.scheduling.quota.clusters import cluster_of, cpus, names_of, pods_of, queue_of

FLAT = "{name: capacity}"
TREE = "{name: capacity, enableHierarchy: true}"


async def test_a_queue_may_reclaim_as_long_as_one_resource_is_below_what_it_deserves() -> None:
    queues = {"q": "{deserved: {cpu: 2, memory: 2Gi}}"}
    cluster = await cluster_of(FLAT, queues, {"a": ("q", "{cpu: 1, memory: 3Gi}")})
    q = queue_of(cluster, "q")
    assert Reclaiming(cluster).may_reclaim(q, cpus(1, 1), {})
    assert not Reclaiming(cluster).may_reclaim(q, cpus(2, 1), {})
    assert not Reclaiming(cluster).may_reclaim(q, cpus(1, 1), {"cpu": 1000})


async def test_a_queue_may_not_reclaim_above_its_capability() -> None:
    queues = {"q": "{deserved: {cpu: 8, memory: 9Gi}, capability: {cpu: 8}}"}
    cluster = await cluster_of(FLAT, queues, {"a": ("q", "{cpu: 7}")})
    assert not Reclaiming(cluster).may_reclaim(queue_of(cluster, "q"), cpus(2, 1), {})
    assert Reclaiming(cluster).may_reclaim(queue_of(cluster, "q"), cpus(1, 1), {})


async def test_a_closed_queue_reclaims_nothing() -> None:
    queues = {"q": "{deserved: {cpu: 8}}, status: {state: Closed}"}
    cluster = await cluster_of(FLAT, queues, {"a": ("q", "{cpu: 1}")})
    assert not Reclaiming(cluster).may_reclaim(queue_of(cluster, "q"), cpus(1), {})


async def test_pods_are_let_go_down_to_what_their_queue_deserves() -> None:
    queues = {"rich": "{deserved: {cpu: 2}}", "poor": "{deserved: {cpu: 2}}"}
    pods = {f"r{i}": ("rich", "{cpu: 1}") for i in range(4)}
    cluster = await cluster_of(FLAT, queues, pods)
    poor, victims = queue_of(cluster, "poor"), pods_of(cluster, *pods)
    assert names_of(Reclaiming(cluster).victims(poor, cpus(2), victims)) == ["r0", "r1"]
    assert names_of(
        Reclaiming(cluster).victims(
            poor, cpus(2), victims[1:], {"rich": dict(victims[0].charge or ())}
        )
    ) == ["r1"]


async def test_a_pod_is_protected_by_the_one_resource_that_its_queue_deserves() -> None:
    queues = {"cards": "{deserved: {example.com/card: 1}}", "poor": "{deserved: {cpu: 4}}"}
    pods = {
        "c": ("cards", "{cpu: 4, example.com/card: 1}"),
        "plain": ("cards", "{cpu: 4}"),
    }
    cluster = await cluster_of(FLAT, queues, pods)
    poor, victims = queue_of(cluster, "poor"), pods_of(cluster, *pods)
    assert names_of(Reclaiming(cluster).victims(poor, cpus(4), victims)) == ["plain"]


async def test_a_guarantee_is_left_to_its_queue() -> None:
    queues = {"rich": "{guarantee: {resource: {cpu: 3}}}", "poor": "{deserved: {cpu: 4}}"}
    pods = {f"r{i}": ("rich", "{cpu: 2, memory: 1Gi}") for i in range(3)}
    cluster = await cluster_of(FLAT, queues, pods)
    victims = pods_of(cluster, *pods)
    found = Reclaiming(cluster).victims(queue_of(cluster, "poor"), cpus(4), victims)
    assert names_of(found) == ["r0"]


async def test_pods_that_use_nothing_of_what_is_asked_for_are_spared() -> None:
    queues = {"rich": "{}", "poor": "{deserved: {memory: 4Gi}}"}
    pods = {"cpu": ("rich", "{cpu: 2}"), "memory": ("rich", "{memory: 2Gi}")}
    cluster = await cluster_of(FLAT, queues, pods)
    victims = pods_of(cluster, *pods)
    found = Reclaiming(cluster).victims(queue_of(cluster, "poor"), (("memory", 1 << 30),), victims)
    assert names_of(found) == ["memory"]


async def test_card_quotas_let_go_only_what_is_above_them() -> None:
    queues = {"rich": "{}", "poor": "{}"}
    pods = {"a": ("rich", "{cpu: 2}")}
    cluster = await cluster_of("{name: capacity-card}", queues, pods)
    victims = pods_of(cluster, *pods)
    assert Reclaiming(cluster).victims(queue_of(cluster, "poor"), cpus(1), victims) == []


async def test_no_reclaim_between_sibling_queues_without_deserved() -> None:
    plugin = "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}"
    queues = {"eng": "{deserved: {cpu: 8}}", "a": "{parent: eng}", "b": "{parent: eng}"}
    pods = {"a0": ("a", "{cpu: 4}")}
    cluster = await cluster_of(plugin, queues, pods)
    victims, b = pods_of(cluster, *pods), queue_of(cluster, "b")
    assert Reclaiming(cluster).victims(b, cpus(1), victims) == []
    flat = await cluster_of(TREE, queues, pods)
    assert names_of(
        Reclaiming(flat).victims(queue_of(flat, "b"), cpus(1), pods_of(flat, "a0"))
    ) == ["a0"]


async def test_with_a_level_the_queue_above_the_victim_must_have_more_than_it_deserves() -> None:
    queues = {
        "eng": "{deserved: {cpu: 8}}",
        "eng-a": "{parent: eng, deserved: {cpu: 1}}",
        "ops": "{deserved: {cpu: 8}}",
        "ops-a": "{parent: ops, deserved: {cpu: 4}}",
    }
    pods = {f"e{i}": ("eng-a", "{cpu: 4}") for i in range(3)}
    level = "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}"
    bound, free = await cluster_of(level, queues, pods), await cluster_of(TREE, queues, pods)
    found = Reclaiming(bound).victims(queue_of(bound, "ops-a"), cpus(4), pods_of(bound, *pods))
    assert names_of(found) == ["e0"]
    found = Reclaiming(free).victims(queue_of(free, "ops-a"), cpus(4), pods_of(free, *pods))
    assert names_of(found) == ["e0", "e1", "e2"]


async def test_with_a_level_a_queue_may_reclaim_for_what_the_queue_above_deserves() -> None:
    queues = {"eng": "{deserved: {cpu: 8}}", "eng-a": "{parent: eng, deserved: {cpu: 1}}"}
    pods = {"e": ("eng-a", "{cpu: 2}")}
    level = "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}"
    bound, free = await cluster_of(level, queues, pods), await cluster_of(TREE, queues, pods)
    assert Reclaiming(bound).may_reclaim(queue_of(bound, "eng-a"), cpus(6), {})
    assert not Reclaiming(bound).may_reclaim(queue_of(bound, "eng-a"), cpus(7), {})
    assert not Reclaiming(free).may_reclaim(queue_of(free, "eng-a"), cpus(6), {})


async def test_queues_are_the_nearer_the_more_queues_are_above_both() -> None:
    queues = {"root": "{}", "eng": "{}", "a": "{parent: eng}", "b": "{parent: eng}", "c": "{}"}
    cluster = await cluster_of(TREE, queues, {})
    a = queue_of(cluster, "a")
    assert shared_ancestors(a, queue_of(cluster, "b")) == 2
    assert shared_ancestors(a, queue_of(cluster, "c")) == 1


async def test_under_proportion_pods_are_let_go_down_to_the_share_by_weight() -> None:
    queues = {"rich": "{}", "poor": "{}"}
    pods = {f"r{i}": ("rich", "{cpu: 4}") for i in range(5)} | {"p": ("poor", "{cpu: 8}")}
    cluster = await cluster_of("{name: proportion}", queues, pods)
    cluster.tables.of(DeservedShares).queues = {"rich": {"cpu": 10_000}, "poor": {"cpu": 22_000}}
    rich, poor = queue_of(cluster, "rich"), queue_of(cluster, "poor")
    victims = pods_of(cluster, "r0", "r1", "r2", "r3", "r4")
    assert names_of(Reclaiming(cluster).victims(poor, cpus(14), victims)) == ["r0", "r1", "r2"]
    assert Reclaiming(cluster).may_reclaim(poor, cpus(14), {})
    assert not Reclaiming(cluster).may_reclaim(poor, cpus(15), {})
    assert not Reclaiming(cluster).may_reclaim(rich, cpus(1), {})
