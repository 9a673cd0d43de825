"""The ConfigMaps in which the Ascend device stack reports the devices of nodes and their faults, as observed kinds
(`docs/reference/ascend-reports.md`).

The reports of a ConfigMap that cannot be used are those of the last one that could, with an error.
"""

from typing import Final

from msgspec import structs

from events.normalize_config_map import (
    CLUSTER_INFO,
    DEVICE_INFO,
    NODE_INFO,
    Selection,
)
from projections.cluster import Cluster
from projections.device_report import (
    INVALID_REPORT,
    DeviceList,
    Reports,
    after_deletion,
    read_reports,
)
from projections.kinds.config_map import CONFIG_MAPS, WHY
from projections.node_updates import change_reports
from projections.objects import Metadata
from projections.observed_kind import ObservedKind, Reading


def _apply(cluster: Cluster, reading: Reading) -> None:
    def unreadable(problem: str, _metadata: Metadata) -> tuple[str, str]:
        return INVALID_REPORT, problem

    kind, _, name = reading.subject.partition("/")
    found = reading.of(read_reports, unreadable)
    if isinstance(found, Reports):
        _replace(cluster, kind, name, found)
        cluster.config_errors.put(reading.subject, (*reading.faults, *found.errors))
    else:
        reading.counts = False
        cluster.config_errors.put(reading.subject, (*reading.faults, found))


def _drop(cluster: Cluster, subject: str, _uid: str) -> None:
    kind, _, name = subject.partition("/")
    old = cluster.object_facts.get(kind, {}).get(name)
    _replace(cluster, kind, name, _what_stands(cluster, kind, old))


def _what_stands(cluster: Cluster, kind: str, old: object) -> Reports | None:
    """Return what stands of a ConfigMap that was deleted: a report that vanishes repairs nothing, except that of NodeD,
    which writes none while a node is healthy."""
    if kind == NODE_INFO.kind or not isinstance(old, Reports):
        return None
    nodes = cluster.nodes.nodes
    is_of_known = any(name in nodes and nodes[name].is_present for name in old.devices)
    return after_deletion(old) if is_of_known or not old.devices else None


def _replace(cluster: Cluster, kind: str, name: str, found: Reports | None) -> None:
    """Replace the reports of a ConfigMap, or drop them (None), and update the nodes whose report has changed."""
    of_kind = cluster.object_facts.setdefault(kind, {})
    old = of_kind.get(name)
    before = old if isinstance(old, Reports) else Reports()

    def change() -> None:
        if found is None:
            of_kind.pop(name, None)
        else:
            of_kind[name] = found

    change_reports(cluster, _changed_nodes(before, found or Reports()), change)


def _changed_nodes(before: Reports, after: Reports) -> list[str]:
    """Return the names of the nodes of which two ConfigMaps say different things, sorted."""
    names: dict[str, None] = {}
    for was, now in (
        (before.devices, after.devices),
        (before.nodes, after.nodes),
        (before.switches, after.switches),
    ):
        names.update((one, None) for one in {**was, **now} if was.get(one) != now.get(one))
    return sorted(names)


def _summarize(content: bytes) -> list[str]:
    found = read_reports(content)
    if not isinstance(found, Reports):
        return [found[1]]
    nodes = len({**found.devices, **found.nodes, **found.switches})
    alone = [*found.devices.values()] if nodes == 1 else []
    return [
        f"reports of {nodes} nodes" if nodes != 1 else "",
        *(_amounts(one) for report in alone for one in report.lists),
        *(state.status for state in found.nodes.values() if nodes == 1),
        *(message for _, message in found.errors),
    ]


def _amounts(listed: DeviceList) -> str:
    shown = {
        "available": len(listed.available),
        "unhealthy": len(listed.unhealthy),
        "without network": len(listed.network_unhealthy or ()),
        "recovering": len(listed.recovering),
    }
    counts = ", ".join(f"{number} {what}" for what, number in shown.items() if number)
    return f"{listed.resource}: {counts or 'none available'}"


def _selected(selection: Selection) -> ObservedKind:
    return ObservedKind(
        resource=structs.replace(CONFIG_MAPS, selection=selection),
        why=WHY,
        records_heartbeats=False,
        apply=_apply,
        drop=_drop,
        facts=Reports,
        summarize=_summarize,
    )


REPORT_KINDS: Final = tuple(_selected(one) for one in (DEVICE_INFO, NODE_INFO, CLUSTER_INFO))
