"""The ConfigMap with the map of leaf switches, as an observed kind."""

from typing import Final

from msgspec import structs

from features.leaf_switches.index import LeafSwitches
from features.leaf_switches.switch_map import INVALID_MAP, SWITCH_MAP, SwitchMap, read_switch_map
from projections.cluster import Cluster
from projections.kinds.config_map import CONFIG_MAPS, WHY
from projections.observed_kind import ObservedKind, Reading


def _apply(cluster: Cluster, reading: Reading) -> None:
    found = reading.of(read_switch_map, lambda problem, _: problem)
    if isinstance(found, str):
        # The map before stays: what runs by it keeps its place.
        reading.counts = False
        cluster.config_errors.put(reading.subject, reading.faults or ((INVALID_MAP, found),))
        return
    cluster.config_errors.put(reading.subject, (*reading.faults, *found.errors))
    _replace(cluster, reading.subject, found)


def _drop(cluster: Cluster, subject: str, _uid: str) -> None:
    _replace(cluster, subject, None)


def _replace(cluster: Cluster, subject: str, found: SwitchMap | None) -> None:
    kind, _, name = subject.partition("/")
    of_kind = cluster.object_facts.setdefault(kind, {})
    if of_kind.get(name) == found:
        return
    if found is None:
        del of_kind[name]
    else:
        of_kind[name] = found
    index = cluster.indexes.find(LeafSwitches)
    if index is not None:
        index.change_map(cluster)


def _summarize(content: bytes) -> list[str]:
    found = read_switch_map(content)
    if isinstance(found, str):
        return [found]
    servers = sum(len(one.servers) for one in found.switches)
    return [
        f"{len(found.switches)} leaf switches with {servers} servers",
        "one layer" if found.is_single_layer else "",
        *(message for _, message in found.errors),
    ]


SWITCH_MAP_KIND: Final = ObservedKind(
    resource=structs.replace(CONFIG_MAPS, selection=SWITCH_MAP),
    why=WHY,
    apply=_apply,
    drop=_drop,
    facts=SwitchMap,
    summarize=_summarize,
)
