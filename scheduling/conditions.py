"""What a pod group and its waiting pods say in their conditions: whether the gang is whole, and why not (B.14).

A PodGroup says `Scheduled` as soon as its gang is whole, whatever becomes of pods beyond it, and else
`Unschedulable` with what keeps it, also where it fell below its minimum and no pod of it waits. A pod without a node says `PodScheduled=False` for the reason
`Unschedulable`, also one that could have had a node if its gang were whole: what makes clusters grow looks
for no other reason (Volcano says `Schedulable` there, which hides such pods).
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from events.messages import PodConditionRequest, PodGroupConditionRequest, Request
from projections.cluster import Cluster
from projections.group_facts import SCHEDULED, UNSCHEDULABLE
from projections.pod_groups import Nomination, PodGroup, Refusal
from projections.pods import Pod
from projections.policy import EVICTING
from scheduling.unschedulable import NOT_READY, first_pod_message, fit_text

WHOLE: Final = "tasks in gang are ready to be scheduled"
"""The reason of `Scheduled`."""

NOT_ENOUGH: Final = "NotEnoughResources"

HAD_A_NODE: Final = "there is a node for it once its gang is whole"
"""What a pod says that had a node when its gang was refused, before the words of the gang."""

_REASONS: Final = {
    "NotEnoughPods": "NotEnoughTasks",
    "NotEnoughPodsOfTask": "NotEnoughPodsOfTask",
}
"""Code of a refusal to the reason of `Unschedulable`; with every other code something is not enough."""


class Condition(Struct, frozen=True):
    """What a PodGroup is to say, and the position of the record that says so."""

    position: int
    type: str
    reason: str
    message: str = ""


def condition_updates(cluster: Cluster, group: PodGroup) -> Iterator[Request]:
    """What the group and its pods do not say yet and were not told since."""
    condition = condition_of(group)
    facts = group.facts
    is_new = (
        condition is not None and group.reported_status.conditions_reported_at < condition.position
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
    for uid, promise in group.nominations.items():
        yield from _nominated(cluster, group.pods[uid], promise)


def condition_of(group: PodGroup) -> Condition | None:
    """The condition that holds of a pod group; None where nothing is known yet."""
    if group.reported_status.ready_since and "enqueue" not in group.refusals:
        return Condition(group.reported_status.ready_since, SCHEDULED, WHOLE)
    refusal = _latest(group)
    if refusal is not None:
        reason = _REASONS.get(refusal.code, NOT_ENOUGH)
        text = group_text(group, refusal.code, refusal.message, refusal.pod)
        return Condition(refusal.position, UNSCHEDULABLE, reason, text)
    if group.is_broken:
        # Its status has changed with the pod that it lost.
        return Condition(
            group.reported_status.since, UNSCHEDULABLE, NOT_ENOUGH, fit_text(group, "", "")
        )
    promise = next(iter(group.nominations.values()), None)
    if promise is None:
        return None
    nodes = ", ".join(sorted({held.node for held in group.nominations.values()}))
    text = fit_text(group, "", f"Room is being freed on {nodes}.", could=len(group.nominations))
    return Condition(promise.position, UNSCHEDULABLE, NOT_ENOUGH, text)


def pod_text(message: str, pod: Pod, origin: Pod | None) -> str:
    """Why a waiting pod has no node, of the message of a refusal: its own reason, or what keeps its gang.

    `origin` is the first pod of the gang for which there was none.
    """
    if NOT_READY not in message:
        return message
    if pod is origin:
        return first_pod_message(message)
    if origin is not None and pod.sort_key < origin.sort_key and not pod.pod_class.is_best_effort:
        return f"{HAD_A_NODE}: {message}"
    return message


def group_text(group: PodGroup, code: str, message: str, pod: str) -> str:
    """What keeps the gang, of the message of a refusal found at a pod. A group without pods says just why it
    is refused; so does an incomplete one."""
    if not group.pending or NOT_READY in message or code in _REASONS:
        return message
    return fit_text(group, pod, message)


def _latest(group: PodGroup) -> Refusal | None:
    """The last word on the group itself: that nobody is evicted for it is no reason why it waits."""
    told = [one for action, one in group.refusals.items() if action not in EVICTING]
    return max(told, key=lambda one: one.position, default=None)


def _already_reports(group: PodGroup, condition: Condition) -> bool:
    """Whether the object says it already, and not the opposite as well."""
    said = () if group.facts is None else group.facts.conditions
    told = (condition.type, "True", condition.reason, condition.message)
    has = any((one.type, one.status, one.reason or "", one.message or "") == told for one in said)
    return has and all(one.status != "True" for one in said if one.type != condition.type)


def _refused(group: PodGroup, refusal: Refusal) -> Iterator[Request]:
    origin = next((one for one in group.pending if one.key == refusal.pod), None)
    for pod in group.pending:
        if (
            pod.reported_at >= refusal.position
            or pod.facts.uid in group.nominations
            or pod.facts.is_cut
        ):
            continue
        text = pod_text(refusal.message, pod, origin)
        if pod.facts.scheduled_message != text:
            yield _unschedulable(pod, refusal.position, text)


def _nominated(cluster: Cluster, pod: Pod, promise: Nomination) -> Iterator[Request]:
    """A pod for which room is being freed; it is nominated for the node where pods are evicted."""
    text = f"room is being freed for it on node {promise.node}"
    if pod.reported_at >= promise.position or pod.facts.scheduled_message == text:
        return
    there = cluster.nodes.node(promise.node).pods
    is_evicting = any(cluster.pods[uid].evicted for uid in there)
    yield _unschedulable(pod, promise.position, text, promise.node if is_evicting else "")


def _unschedulable(pod: Pod, position: int, text: str, node: str = "") -> PodConditionRequest:
    return PodConditionRequest(
        decision=position,
        namespace=pod.facts.namespace,
        name=pod.facts.name,
        uid=pod.facts.uid,
        reason=UNSCHEDULABLE,
        message=text,
        nominated_node=node,
    )
