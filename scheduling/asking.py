"""What is to be asked of the API server: everything decided that has no outcome, and what objects are to be told.

A pure function of State. Whoever carries it out (`daemon/effects.py`) leaves out what is under way already.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from events.sighting import (
    BindRequest,
    EvictRequest,
    GroupCountsRequest,
    PhaseRequest,
    QueueStatusRequest,
    Request,
)
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.queues import Queue
from projections.state import State
from scheduling.conditions import conditions_to_tell

DECISION: Final = "muster.sh/decision"
"""Annotation of a bound pod: the position of the decision that bound it."""

TOLD_AT_ONCE: Final = 500
"""Statuses asked for in one go; the rest come when these are told."""


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
    yield from phases_to_tell(state)


def phases_to_tell(state: State) -> Iterator[Request]:
    """Phases of PodGroups that do not say them yet, in the order of their names."""
    for key in sorted(state.cluster.telling.phases):
        yield _phase(state.cluster.groups[key])


def has_to_tell(state: State, *, tells: bool) -> bool:
    """Whether something is left to be told: what the phase of a pod group is, or (`tells`) more than that."""
    telling = state.cluster.telling
    return bool(telling.phases) or (
        tells and bool(telling.counts or telling.reasons or telling.queues)
    )


def to_tell(state: State) -> Iterator[Request]:
    """Conditions of pods and pod groups that wait (K7.7), counts of pods, and what is allocated in queues.

    Only what an object does not say already, and what it was not told since. Groups and queues of which
    nothing is left to be told are forgotten.
    """
    cluster = state.cluster
    left = TOLD_AT_ONCE
    for key in list(cluster.telling.reasons):
        group = cluster.groups.get(key)
        asked = [] if group is None else list(conditions_to_tell(cluster, group))
        if not asked:
            del cluster.telling.reasons[key]
            continue
        yield from asked[:left]
        left -= len(asked)
        if left <= 0:
            break
    for key in islice(cluster.telling.counts, max(0, left)):
        yield _counts(cluster.groups[key])
    for name in list(cluster.telling.queues):
        queue = cluster.queues.get(name)
        is_ours = queue is not None and name not in cluster.strangers.queues
        request = _of_queue(queue, state.position) if queue is not None and is_ours else None
        if request is None:
            del cluster.telling.queues[name]
        else:
            yield request


def _phase(group: PodGroup) -> PhaseRequest:
    namespace, _, name = group.key.partition("/")
    phase, running, succeeded, failed = group.voice.status
    return PhaseRequest(
        decision=group.voice.since,
        namespace=namespace,
        name=name,
        uid=group.uid,
        phase=phase,
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _counts(group: PodGroup) -> GroupCountsRequest:
    namespace, _, name = group.key.partition("/")
    _, running, succeeded, failed = group.voice.status
    return GroupCountsRequest(
        decision=group.voice.since,
        namespace=namespace,
        name=name,
        uid=group.uid,
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _of_queue(queue: Queue, position: int) -> Request | None:
    """What its pods that have a node request, by resource, and the cards that this is charged as."""
    facts = queue.facts
    if facts is None or queue.is_mute:
        return None
    amounts: Amounts = {}
    for ledger in ("held", "allocated"):
        own: Amounts = getattr(queue, ledger)
        for name in (*own, *queue.below.get(ledger, ())):
            amounts.setdefault(name, queue.sum_of(ledger, name))
    amounts = {"cpu": 0, "memory": 0, **amounts}
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
