"""What is to be asked of the API server: everything decided that has no outcome, and what objects are to be told.

A pure function of State. Whoever carries it out (`daemon/effects.py`) leaves out what is under way already.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from events.messages import (
    BindRequest,
    EvictRequest,
    GroupCountsRequest,
    PhaseRequest,
    QueueStatusRequest,
    Request,
)
from projections.internal_error import OnError, ignore, report
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import DECISION
from projections.queues import Queue
from projections.state import State
from scheduling.conditions import conditions_to_tell

TOLD_AT_ONCE: Final = 500
"""Statuses asked for in one go; the rest come when these are told."""


def to_do(state: State, on_error: OnError = ignore) -> Iterator[Request]:
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
            is_in_doubt=one.is_unknown,
        )
    for one in sorted(state.evictions.values(), key=lambda one: one.decision):
        namespace, _, name = one.pod.partition("/")
        yield EvictRequest(
            decision=one.decision,
            namespace=namespace,
            name=name,
            uid=one.uid,
            node=one.node,
            is_in_doubt=one.is_unknown,
            workload=_owner_of(state, one.uid),
        )
    yield from phases_to_tell(state, on_error)


def _owner_of(state: State, uid: str) -> str:
    pod = state.cluster.pods.get(uid)
    owner = None if pod is None else pod.facts.owner
    return "" if owner is None else owner.uid


def _each(
    kind: str, keys: Iterable[str], ask: Callable[[str], Iterable[Request]], on_error: OnError
) -> Iterator[tuple[str, list[Request]]]:
    """Each key with what is asked for it; nothing where finding out raises."""
    for key in keys:
        try:
            asked = list(ask(key))
        except Exception as error:  # a bug, whatever it is
            report(error, f"{kind}/{key}", "requests", on_error)
            asked = []
        yield key, asked


def phases_to_tell(state: State, on_error: OnError = ignore) -> Iterator[Request]:
    """Phases of PodGroups that do not say them yet, in the order of their names."""
    groups = state.cluster.groups
    keys = sorted(state.cluster.telling.phases)
    for _, asked in _each("PodGroup", keys, lambda key: (_phase(groups[key]),), on_error):
        yield from asked


def has_to_tell(state: State, *, tells: bool) -> bool:
    """Whether something is left to be told: what the phase of a pod group is, or (`tells`) more than that."""
    telling = state.cluster.telling
    return bool(telling.phases) or (
        tells and bool(telling.counts or telling.reasons or telling.queues)
    )


def to_tell(state: State, on_error: OnError = ignore) -> Iterator[Request]:
    """Conditions of pods and pod groups that wait (K7.7), counts of pods, and what is allocated in queues.

    Only what an object does not say already, and what it was not told since. Groups and queues of which
    nothing is left to be told are forgotten.
    """
    cluster = state.cluster
    left = TOLD_AT_ONCE

    def conditions(key: str) -> Iterable[Request]:
        group = cluster.groups.get(key)
        return () if group is None else conditions_to_tell(cluster, group)

    def status(name: str) -> Iterable[Request]:
        queue = cluster.queues.get(name)
        is_ours = queue is not None and name not in cluster.strangers.queues
        request = _of_queue(queue, state.position) if queue is not None and is_ours else None
        return () if request is None else (request,)

    for key, asked in _each("PodGroup", list(cluster.telling.reasons), conditions, on_error):
        if not asked:
            del cluster.telling.reasons[key]
            continue
        yield from asked[:left]
        left -= len(asked)
        if left <= 0:
            break
    keys = list(islice(cluster.telling.counts, max(0, left)))
    for _, asked in _each("PodGroup", keys, lambda key: (_counts(cluster.groups[key]),), on_error):
        yield from asked
    for name, asked in _each("Queue/", list(cluster.telling.queues), status, on_error):
        if not asked:
            del cluster.telling.queues[name]
        yield from asked


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
    """An amount as Kubernetes writes it: cpu in cores or milli-cores, memory in bytes, cards whole."""
    if name != "cpu":
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
