"""What a subject is at a moment: a sentence, facts by name, and lists."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from events.amount_text import amount_text, amounts_text
from projections.cluster import Cluster
from projections.group_facts import UNSCHEDULABLE
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.pods import (
    BINDING,
    FAILED,
    GATED,
    PENDING,
    RELEASING,
    SUCCEEDED,
    UNKNOWN,
    Pod,
)
from projections.queues import Queue
from projections.refusals import OWN_LIMITS
from projections.state import State
from projections.unknown_decisions import has_unknown_decision
from projections.views.catalogue import DEVICE
from projections.views.now import device_rows
from replay.log_time import unready_text
from replay.node_text import shortfall_text
from replay.quarantine_text import quarantine_text
from replay.queue_answer import InLine, Resource, queue_answer
from scheduling.conditions import waiting_reason
from scheduling.explanation import ExcludedPods, Waiting

LISTED_MAX: Final = 20
"""The most lines of one list."""


class Standing(Struct, frozen=True):
    """What a subject is."""

    state: str
    facts: dict[str, str]
    lists: dict[str, tuple[str, ...]] = {}


def pod_standing(state: State, pod: Pod, waiting: Waiting | None) -> Standing:
    """Return how an existing pod stands."""
    cluster = state.cluster
    facts = {
        "phase": pod.facts.phase,
        "node": pod.node,
        "condition": _condition(cluster, pod),
        "pod_group": pod.group_key,
        "queue": cluster.groups[pod.group_key].queue if pod.group_key in cluster.groups else "",
        "requests": amounts_text(pod.pod_class.request),
        "accepts_cards": "|".join(pod.pod_class.cards),
        "charged": amounts_text(pod.charge or ()),
        "devices": ", ".join(pod.devices),
        "bound_at_position": str(pod.decided.bound_at) if pod.decided.bound_at else "",
        "uid": pod.facts.uid,
    }
    return Standing(_pod_sentence(state, pod, waiting), _filled(facts))


def _condition(cluster: Cluster, pod: Pod) -> str:
    """Return the reason of the condition that a waiting pod has; empty if it has none."""
    group = cluster.groups.get(pod.group_key)
    reason = "" if pod.node or group is None or group.is_foreign else waiting_reason(group, pod)
    refusal = None if group is None else group.main_refusal
    if reason == UNSCHEDULABLE and refusal is not None and refusal.limit in OWN_LIMITS:
        reason += "; nodes have room by the rules of Kubernetes, so a cluster autoscaler adds none"
    return f"PodScheduled=False, {reason}" if reason else ""


def _pod_sentence(state: State, pod: Pod, waiting: Waiting | None) -> str:
    where = f" on {pod.node}" if pod.node else ""
    if pod.facts.scheduler not in state.cluster.scheduler_names:
        return f"{pod.facts.phase}{where}; it belongs to scheduler {pod.facts.scheduler or 'default-scheduler'}"
    commitment = state.commitments.get(pod.facts.uid)
    missed = (
        "; the request had no answer, so the pod is read again"
        if commitment and commitment.is_unknown
        else ""
    )
    match pod.status:
        case status if status == PENDING:
            return _waits(waiting)
        case status if status == GATED:
            return "waits for its scheduling gates to be removed"
        case status if status == BINDING and state.cluster.is_shadow:
            return (
                f"waits for its scheduler, {pod.facts.scheduler or 'default-scheduler'}; muster would place it on "
                f"{pod.node} by decision {pod.decision}"
            )
        case status if status == BINDING:
            return f"bound to {pod.node} by decision {pod.decision}, not confirmed by the API server yet{missed}"
        case status if status == RELEASING:
            return f"being deleted{where}"
        case status if status in (SUCCEEDED, FAILED, UNKNOWN):
            return f"{status}{where}" + (f": {pod.facts.reason}" if pod.facts.reason else "")
        case status:
            if state.cluster.is_shadow:
                same = (
                    f", where decision {pod.decision} would place it, too" if pod.decision else ""
                )
                return (
                    f"{status}{where}, placed by {pod.facts.scheduler or 'default-scheduler'}{same}"
                )
            return f"{status}{where}{_bound_by(state, pod)}"


def _bound_by(state: State, pod: Pod) -> str:
    if pod.decision:
        return f", by decision {pod.decision}"
    if has_unknown_decision(state.cluster, pod):
        return f", bound by muster, as its annotation says, by decision {pod.facts.decision}, which is not in this log"
    return ", bound by another scheduler"


def _waits(waiting: Waiting | None) -> str:
    if waiting is None:
        return "waits for the next cycle"
    if waiting.code:
        return f"waits: {waiting.code}"
    stuck = next((one.text for one in waiting.hurdles if not one.passed), "")
    return f"waits: {stuck}" if stuck else "waits for the next cycle, which would place it"


def group_standing(group: PodGroup, waiting: Waiting | None) -> Standing:
    """Return how an existing pod group stands."""
    counts = [f"{count} {status}" for status, count in sorted(group.counts.by_status.items())]
    facts = {
        "phase": group.decided.phase,
        "queue": group.queue,
        "priority": str(group.priority),
        "min_available": str(group.observed.min_available),
        "pods": ", ".join(counts),
        "charged": amounts_text(dict(sorted(group.allocated.items()))),
        "reserved": amounts_text(group.reservation.inqueue),
        "object": "PodGroup"
        if group.observed.facts is not None
        else "none: it comes from its pods",
    }
    pods = sorted(group.pods.values(), key=group.task_key)
    listed = [
        f"{pod.key} {pod.status}{f' on {pod.node}' if pod.node else ''}{_devices(pod)}"
        for pod in pods
    ]
    sentence = group.decided.phase if waiting is None else _waits(waiting)
    if group.is_foreign:
        sentence += "; it belongs to another scheduler: muster neither schedules nor updates it"
    return Standing(sentence, _filled(facts), {"pods": _capped(listed)})


def node_standing(state: State, node: Node, excluded: tuple[ExcludedPods, ...]) -> Standing:
    """Return how a node stands that is present, or known only by its pods."""
    cluster, found = state.cluster, node.facts
    pods = [cluster.pods[uid] for uid in node.pods if uid in cluster.pods]
    listed = [
        f"{pod.key} {pod.status}: {amounts_text(pod.pod_class.request)}{_devices(pod)}"
        for pod in sorted(pods, key=lambda pod: pod.key)
    ]
    if found is None:
        return Standing(f"gone, with {len(pods)} pods left on it", {}, {"pods": _capped(listed)})
    free = {name: node.free.get(name, 0) for name in found.allocatable}
    taken = {name: node.occupied.get(name, 0) for name in found.allocatable}
    facts = {
        "cards": amounts_text(
            tuple((card, node.allocatable(one)) for one, card in found.cards.items())
        ),
        "allocatable": amounts_text(found.allocatable),
        "used": amounts_text(taken),
        "terminating": amounts_text({name: one for name, one in node.releasing.items() if one}),
        "nominated": amounts_text({name: one for name, one in node.nominated.items() if one}),
        "free": amounts_text(free),
        "taints": ", ".join(f"{one.key}={one.value or ''}:{one.effect}" for one in found.taints),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(found.labels.items())),
        "problem": "; ".join(text for _, text in found.faults),
        "ready": unready_text(
            cluster.unready_nodes.end_ns(cluster, node.name),
            counts=cluster.unready_nodes.counts(node.name),
        ),
        "quarantine": quarantine_text(cluster.quarantines, node.name),
    }
    sentence = "unschedulable" if found.unschedulable else "open"
    sentence += f", {len(pods)} {'pod' if len(pods) == 1 else 'pods'} on it"
    return Standing(
        sentence,
        _filled(facts),
        {
            "pods": _capped(listed),
            "devices": _capped(_devices_of(cluster, node.name)),
            "excluded_pods": _capped(_excluded(excluded)),
        },
    )


def _devices(pod: Pod) -> str:
    return f", devices {', '.join(pod.devices)}" if pod.devices else ""


def _devices_of(cluster: Cluster, node: str) -> list[str]:
    """Return each named device of a node: its model and groups, what is wrong with it, and the pods that have it."""
    found: list[str] = []
    for row in device_rows(cluster, node):
        one = dict(zip(DEVICE.column_names, row, strict=True))
        kind = ", ".join(str(text) for text in (one["card"], one["device_groups"]) if text)
        states = (
            one["fault"],
            "" if one["healthy"] else "unhealthy",
            "" if one["network_healthy"] else "no network",
            one["pod"],
        )
        found.append(
            f"{one['device']} ({kind}): {'; '.join(str(t) for t in states if t) or 'free'}"
        )
    return found


def _excluded(excluded: Iterable[ExcludedPods]) -> list[str]:
    return [f"{one.pods} like {one.pod}: {shortfall_text(one.shortfall)}" for one in excluded]


def queue_standing(state: State, queue: Queue) -> Standing:
    """Return how a queue stands, with or without an object."""
    found = queue_answer(state.cluster, queue)
    facts = {
        "weight": str(found.weight) if found.has_object else "",
        "priority": str(found.priority) if found.has_object else "",
        "object": "Queue" if found.has_object else "none: it has no limits of its own",
        "pod_groups": str(len(queue.groups)),
        "faults": "; ".join(found.faults),
    }
    lists = {"quota": tuple(_quota_line(one) for one in found.resources)}
    for action in dict.fromkeys(one.action for one in found.line):
        line = [one for one in found.line if one.action == action]
        lists[f"line_for_{action}"] = _capped([_in_line(one) for one in line])
    return Standing(found.message or "open", _filled(facts), lists)


def _in_line(one: InLine) -> str:
    since = f"{one.code} since {one.position}" if one.code else "not decided yet"
    return f"{one.place}. {one.pod_group}, priority {one.priority}: {since}"


def _quota_line(one: Resource) -> str:
    amounts = {
        "used": one.allocated,
        "nominated": one.nominated,
        "reserved": one.inqueue,
        "beyond minimums": one.elastic,
        "requested by waiting pods": one.waiting,
    }
    parts = [f"{amount_text(one.resource, n)} {what}" for what, n in amounts.items() if n]
    most = one.limit
    parts.append("no limit" if most is None else f"limit {amount_text(one.resource, most)}")
    return f"{one.resource}: {', '.join(parts)}"


def _filled(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in facts.items() if text}


def _capped(lines: list[str]) -> tuple[str, ...]:
    if len(lines) <= LISTED_MAX:
        return tuple(lines)
    return (*lines[:LISTED_MAX], f"and {len(lines) - LISTED_MAX} more")
