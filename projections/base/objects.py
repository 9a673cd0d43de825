"""Objects of all kinds but pods, pod groups and queues, their configuration errors, and nodes that are not ready.

An object is applied as at its observation. Nothing is there yet that it could wake: pod groups and pods follow.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, structs

from events.errors import UsageError
from events.standing.objects import (
    ConfigErrorsStand,
    NodeUnreadyStands,
    ObjectStands,
    TotalsStand,
    WorkloadGoneStands,
)
from projections.apply_observation import apply_reading
from projections.base.contributor import BaseFold, Contributor, Piece, Stand, plain
from projections.cluster import Cluster
from projections.device_report import INVALID_REPORT, Reports, after_deletion, read_reports
from projections.kind_table import kinds_with
from projections.kinds.node import read_node
from projections.observed_kind import Reading
from projections.state import State

OF_THEIR_OWN: Final = ("Node", "Pod", "PodGroup", "Queue")
"""Kinds with a table of their own."""

AT_ONCE: Final = 1_000
"""Objects that are at hand at once."""


def _stands(state: State) -> Iterator[Stand]:
    for kind in dict.fromkeys((*kinds_with(state.cluster.features.table), *state.cluster.others)):
        if kind not in OF_THEIR_OWN:
            yield from _of_kind(state, kind)
    # Nodes come after the ConfigMaps that report their devices.
    for node in state.cluster.nodes.nodes.values():
        if node.facts is not None:
            yield Stand(f"Node//{node.name}", ObjectStands(uid=node.facts.uid), node.digest)


def _of_kind(state: State, kind: str) -> Iterator[Stand]:
    others, last_read = state.cluster.others.get(kind, {}), state.cluster.last_read
    # Of several objects that say something of one node the first counts: their facts keep their order.
    facts = state.cluster.object_facts.get(kind, {})
    for name in dict.fromkeys((*facts, *others)):
        subject, (uid, digest) = f"{kind}/{name}", others.get(name, ("", ""))
        if subject in last_read:
            is_gone = _is_gone(facts.get(name))
            yield Stand(subject, ObjectStands(uid=uid, is_gone=is_gone), last_read[subject])
        if digest:
            yield Stand(subject, ObjectStands(uid=uid), digest)


def _is_gone(facts: Struct | None) -> bool:
    """Return whether facts are what stands of a report that was deleted."""
    return isinstance(facts, Reports) and facts.is_gone


def _apply_gone(cluster: Cluster, kind: str, name: str, reading: Reading) -> None:
    """Keep what stands of a report that was deleted; `reading` is of the last one that could be read."""
    found = reading.of(read_reports, lambda problem, _: (INVALID_REPORT, problem))
    if isinstance(found, Reports) and (left := after_deletion(found)) is not None:
        cluster.object_facts.setdefault(kind, {})[name] = left
        cluster.last_read[reading.subject] = reading.digest


def _pieces(state: State) -> Iterator[Piece]:
    some: list[Stand] = []
    for stand in _stands(state):
        some.append(stand)
        if len(some) == AT_ONCE:
            yield piece_of(some)
            some = []
    yield piece_of(some)


def piece_of(stands: list[Stand]) -> Piece:
    """Return records that are made, with their objects."""
    return Piece([one.object for one in stands if one.object], lambda _: iter(stands))


def reading_of(fold: BaseFold, stand: Stand, uid: str, content: bytes | None) -> Reading:
    """Return the reading of the object of a record. Raises UsageError if the object was redacted."""
    if content is None:
        raise UsageError(f"{stand.subject}: its object was redacted; the base cannot be folded")
    return Reading(stand.subject, stand.object or "", uid, content, fold.on_error)


def _apply(fold: BaseFold, stand: Stand, content: bytes | None) -> None:
    event, cluster = stand.event, fold.state.cluster
    assert isinstance(event, ObjectStands)
    kind, _, name = stand.subject.partition("/")
    if kind == "Pod":
        pod = cluster.pods[event.uid]
        observed = structs.replace(pod.observed, digest=stand.object or "")
        cluster.exchange_pod(structs.replace(pod, observed=observed))
        return
    reading = reading_of(fold, stand, event.uid, content)
    if kind == "Node":
        facts = read_node(cluster, reading)
        cluster.nodes.put(facts, reading.digest)
    elif event.is_gone:
        _apply_gone(cluster, kind, name, reading)
    else:
        apply_reading(cluster, kind, reading)


OBJECTS: Final = Contributor(kinds=(ObjectStands,), pieces=_pieces, apply=_apply)


def _others_stand(state: State) -> Iterator[Stand]:
    cluster = state.cluster
    for uid in cluster.foreign_groups.deleted_owners:
        schedulers = cluster.foreign_groups.schedulers[uid]
        yield Stand(f"Workload//{uid}", WorkloadGoneStands(uid=uid, schedulers=schedulers))
    unready = cluster.unready_nodes
    for name, since_ns in unready.since_ns.items():
        is_uncounted = name in unready.uncounted
        event = NodeUnreadyStands(node=name, since_ns=since_ns, is_uncounted=is_uncounted)
        yield Stand(f"Node//{name}", event)
    if cluster.cluster_totals.totals:
        totals = tuple(cluster.cluster_totals.totals.items())
        yield Stand("Cycle//", TotalsStand(totals=totals))
    errors = cluster.config_errors
    for subject in dict.fromkeys((*errors.current, *errors.reported)):
        current, reported = errors.current.get(subject, ()), errors.reported.get(subject, ())
        yield Stand(subject, ConfigErrorsStand(current=current, reported=reported))


def _apply_others(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    cluster, event = fold.state.cluster, stand.event
    match event:
        case WorkloadGoneStands():
            cluster.foreign_groups.schedulers[event.uid] = event.schedulers
            cluster.foreign_groups.deleted_owners[event.uid] = None
        case NodeUnreadyStands():
            cluster.unready_nodes.since_ns[event.node] = event.since_ns
            if event.is_uncounted:
                cluster.unready_nodes.uncounted[event.node] = None
        case TotalsStand():
            cluster.cluster_totals.totals = dict(event.totals)
        case ConfigErrorsStand():
            if event.current:
                fold.errors[stand.subject] = event.current
            if event.reported:
                fold.reported_errors[stand.subject] = event.reported
        case _:
            raise AssertionError(f"{event.kind} is read elsewhere")


OTHERS: Final = Contributor(
    kinds=(WorkloadGoneStands, NodeUnreadyStands, TotalsStand, ConfigErrorsStand),
    pieces=plain(_others_stand),
    apply=_apply_others,
)
