"""What is to be asked of the API server: everything decided that has no outcome, and what objects are to be told.

A pure function of State. Whoever carries it out (`daemon/effects.py`) leaves out what is under way already.
"""

from collections.abc import Iterator
from typing import Final

from events.sighting import (
    BindRequest,
    ConditionRequest,
    EvictRequest,
    GroupConditionRequest,
    PhaseRequest,
    QueueStatusRequest,
    Request,
)
from projections.pod_groups import PodGroup, Refusal
from projections.policy import EVICTING
from projections.queues import Queue
from projections.state import State

DECISION: Final = "muster.sh/decision"
"""Annotation of a bound pod: the position of the decision that bound it."""

TOLD_AT_ONCE: Final = 500
"""Statuses asked for in one go; the rest come when these are told."""

NOT_ENOUGH: Final = "NotEnoughResources"
UNSCHEDULABLE: Final = "Unschedulable"


def to_do(state: State) -> Iterator[Request]:
    """Bindings, evictions and phases, in the order of their decisions within each."""
    for one in sorted(state.commitments.values(), key=lambda one: one.decision):
        namespace, _, name = one.pod.partition("/")
        yield BindRequest(
            decision=one.decision,
            namespace=namespace,
            name=name,
            uid=one.uid,
            node=one.node,
            annotations={DECISION: str(one.decision)},
        )
    for one in sorted(state.evictions.values(), key=lambda one: one.decision):
        namespace, _, name = one.pod.partition("/")
        yield EvictRequest(
            decision=one.decision, namespace=namespace, name=name, uid=one.uid, node=one.node
        )
    for key, (decision, phase) in sorted(state.phases.items()):
        namespace, _, name = key.partition("/")
        group = state.cluster.groups.get(key)
        if group is not None:
            yield PhaseRequest(
                decision=decision, namespace=namespace, name=name, uid=group.uid, phase=phase
            )


def to_tell(state: State) -> Iterator[Request]:
    """Conditions of pods and pod groups that wait (K7.7), and what is allocated in queues.

    Only what an object does not say already, and what it was not told since. Groups of which nothing is
    left to be told are forgotten.
    """
    left = TOLD_AT_ONCE
    for key in list(state.cluster.tellable):
        group = state.cluster.groups.get(key)
        refusal = None if group is None else _latest(group)
        asked = [] if group is None or refusal is None else list(_of_group(group, refusal))
        if not asked:
            del state.cluster.tellable[key]
            continue
        yield from asked[:left]
        left -= len(asked)
        if left <= 0:
            break
    for queue in state.cluster.queues.values():
        if (request := _of_queue(queue, state.position)) is not None:
            yield request


def _latest(group: PodGroup) -> Refusal | None:
    """The last word on the group itself: that nobody is evicted for it is no reason why it waits."""
    told = [one for action, one in group.refusals.items() if action not in EVICTING]
    return max(told, key=lambda one: one.position, default=None)


def _of_group(group: PodGroup, refusal: Refusal) -> Iterator[Request]:
    namespace, _, name = group.key.partition("/")
    if group.facts is not None and group.told < refusal.position:
        yield GroupConditionRequest(
            decision=refusal.position,
            namespace=namespace,
            name=name,
            uid=group.facts.uid,
            type=UNSCHEDULABLE,
            reason=NOT_ENOUGH,
            message=refusal.message,
        )
    for pod in group.pending:
        if pod.told < refusal.position and pod.facts.told != refusal.message:
            yield ConditionRequest(
                decision=refusal.position,
                namespace=pod.facts.namespace,
                name=pod.facts.name,
                uid=pod.facts.uid,
                reason=UNSCHEDULABLE,
                message=refusal.message,
            )


def _of_queue(queue: Queue, position: int) -> Request | None:
    facts = queue.facts
    if facts is None or queue.is_mute:
        return None
    amounts = {"cpu": 0, "memory": 0, **queue.allocated}
    if tuple(sorted(amounts.items())) == facts.told:
        return None
    allocated = {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}
    return QueueStatusRequest(
        decision=position, name=facts.name, uid=facts.uid, allocated=allocated
    )


def _quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it (K16.4): cpu in cores or milli-cores, memory in bytes, cards whole."""
    if name != "cpu":
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
