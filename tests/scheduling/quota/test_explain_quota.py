"""What `why` shows of quotas: the queue, and in a tree all queues above it."""

from scheduling.explain.quota import QueueLimits
from scheduling.plugins.proportion import DeservedShares
from tests.scheduling.quota.clusters import cluster_of, cpus, queue_of

QUEUES = {
    "eng": "{capability: {cpu: 4}}",
    "dev": "{parent: eng, capability: {cpu: 3}}",
    "test": "{parent: eng}",
}


async def test_the_limits_of_all_queues_above_are_shown() -> None:
    plugin = "{name: capacity, enableHierarchy: true}"
    cluster = await cluster_of(plugin, QUEUES, {"t": ("test", "{cpu: 2}")})
    dev = queue_of(cluster, "dev")
    charged = QueueLimits(cluster, dev).charged(cpus(3), {})
    assert [(one.queue, one.used, one.limit, one.short) for one in charged] == [
        ("", 0, 3000, 0),
        ("eng", 2000, 4000, 1000),
    ]
    reserved = QueueLimits(cluster, dev).reserved(dict(cpus(3)))
    assert {(one.queue, one.limit, one.short) for one in reserved} == {
        ("", 3000, 0),
        ("eng", 4000, 1000),
    }


async def test_under_proportion_admission_goes_up_to_the_capability() -> None:
    queues = {"q": "{capability: {cpu: 6}}"}
    cluster = await cluster_of("{name: proportion}", queues, {"a": ("q", "{cpu: 1}")})
    cluster.tables.of(DeservedShares).queues = {"q": {"cpu": 1000}}
    q = queue_of(cluster, "q")
    assert [one.limit for one in QueueLimits(cluster, q).reserved(dict(cpus(2)))] == [6000]
    assert [one.limit for one in QueueLimits(cluster, q).charged(cpus(2), {})] == [1000]
