"""Conditions of pod groups and pending pods: whether the gang is complete, and why not (B.14).

A PodGroup has the condition `Scheduled` as soon as its gang is complete, whatever happens to pods beyond
minMember, and otherwise `Unschedulable` with the reason, also when it fell below minMember and none of its pods
is pending, but not while terminating pods still fill it. The refusal of an admission ends with the admission: the
update of the phase to `Inqueue` ends the condition.

A pod without a node has `PodScheduled=False`. Cluster autoscalers add nodes for the reason `Unschedulable` and for no
other, so a pod has it if and only if another node would let it run: then every waiting pod of its gang has it, also
those that could be placed once the gang is complete, since an autoscaler places them itself (Volcano sets `Schedulable`
there, which hides such pods). Otherwise the reason is `NotReadyForScheduling`, and the message begins with the code of
the refusal.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, structs

from events.messages import PodConditionRequest, PodGroupConditionRequest, Request
from projections.cluster import Cluster
from projections.group_facts import SCHEDULED, UNSCHEDULABLE
from projections.group_rows import Nomination, Refusal
from projections.pod_groups import PodGroup
from projections.pods import GATED, PENDING, Pod
from projections.policy.policy import EVICTING
from projections.refusals import node_helps
from scheduling.unschedulable import NOT_READY, first_pod_message, fit_text

WHOLE: Final = "tasks in gang are ready to be scheduled"
"""Reason of the condition `Scheduled`."""

NOT_ENOUGH: Final = "NotEnoughResources"

NOT_READY_FOR_SCHEDULING: Final = "NotReadyForScheduling"
"""Reason of the condition `PodScheduled` of a pod that another node would not help."""

NOMINATED: Final = "nominated for node {}, where pods are terminating"
"""Message of a pod that waits for a node to be freed."""

SCHEDULING_GATED: Final = "SchedulingGated"
"""The reason that the API server gives a pod with scheduling gates."""

HAD_A_NODE: Final = "a node is available for the pod once its gang is complete"
"""Prefix of the message of a pod that had a node when its gang was refused; the message of the gang follows."""

_REASONS: Final = {
    "NotEnoughPods": "NotEnoughTasks",
    **{
        code: code
        for code in (
            "InvalidArgument",
            "InvalidResourceRequest",
            "JobEnqueueFailed",
            "NotEnoughPodsOfTask",
            "NotSupportPolicy",
        )
    },
}
"""Refusal code to reason of `Unschedulable`; every other code means that some resource is not enough."""


class Condition(Struct, frozen=True):
    """A condition of a PodGroup, with the log position of the record that caused it."""

    position: int
    type: str
    reason: str
    message: str = ""


def condition_updates(cluster: Cluster, group: PodGroup) -> Iterator[Request]:
    """Return the conditions of the group and its pods that their objects lack and that were not sent since."""
    condition = condition_of(group)
    facts = group.observed.facts
    is_new = (
        condition is not None
        and group.decided.reported_status.conditions_reported_at < condition.position
    )
    if (
        condition is not None
        and facts is not None
        and is_new
        and not _already_reports(group, condition)
    ):
        yield PodGroupConditionRequest(
            decision=condition.position,
            namespace=facts.namespace,
            name=facts.name,
            uid=facts.uid,
            type=condition.type,
            reason=condition.reason,
            message=condition.message,
        )
    refusal = _latest(group)
    if refusal is not None:
        yield from _refused(group, refusal)
    for uid, nomination in group.decided.nominations.items():
        yield from _nominated(cluster, group.pods[uid], nomination)


def waiting_reason(group: PodGroup, pod: Pod) -> str:
    """Return the reason of the condition `PodScheduled` of a waiting pod of the group; empty if nothing was decided yet."""
    if pod.status == GATED:
        return SCHEDULING_GATED
    if pod.facts.uid in group.decided.nominations:
        return UNSCHEDULABLE
    refusal = _latest(group)
    return "" if refusal is None or pod.status != PENDING else _reason_of(refusal)


def condition_of(group: PodGroup) -> Condition | None:
    """Return the condition that holds for a pod group, or None if nothing is known yet."""
    if group.decided.reported_status.ready_since and "enqueue" not in group.decided.refusals:
        return Condition(group.decided.reported_status.ready_since, SCHEDULED, WHOLE)
    if group.is_filled_by_terminating:
        return None
    refusal = _latest(group)
    if refusal is not None:
        reason = _REASONS.get(refusal.code, NOT_ENOUGH)
        text = group_text(group, refusal.code, refusal.message, refusal.pod)
        return Condition(refusal.position, UNSCHEDULABLE, reason, text)
    if group.is_broken:
        # The lost pod already changed the status of the group.
        return Condition(
            group.decided.reported_status.since, UNSCHEDULABLE, NOT_ENOUGH, fit_text(group, "", "")
        )
    nomination = next(iter(group.decided.nominations.values()), None)
    if nomination is None:
        return None
    nodes = ", ".join(
        sorted({nomination.node for nomination in group.decided.nominations.values()})
    )
    text = fit_text(
        group,
        "",
        f"Waiting for pods to terminate on {nodes}.",
        could=len(group.decided.nominations),
    )
    return Condition(nomination.position, UNSCHEDULABLE, NOT_ENOUGH, text)


def pod_text(group: PodGroup, message: str, pod: Pod, origin: Pod | None) -> str:
    """Return why a pending pod has no node, from the message of a refusal: its own reason, or the reason of its
    gang.

    `origin` is the first pod of the gang that has no node.
    """
    if NOT_READY not in message:
        return message
    if pod is origin:
        return first_pod_message(message)
    key = group.task_key
    if origin is not None and key(pod) < key(origin) and not pod.pod_class.is_best_effort:
        return f"{HAD_A_NODE}: {message}"
    return message


def group_text(group: PodGroup, code: str, message: str, pod: str) -> str:
    """Return why the gang is not complete, from the message of a refusal found at a pod. A group without pods, and
    an incomplete group, get the plain reason."""
    if not group.pending or NOT_READY in message or code in _REASONS:
        return message
    return fit_text(group, pod, message)


def _latest(group: PodGroup) -> Refusal | None:
    """Return the last refusal of the group itself: a failed preemption is not the reason why the group is pending."""
    refusals = [one for action, one in group.decided.refusals.items() if action not in EVICTING]
    return max(refusals, key=lambda one: one.position, default=None)


def _already_reports(group: PodGroup, condition: Condition) -> bool:
    """Return True if the object has this condition already, and not the opposite one too."""
    conditions = () if group.observed.facts is None else group.observed.facts.conditions
    wanted = (condition.type, "True", condition.reason, condition.message)
    has = any(
        (one.type, one.status, one.reason or "", one.message or "") == wanted for one in conditions
    )
    return has and all(one.status != "True" for one in conditions if one.type != condition.type)


def _refused(group: PodGroup, refusal: Refusal) -> Iterator[Request]:
    origin = next((one for one in group.pending if one.key == refusal.pod), None)
    for pod in group.pending:
        if (
            pod.decided.reported_at >= refusal.position
            or pod.facts.uid in group.decided.nominations
            or pod.facts.is_cut
        ):
            continue
        text, reason = pod_text(group, refusal.message, pod, origin), _reason_of(refusal)
        if reason == NOT_READY_FOR_SCHEDULING:
            text = f"{refusal.code}: {text}"
        if pod.facts.scheduled_message != text:
            request = _waits(pod, refusal.position, text, reason)
            yield structs.replace(request, clears_nomination=_has_stale_nomination(pod))


def _has_stale_nomination(pod: Pod) -> bool:
    """Return whether the status of a pod, which is nominated for no node, has a node that muster wrote there: its
    condition says so. Another client may nominate nodes too (K7.3)."""
    node = pod.facts.nominated_node
    return bool(node) and pod.facts.scheduled_message == NOMINATED.format(node)


def _reason_of(refusal: Refusal) -> str:
    helps = node_helps(refusal.code, refusal.node_helps)
    return UNSCHEDULABLE if helps else NOT_READY_FOR_SCHEDULING


def _nominated(cluster: Cluster, pod: Pod, nomination: Nomination) -> Iterator[Request]:
    """Return the status of a pod that waits for room to be freed: it is nominated for the node where victims are
    evicted."""
    text = NOMINATED.format(nomination.node)
    if pod.decided.reported_at >= nomination.position or pod.facts.scheduled_message == text:
        return
    there = cluster.nodes.nodes[nomination.node].pods
    is_evicting = any(cluster.pods[uid].evicted for uid in there)
    node = nomination.node if is_evicting else ""
    yield _waits(pod, nomination.position, text, UNSCHEDULABLE, node)


def _waits(pod: Pod, position: int, text: str, reason: str, node: str = "") -> PodConditionRequest:
    return PodConditionRequest(
        decision=position,
        namespace=pod.facts.namespace,
        name=pod.facts.name,
        uid=pod.facts.uid,
        reason=reason,
        message=text,
        nominated_node=node,
    )
