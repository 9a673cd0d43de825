"""Refusals: a code, the limiting resource, a message with the current numbers, and what could change the answer."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.requeue import HYPER_NODES, NODE_UPDATED, ROOM, quota_events
from projections.device_family import Cards, JobShape
from projections.nodes import PODS_UNLIMITED
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pods import PENDING, Pod
from projections.refusals import CARD_CODES
from projections.scheduling_queue import Standing
from scheduling.card_choice import CardChoice
from scheduling.node_predicates import ADMITTED, NOT_SELECTED, REASONS
from scheduling.node_ranking import NodeRankings
from scheduling.pod_topology.filters import LIMITS, NO_PORTS, POD_TOPOLOGY_REASONS
from scheduling.quota.selector_conflict import conflict_text, selector_conflict
from scheduling.shortage import Shortage
from scheduling.volumes.claim_check import ClaimCheck
from scheduling.volumes.volume_filter import VOLUME_REASONS

NOT_READY: Final = "tasks in gang unschedulable: pod group is not ready"
ORIGIN: Final = "Origin reason is "
LABELS_MAX: Final = 4
"""Maximum values of a label that a message names."""


class Unschedulable(Struct, frozen=True):
    """Why a pod group cannot be placed, the pod at which that was found, and what could change it."""

    code: str
    limit: str
    message: str
    pod: str = ""
    requeue_on: tuple[str, ...] = ()
    """The events that could change the answer, beside a change of the group itself (`events/requeue.py`)."""
    never_fits: bool = False
    """True if no node could take the pod even if it were empty; or not all pods of its gang."""
    fits_only_closed_nodes: bool = False
    """True if that holds for the nodes that are open now, with their current cordons and taints."""
    node_helps: bool | None = None
    """Whether another node would let the pods run now; None: as the code says (`projections/refusals.py`)."""


GangCapacity: TypeAlias = Callable[[npt.NDArray[np.int64]], int]
"""Returns how many pods of a gang fit together, from how many each node has room for."""


class CandidateNodes(Struct, frozen=True):
    """The nodes that a refusal counts."""

    inside: npt.NDArray[np.bool_] | None = None
    """Slot to whether the node is one of them; None for all nodes."""
    name: str = ""
    """Their common name; empty for all nodes."""
    most: GangCapacity = lambda room: int(room.sum())


ALL_NODES: Final = CandidateNodes()


def quota_unschedulable(short: Shortage, pod: Pod | None = None) -> Unschedulable:
    """Return the refusal for a shortage of quota."""
    key = pod.key if pod else ""
    never_fits = short.code in CARD_CODES
    requeue_on = (*short.requeue_on, *quota_events(short.alternatives))
    return Unschedulable(
        short.code,
        short.limit,
        short.message,
        key,
        requeue_on,
        never_fits=never_fits,
        node_helps=short.node_helps,
    )


def no_feasible_node(
    rankings: NodeRankings,
    pod: Pod,
    choice: CardChoice,
    job: JobShape,
    needed: int = 1,
    candidate_nodes: CandidateNodes = ALL_NODES,
) -> Unschedulable:
    """Return the refusal for a pod without a feasible node: the number of nodes for each reason. The gang has
    `needed` such pods."""
    cards = choice.cards
    counts, limit = node_reasons(rankings, pod.pod_class, cards, job, candidate_nodes.inside)
    total = len(rankings.cluster.nodes.order)
    if candidate_nodes.inside is not None:
        total = int(np.count_nonzero(candidate_nodes.inside))
    listed = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    of = f" of {candidate_nodes.name}" if candidate_nodes.name else ""
    message = (
        f"0/{total} nodes{of} are unavailable: {listed}." if listed else "0/0 nodes are available."
    )
    if both := _selector_conflict(rankings, pod.pod_class, cards, job):
        message += f" N{both[1:]}."
    if unlike := unlike_labels(rankings, pod.pod_class, cards, job, candidate_nodes.inside):
        message += f" {unlike}."
    would_do = None if cards is None else (*cards, *choice.over_quota)
    never_fits, fits_only_closed_nodes = _fit_when_empty(
        rankings, pod.pod_class, would_do, job, needed, candidate_nodes
    )
    code, helps = "NotEnoughResources", None
    if pod.pod_class.claims:
        pod_topology = rankings.pod_topology(pod.pod_class)
        conflict = None if pod_topology is None else pod_topology.volumes.conflict()
        if conflict is not None:
            code, limit, message = conflict.code, conflict.limit, conflict.message
            never_fits = fits_only_closed_nodes = True
        if pod_topology is not None and pod_topology.volumes.is_tied:
            helps = False
    events = ClaimCheck(rankings.cluster, pod.pod_class).events()
    return Unschedulable(
        code,
        limit,
        message,
        pod.key,
        (*ROOM, *([NODE_UPDATED] if never_fits else []), *quota_events(choice.over_quota), *events),
        never_fits=never_fits,
        fits_only_closed_nodes=fits_only_closed_nodes,
        node_helps=helps,
    )


def with_fit_when_empty(
    rankings: NodeRankings,
    pod: Pod,
    reason: Unschedulable,
    job: JobShape,
    needed: int,
    candidate_nodes: CandidateNodes = ALL_NODES,
) -> Unschedulable:
    """Return a refusal by quota with the flags of the nodes: whether the group would fit regardless of quota."""
    known = tuple(name for name in pod.pod_class.cards if name in rankings.cluster.cards.resource)
    rankings.of(pod.pod_class, known or None, job).scores()  # Refresh the verdicts on nodes.
    never_fits, fits_only_closed_nodes = _fit_when_empty(
        rankings, pod.pod_class, known or None, job, needed, candidate_nodes
    )
    return structs.replace(
        reason,
        never_fits=reason.never_fits or never_fits,
        fits_only_closed_nodes=fits_only_closed_nodes,
    )


def _fit_when_empty(
    rankings: NodeRankings,
    pod_class: PodClass,
    cards: Cards,
    job: JobShape,
    needed: int,
    candidate_nodes: CandidateNodes,
) -> tuple[bool, bool]:
    """Return whether the nodes that match the pod's selector, and those that are open now, could not hold `needed`
    of the pods even if they were empty."""
    verdicts = rankings.predicates(pod_class).verdicts
    room = room_when_empty(rankings, pod_class, cards, job)
    most = candidate_nodes.most(np.where(verdicts != NOT_SELECTED, room, 0))
    return most < needed, candidate_nodes.most(np.where(verdicts == ADMITTED, room, 0)) < needed


def min_pods_of_class(group: PodGroup, pod_class: PodClass) -> int:
    """Return how many pods of a class the gang needs; at least one."""
    others = sum(group.live_classes.values()) - group.live_classes.get(pod_class.index, 0)
    return max(1, group.observed.min_available - others - group.counts.succeeded)


def room_when_empty(
    rankings: NodeRankings, pod_class: PodClass, cards: Cards, job: JobShape
) -> npt.NDArray[np.int64]:
    """Return how many such pods each node could hold if it were empty, slot by slot."""
    room = np.full(len(rankings.cluster.nodes.order), PODS_UNLIMITED, dtype=np.int64)
    if pod_class.claims and (pod_topology := rankings.pod_topology(pod_class)) is not None:
        for excluded in pod_topology.volumes.excluded().values():
            room[excluded] = 0
    having_devices = rankings.having_devices(pod_class, cards, job)
    if having_devices is not None:
        room[~having_devices] = 0
    for name, amount in pod_class.request:
        column = rankings.cluster.nodes.allocatable.get(name)
        room = np.minimum(room, 0 if column is None else column // amount)
    return np.maximum(room, 0)


def _selector_conflict(
    rankings: NodeRankings, pod_class: PodClass, cards: Cards, job: JobShape
) -> str:
    """Return a message with both constraints if no node with the cards matches the pod's node affinity; else empty."""
    if cards is None or not pod_class.cards:
        return ""
    verdicts = rankings.predicates(pod_class).verdicts
    having_devices = rankings.having_devices(pod_class, cards, job)
    if having_devices is None or (having_devices & (verdicts == ADMITTED)).any():
        return selector_conflict(rankings.cluster.device_families, pod_class)
    if not (having_devices & (verdicts == NOT_SELECTED)).any():
        return selector_conflict(rankings.cluster.device_families, pod_class)
    return conflict_text(pod_class)


