"""Compute the current rows of a view from State."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from events.limits import storable
from projections.charging import compound
from projections.cluster import Cluster
from projections.devices import Device, device_of
from projections.fault_hits import pods_hit
from projections.faulty_pods import FaultyPods
from projections.identity_cache import IdentityCache
from projections.kinds.node import NODES
from projections.kinds.workload import VOLCANO_JOBS
from projections.nodes import Node
from projections.objects import Owner
from projections.pod_class import PodClass
from projections.pods import Pod
from projections.quantity import MAX
from projections.queues import add
from projections.resource_names import counts_devices
from projections.views.feature_rows import NodePlace
from projections.views.rows import Row

KINDS_MAX: Final = 256
"""Kinds of owners whose names are kept."""

_ENCODER = msgspec.json.Encoder(order="deterministic")

FAULT_CHARS_MAX: Final = 128
"""Maximum length of each text that is part of the key of a fault."""

_ALWAYS = ("cpu", "memory")
_NOTHING: Mapping[str, int] = MappingProxyType({})

_SWITCH = ("topology.muster.sh/switch", "network.topology.kubernetes.io/leaf")
_SWITCH_POSITION = ("topology.muster.sh/switch-position",)
_SUPERPOD = ("topology.muster.sh/superpod", "huawei.com/superpod-id")
_RACK = ("topology.kubernetes.io/rack", "topology.muster.sh/rack")
_HYPERNODE = "hypernode"


def queue_rows(cluster: Cluster, name: str) -> list[Row]:
    """Return the rows of a queue, one per resource that it limits, uses or requests. Amounts used and requested are those
    of the queue and of all queues below it."""
    queue = cluster.queues.get(name)
    if queue is None:
        return []
    facts, pending = queue.facts, queue.total("pending")
    allocated, inqueue, elastic = (queue.total(one) for one in ("allocated", "inqueue", "elastic"))
    inqueue = dict(inqueue)
    for kept in cluster.kept_quota.of_queue(name):
        add(inqueue, kept, 1)
    names = dict.fromkeys((*_ALWAYS, *allocated, *pending, *inqueue, *elastic))
    guarantee, deserved = _NOTHING, _NOTHING
    if facts is not None:
        quota = cluster.plugins.quota.charging.card_quota(facts.quota)
        guarantee = {**quota, **facts.guarantee}
        deserved = {**quota, **facts.deserved}
        names.update(dict.fromkeys((*facts.capability, *guarantee, *deserved)))
    stated_limit = cluster.plugins.quota.stated_limit
    limits = {one: stated_limit(cluster, queue, one) for one in sorted(names)}
    columns = (guarantee, deserved, allocated, inqueue, pending, elastic)
    if _are_storable(limits, columns):
        return [
            (
                name,
                resource,
                limit,
                guarantee.get(resource, 0),
                deserved.get(resource, 0),
                allocated.get(resource, 0),
                inqueue.get(resource, 0),
                allocated.get(resource, 0) + pending.get(resource, 0),
                elastic.get(resource, 0),
            )
            for resource, limit in limits.items()
        ]
    rows: list[Row] = []
    for resource, limit in limits.items():
        own = [one.get(resource, 0) for one in columns]
        own[4] += own[2]
        rows.append((name, resource, limit and _bounded(limit), *map(_bounded, own)))
    return rows


def _are_storable(limits: Mapping[str, int | None], columns: tuple[Mapping[str, int], ...]) -> bool:
    """Return True if a database can store these amounts and the sum of any two of them: sums of many large requests may
    exceed 64 bits."""
    amounts = [one for one in limits.values() if one is not None]
    for column in columns:
        amounts += column.values()
    return not amounts or (max(amounts) <= MAX // 2 and min(amounts) >= -(MAX // 2))


def _bounded(amount: int) -> int:
    """Return an amount that a database can store."""
    return max(-MAX, min(amount, MAX))


def card_rows(cluster: Cluster, name: str) -> list[Row]:
    """Return the rows of the cards of a node."""
    node = cluster.nodes.nodes.get(name)
    if node is None or node.facts is None:
        return []
    rows: list[Row] = []
    for resource, total in node.facts.card_totals:
        healthy, taken = node.allocatable(resource), node.occupied.get(resource, 0)
        card = node.facts.cards[resource]
        for other, (converted, units) in node.facts.converted.items():
            taken += -(-node.occupied.get(other, 0) * 1000 // units) if converted == card else 0
        rows.append((name, card, resource, total, healthy, taken, healthy - taken))
    return rows


def device_rows(cluster: Cluster, name: str) -> list[Row]:
    """Return the rows of the named devices of a node."""
    node = cluster.nodes.nodes.get(name)
    if node is None or node.facts is None or not node.facts.devices:
        return []
    holders: dict[str, list[str]] = {}
    for uid, devices in cluster.device_holders.pods.get(name, {}).items():
        for device in dict.fromkeys(map(device_of, devices)):
            holders.setdefault(device, []).append(cluster.pods[uid].key)
    rows: dict[str, Row] = {}
    for there in node.facts.devices.values():
        of_node = there.resource, there.card, there.product
        for device, is_listed, own, faults in _DEVICE_PARTS.of(there.devices):
            pods = ", ".join(sorted(holders[device])) if device in holders else ""
            _, is_healthy, _ = own
            is_missing = is_healthy and not (there.are_all_known or is_listed or pods)
            if there.problem or is_missing:
                missing = NOT_LISTED if is_missing else ""
                faults = "; ".join(filter(None, (there.problem, missing, faults)))
            rows[device] = (name, device, *of_node, *own, faults, pods)
    return list(rows.values())


def _device_parts(
    devices: tuple[Device, ...],
) -> tuple[tuple[str, bool, tuple[str, int, int], str], ...]:
    """Return, for each device, its name, whether it is listed, the columns that depend on it alone, and its faults."""
    return tuple(
        (
            one.name,
            one.is_listed,
            (", ".join(one.groups), int(one.is_healthy), int(one.is_network_healthy)),
            "; ".join(filter(None, ("recovering" if one.is_recovering else "", *one.faults))),
        )
        for one in devices
    )


_DEVICE_PARTS: Final = IdentityCache(_device_parts, 20_000)
NOT_LISTED: Final = "not reported as available"


def topology_rows(cluster: Cluster, name: str) -> list[Row]:
    """Return the row of a node in the network: its HyperNodes, the closest first, and its labels."""
    node = cluster.nodes.nodes.get(name)
    if node is None or node.facts is None:
        return []
    known: dict[str, str] = {}
    for one in cluster.features.of(NodePlace):
        known |= one.columns(cluster, name)
    switch = known.get("switch", "") or _label(node, _SWITCH)
    position = known.get("switch_position", "") or _label(node, _SWITCH_POSITION)
    superpod = known.get("superpod", "") or _label(node, _SUPERPOD)
    hypernodes = cluster.nodes.hyper_tree.above(name) or sorted(
        value for key, value in node.facts.labels.items() if key.endswith(_HYPERNODE) and value
    )
    return [
        (
            name,
            switch,
            position,
            superpod,
            ",".join(hypernodes),
            _label(node, _RACK),
        )
    ]


def fault_rows(cluster: Cluster, name: str) -> list[Row]:
    """Return the rows of the faults of a node, without what was done about them and since when they stand.

    Texts are cut: they are part of the key, and PostgreSQL bounds its bytes.
    """
    rows: dict[Row, Row] = {}
    for one in cluster.indexes.of(FaultyPods).faults_of(name):
        texts = (one.source, one.device, one.level, one.code)
        key = (name, *(storable(text[:FAULT_CHARS_MAX]) for text in texts))
        rows.setdefault(key, (*key, one.effect, len(pods_hit(cluster, name, one))))
    return list(rows.values())


def _label(node: Node, keys: tuple[str, ...]) -> str:
    assert node.facts is not None
    labels = node.facts.labels
    return next((labels[key] for key in keys if labels.get(key)), "")


def group_rows(cluster: Cluster, key: str) -> list[Row]:
    """Return the row of a pod group."""
    group = cluster.groups.get(key)
    if group is None:
        return []
    counts = group.counts
    refusal = group.main_refusal if group.decided.refusals else None
    return [
        (
            key,
            group.queue,
            group.decided.phase,
            group.observed.min_available,
            counts.allocated + counts.releasing,
            len(group.pods) - counts.succeeded - counts.failed,
            group.priority,
            group.observed.created_ns,
            refusal.code if refusal else "",
        )
    ]


def pod_row(cluster: Cluster, pod: Pod, evicted_for: str) -> Row:
    """Return the row of a pod in the view `pod`."""
    facts, shown = pod.facts, cluster.pod_labels
    group = cluster.groups.get(pod.group_key)
    labels = {key: storable(value) for key, value in facts.labels if key in shown} if shown else {}
    return (
        facts.uid,
        pod.key,
        facts.namespace,
        owner_subject(facts.namespace, facts.owner),
        _ENCODER.encode(labels).decode() if labels else "{}",
        pod.group_key,
        group.queue if group else "",
        _REQUESTED.of(pod.pod_class),
        evicted_for,
    )


def owner_subject(namespace: str, owner: Owner | None) -> str:
    """Return the subject of the controller of a pod; empty if it has none."""
    if owner is None or not owner.name:
        return ""
    kind = _kind_of_owner(owner.kind, owner.apiVersion)
    return f"{kind}/{'' if kind == NODES.kind else namespace}/{owner.name}"


@lru_cache(KINDS_MAX)
def _kind_of_owner(kind: str, api_version: str) -> str:
    is_volcano = (kind, api_version) == (VOLCANO_JOBS.kind, VOLCANO_JOBS.api_version)
    return VOLCANO_JOBS.name if is_volcano else storable(kind)


def _requested_cards(pod_class: PodClass) -> str:
    """Return the accelerators that a pod requests, as JSON: by the models that it accepts, else by resource."""
    models = compound(pod_class.cards)
    cards: dict[str, int] = {}
    for resource, amount in pod_class.request:
        if counts_devices(resource):
            cards[models or resource] = cards.get(models or resource, 0) + amount
    return _ENCODER.encode(cards).decode() if cards else "{}"


_REQUESTED: Final = IdentityCache(_requested_cards, 10_000)


def devices_of(pod: Pod) -> str:
    """Return the names of the devices that a pod was given, as JSON."""
    return _ENCODER.encode(pod.devices).decode() if pod.devices else "[]"


def cards_of(cluster: Cluster, pod: Pod) -> str:
    """Return the cards that a pod is charged, as JSON; of one that is charged none, the accelerators that it requests, by
    their resource."""
    cards = {name: amount for name, amount in pod.charge or () if name in cluster.cards.resource}
    if not cards:
        cards = {name: amount for name, amount in pod.pod_class.request if counts_devices(name)}
    return _ENCODER.encode(cards).decode() if cards else "{}"
