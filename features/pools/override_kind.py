"""GroupOverride (muster.sh): what an operator sets for a job of a pool."""

from typing import Final

from features.pools.group_overrides import KIND, GroupOverride, GroupOverrides, override_facts
from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.observed_kind import ObservedKind, Reading

GROUP_OVERRIDES: Final = Resource(
    KIND,
    "groupoverrides",
    "muster.sh",
    "v1alpha1",
    is_namespaced=False,
    short_names=("go",),
    is_custom=True,
    subresources=(),
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    path = reading.subject.partition("/")[2]
    facts = cluster.object_facts.get(KIND, {}).get(path)
    assert facts is None or isinstance(facts, GroupOverride)
    if (overrides := cluster.indexes.find(GroupOverrides)) is not None:
        overrides.put(cluster, path.rpartition("/")[2], facts)


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    if (overrides := cluster.indexes.find(GroupOverrides)) is not None:
        overrides.put(cluster, subject.rpartition("/")[2], None)


def _summarize(content: bytes) -> list[str]:
    facts = override_facts(content)
    if isinstance(facts, str):
        return [facts]
    return [
        f"of pod group {facts.group}",
        f"pool {facts.pool}" if facts.pool else "",
        f"priority {facts.priority}" if facts.priority is not None else "",
        f"weight {facts.weight[0] / facts.weight[1]:g}" if facts.weight else "",
        f"maxSlots {facts.max_slots}" if facts.max_slots is not None else "",
        f"position {facts.position}" if facts.position else "",
    ]


GROUP_OVERRIDE: Final = ObservedKind(
    resource=GROUP_OVERRIDES,
    why="what operators set for jobs",
    apply=_apply,
    drop=_drop,
    facts=GroupOverride,
    facts_of=override_facts,
    summarize=_summarize,
)