def unlike_labels(
    rankings: NodeRankings,
    pod_class: PodClass,
    cards: Cards,
    job: JobShape,
    inside: npt.NDArray[np.bool_] | None = None,
) -> str:
    """Return which values nodes with the devices have of the label that the pod needs, if none of them has the needed one;
    else empty."""
    table = rankings.cluster.nodes
    selected = rankings.predicates(pod_class).verdicts != NOT_SELECTED
    for label, having in rankings.devices(pod_class, cards, job).needed_labels():
        there = table.allocatable.get(label.resource)
        if there is None or (selected & having).any():
            continue
        stated = dict(pod_class.selector.pairs).get(label.key)
        wanted = label.values if stated is None else (stated,)
        values: Counter[str] = Counter()
        for slot in np.flatnonzero(there > 0 if inside is None else inside & (there > 0)).tolist():
            facts = table.order[slot].facts
            value = "" if facts is None else facts.labels.get(label.key, "")
            if value in wanted:
                break
            values[value] += 1
        else:
            most = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
            shown = [f"{value or 'absent'} ({count})" for value, count in most[:LABELS_MAX]]
            more = [f"and {len(most) - LABELS_MAX} more"] if len(most) > LABELS_MAX else []
            if shown:
                listed = ", ".join([*shown, *more])
                return f"Node label {label.key} is {listed}, and the job needs {wanted[0]}"
    return ""


def node_reasons(
    rankings: NodeRankings,
    pod_class: PodClass,
    cards: Cards,
    job: JobShape,
    inside: npt.NDArray[np.bool_] | None = None,
) -> tuple[dict[str, int], str]:
    """Return reason to number of nodes (among those `inside`), and the resource that most nodes lack. Of the
    verdicts on a node only the first counts; of the resources each one that it lacks."""
    table = rankings.cluster.nodes
    counts: dict[str, int] = {}
    verdicts = rankings.predicates(pod_class).verdicts
    if inside is None:
        inside = np.ones(len(verdicts), dtype=np.bool_)
    for code, text in REASONS.items():
        if count := int((inside & (verdicts == code)).sum()):
            counts[text] = count
    open_nodes = inside & (verdicts == ADMITTED)
    devices = rankings.devices(pod_class, cards, job)
    for text, missing in devices.excluded(when_empty=True):
        if count := int((open_nodes & missing).sum()):
            counts[text] = count
        open_nodes = open_nodes & ~missing
    lacking: list[tuple[int, str]] = []
    pod_topology = rankings.pod_topology(pod_class)
    excluded = {} if pod_topology is None else pod_topology.excluded()
    # The order of Kubernetes: ports, then resources, then affinity and spread; but volumes, which stay where they are, come
    # first.
    open_nodes = _less(open_nodes, excluded, (*VOLUME_REASONS, NO_PORTS), counts, lacking)
    has_room = open_nodes
    for name, amount in pod_class.request:
        column = table.column(name)
        short = open_nodes if column is None else open_nodes & (column < amount)
        has_room = has_room & ~short
        if count := int(np.count_nonzero(short)):
            counts["Too many pods" if name == "pods" else f"Insufficient {name}"] = count
            lacking.append((-count, name))
    for text, taken in devices.excluded(when_empty=False):
        if count := int((has_room & taken).sum()):
            counts[text] = counts.get(text, 0) + count
            lacking.append((-count, "devices"))
        has_room = has_room & ~taken
    of_plugins = tuple(one for one in excluded if one not in LIMITS)
    _less(has_room, excluded, (*POD_TOPOLOGY_REASONS, *of_plugins), counts, lacking)
    return counts, min(lacking)[1] if lacking else ""


def _less(
    nodes: npt.NDArray[np.bool_],
    excluded: dict[str, npt.NDArray[np.bool_]],
    reasons: tuple[str, ...],
    counts: dict[str, int],
    lacking: list[tuple[int, str]],
) -> npt.NDArray[np.bool_]:
    """Return the nodes that none of these reasons excludes; each node counts for the first reason that does."""
    for reason in reasons:
        mask = excluded.get(reason)
        if mask is None:
            continue
        if count := int(np.count_nonzero(nodes & mask)):
            counts[reason] = count
            lacking.append((-count, LIMITS.get(reason, "plugin")))
        nodes = nodes & ~mask
    return nodes


def gang_unschedulable(group: PodGroup, reason: Unschedulable, *, could: int) -> Unschedulable:
    """Return the refusal of a whole gang: how many of its pods could be placed, and where it failed.

    `could` of its pending pods found a node before the gang failed. If the gang is complete, the pod beyond it
    keeps its own reason.
    """
    if group.observed.min_available <= 1 or group.is_ready:
        return reason
    return structs.replace(reason, message=fit_text(group, reason.pod, reason.message, could=could))


def fit_text(group: PodGroup, pod: str, message: str, *, could: int = 0) -> str:
    """Return why a gang is not complete, in Volcano's words (B.14); `message` is why the pod has no node."""
    total, least = len(group.pods), group.observed.min_available
    waiting = len(group.pending)
    missing = max(0, least - group.counts.ready - could)
    counts = sorted(
        f"{count} {status.capitalize()}" for status, count in group.counts.by_status.items()
    )
    stuck = [f"{waiting - could} Unschedulable"] if waiting > could else []
    free = [f"{could} Schedulable"] if could else []
    found = f"; {PENDING.capitalize()}: {', '.join(sorted(stuck + free))}" if stuck or free else ""
    origin = f". {ORIGIN}{pod.rpartition('/')[2]}: {message}" if pod else f". {message}"
    return (
        f"{missing}/{total} {NOT_READY}, {', '.join([*counts, f'{least} minAvailable'])}"
        f"{found}{origin if message else '.'}"
    )


def first_pod_message(message: str) -> str:
    """Return, from the message of a gang's refusal, why the first of its pods without a node has none."""
    _, found, origin = message.partition(ORIGIN)
    return origin.partition(": ")[2] if found else message


def pipeline_withdrawal(group: PodGroup, reason: Unschedulable) -> Iterator[PipelineWithdrawn]:
    """Yield the record that releases the nominations of a group, if it has any."""
    if group.decided.nominations:
        yield PipelineWithdrawn(pod_group=group.key, queue=group.queue, code=reason.code)


def without_reservation(reason: Unschedulable) -> Unschedulable:
    """Return a refusal of a group that no node could take when empty: nothing is reserved for it."""
    requeue_on = (
        reason.requeue_on
        if NODE_UPDATED in reason.requeue_on
        else (*reason.requeue_on, NODE_UPDATED)
    )
    return structs.replace(reason, requeue_on=requeue_on, never_fits=True)


def refusal(group: PodGroup, action: str, reason: Unschedulable) -> PodGroupUnschedulable:
    """Return the record of a refusal."""
    return PodGroupUnschedulable(
        pod_group=group.key,
        queue=group.queue,
        action=action,
        code=reason.code,
        limit=reason.limit,
        message=reason.message,
        pod=reason.pod,
        requeue_on=_requeue_events(reason, has_topology=group.has_topology_constraint),
        never_fits=reason.never_fits,
        fits_only_closed_nodes=reason.fits_only_closed_nodes,
        node_helps=reason.node_helps,
    )


def _requeue_events(reason: Unschedulable, *, has_topology: bool) -> tuple[str, ...]:
    """Return the events that could change the answer for a group with or without a topology constraint."""
    return (*reason.requeue_on, HYPER_NODES) if has_topology else reason.requeue_on


def standings(reason: Unschedulable) -> tuple[Standing, ...]:
    """Return the standings of groups that are refused for this reason already."""
    return tuple(
        [
            (
                has_topology,
                reason.code,
                reason.limit,
                reason.never_fits,
                reason.fits_only_closed_nodes,
                reason.node_helps,
                _requeue_events(reason, has_topology=has_topology),
            )
            for has_topology in (False, True)
        ]
    )
