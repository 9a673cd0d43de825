"""Pods: as they were last observed, what was decided about them, and what was fixed when they got their nodes."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct, msgpack, structs

from events.standing.objects import ObjectStands
from events.standing.pods import (
    BindingStands,
    EvictionStands,
    FailedBindingStands,
    PodRequest,
    PodSelection,
    PodStands,
)
from projections.affinity_terms import OTHER_VALUE, SelectedAs
from projections.base.contributor import BaseFold, Contents, Contributor, Piece, Stand, plain
from projections.base.objects import AT_ONCE, reading_of
from projections.commitments import Commitment
from projections.device_families import DeviceFamilies
from projections.fixed_requests import with_request
from projections.internal_error import ignore
from projections.objects import Metadata, PodObject, readable_pod
from projections.observed_kind import Reading
from projections.pod_class import NO_INDEX, ClassKey, PodClass, StatedRequest, parse_class
from projections.pod_reading import pod_reader
from projections.pod_terms import Labels
from projections.pods import (
    UNDECIDED,
    DecidedPod,
    FailedBinding,
    ObservedPod,
    Pod,
    PodFacts,
    Stated,
    pod_facts,
    pod_of,
)
from projections.state import State


class _Stated(Struct, frozen=True):
    """What the object of a pod says."""

    facts: PodFacts
    key: ClassKey
    """Key of its class, without a problem."""
    read: Callable[[], PodObject]
    problem: str

    @property
    def class_key(self) -> ClassKey:
        """Return the key of its class."""
        return (*self.key, "problem", self.problem) if self.facts.problem else self.key


def _stated(reading: Reading, families: DeviceFamilies) -> _Stated:
    def bare(problem: str, metadata: Metadata) -> _Stated:
        obj = PodObject(metadata=metadata)
        return _Stated(pod_facts(obj, families)[0], ("unreadable", problem), lambda: obj, problem)

    def whole(content: bytes) -> _Stated:
        found = pod_reader(families).read_facts(content)
        if isinstance(found, str):
            return bare(found, reading.metadata())
        facts, key = found
        return _Stated(facts, key, lambda: readable_pod(content), facts.problem)

    return reading.of(whole, bare)


# What stands


def _pieces(state: State) -> Iterator[Piece]:
    rest = iter(state.cluster.pods.values())
    while pods := tuple(islice(rest, AT_ONCE)):
        last_read = [state.cluster.last_read.get(f"Pod/{one.key}", "") for one in pods]
        digests = [*(one.digest for one in pods), *(one for one in last_read if one)]

        def stands(contents: Contents, pods: tuple[Pod, ...] = pods) -> Iterator[Stand]:
            for pod in pods:
                yield from _stand(state, pod, contents)

        yield Piece(digests, stands)


def _stand(state: State, pod: Pod, contents: Contents) -> Iterator[Stand]:
    uid, subject, pod_class = pod.facts.uid, f"Pod/{pod.key}", pod.pod_class
    digest = state.cluster.last_read.get(subject, pod.digest)
    request, seen = _request(state, pod, subject, digest, contents), pod_class.selected_as
    event = PodStands(
        uid=uid,
        request=request,
        is_otherwise_stated=pod.observed.stated is not None,
        pod_group=pod.group_key,
        assumed=pod.assumed,
        decision=pod.decision,
        bound_at=pod.decided.bound_at,
        charge=pod.charge,
        evicted=pod.evicted,
        reported_at=pod.decided.reported_at,
        failed_bindings=tuple([_failed(one) for one in pod.decided.failed_bindings]),
        devices=pod.devices,
        are_devices_reported=pod.decided.are_devices_reported,
        stated_devices=pod.decided.stated_devices,
        network=pod.decided.network,
        is_stuck=pod.decided.is_stuck,
        selection=None if seen is None else _selection(seen),
        plugin_labels=pod_class.plugin_labels,
        closed_tenant=pod_class.closed_tenant,
        rank=state.assignments.ranks.get(uid),
    )
    yield Stand(subject, event, digest)
    if digest != pod.digest:
        yield Stand(subject, ObjectStands(uid=uid), pod.digest)


def _request(
    state: State, pod: Pod, subject: str, digest: str, contents: Contents
) -> PodRequest | None:
    """Return what a pod asks for, if its object says something else."""
    facts, content = pod.facts, contents[digest]
    stated = _stated(
        Reading(subject, digest, facts.uid, content, ignore), state.cluster.device_families
    )
    key = state.cluster.inter_pod_affinity.classes.demand_key(pod.pod_class)
    asked = StatedRequest.of(key)
    if asked is None or (stated.facts == facts and stated.class_key == key):
        return None
    return PodRequest(
        pod_group=facts.group_name,
        needs_group_object=facts.needs_group_object,
        min_member=facts.min_member,
        queue=facts.queue,
        role=facts.role,
        index=facts.index,
        is_numbered=facts.is_numbered,
        task_priority=facts.task_priority,
        is_evictable=facts.is_evictable,
        is_protected=facts.is_protected,
        problem=facts.problem,
        assignments=facts.assignments,
        cards=asked.cards,
        options=asked.options,
        namespace=asked.namespace,
        labels=asked.labels,
    )


def _failed(one: FailedBinding) -> FailedBindingStands:
    return FailedBindingStands(
        decision=one.decision, node=one.node, devices=one.devices, network=one.network
    )


# Folding


def _apply(fold: BaseFold, stand: Stand, content: bytes | None) -> None:
    event, cluster = stand.event, fold.state.cluster
    assert isinstance(event, PodStands)
    reading = reading_of(fold, stand, event.uid, content)
    stated = _stated(reading, cluster.device_families)
    facts, kept = stated.facts, None
    if event.request is None:
        pod_class = cluster.inter_pod_affinity.classes.of(
            stated.class_key, stated.read, stated.problem
        )
    else:
        facts, pod_class = _asked(fold, stated, event.request)
        if event.is_otherwise_stated:
            own = parse_class(NO_INDEX, stated.read(), cluster.device_families, stated.problem)
            kept = Stated(stated.facts, msgpack.encode(stated.class_key), own)
    key = event.pod_group
    observed = ObservedPod(
        facts,
        _as_it_waited(fold, pod_class, event),
        reading.digest,
        cluster.groups[key].key if key else "",
        kept,
    )
    failed = [
        FailedBinding(one.decision, one.node, one.devices, one.network)
        for one in event.failed_bindings
    ]
    decided = DecidedPod(
        assumed=event.assumed,
        decision=event.decision,
        bound_at=event.bound_at,
        charge=fold.shared(event.charge),
        devices=event.devices,
        are_devices_reported=event.are_devices_reported,
        network=event.network,
        evicted=event.evicted,
        is_stuck=event.is_stuck,
        reported_at=event.reported_at,
        failed_bindings=tuple(failed),
        stated_devices=event.stated_devices,
    )
    pod = pod_of(observed, UNDECIDED if decided == UNDECIDED else decided)
    if event.rank is not None:
        fold.state.assignments.ranks[event.uid] = event.rank
    cluster.pods[event.uid] = pod
    if pod.group_key:
        cluster.groups[pod.group_key].load_pod(pod)


def _asked(fold: BaseFold, stated: _Stated, request: PodRequest) -> tuple[PodFacts, PodClass]:
    """Return facts and class of a pod by what it asked for when it got its node."""
    facts = structs.replace(
        stated.facts,
        group_name=request.pod_group,
        needs_group_object=request.needs_group_object,
        min_member=request.min_member,
        queue=request.queue,
        role=request.role,
        index=request.index,
        is_numbered=request.is_numbered,
        task_priority=request.task_priority,
        is_evictable=request.is_evictable,
        is_protected=request.is_protected,
        problem=request.problem,
        assignments=request.assignments,
    )
    asked = StatedRequest(request.cards, request.options, request.namespace, request.labels)
    return facts, fold.state.cluster.inter_pod_affinity.classes.of(
        asked.in_key(stated.key, request.problem),
        lambda: with_request(stated.read(), asked),
        request.problem,
    )


def _as_it_waited(fold: BaseFold, pod_class: PodClass, event: PodStands) -> PodClass:
    """Return the class of a pod with what of it others read when it last waited."""
    classes = fold.state.cluster.inter_pod_affinity.classes
    pod_class = classes.labelled(pod_class, event.plugin_labels, event.closed_tenant)
    seen = event.selection
    if seen is None:
        return pod_class
    return classes.selected(
        pod_class, SelectedAs(seen.namespace, _labels(seen), seen.is_barred, seen.is_weighed)
    )


def _selection(seen: SelectedAs) -> PodSelection:
    return PodSelection(
        namespace=seen.namespace,
        labels=tuple([one for one in seen.labels if one[1] != OTHER_VALUE]),
        other_labels=tuple([key for key, value in seen.labels if value == OTHER_VALUE]),
        is_barred=seen.is_barred,
        is_weighed=seen.is_weighed,
    )


def _labels(seen: PodSelection) -> Labels:
    other = [(key, OTHER_VALUE) for key in seen.other_labels]
    return tuple(sorted((*seen.labels, *other)))


PODS: Final = Contributor(kinds=(PodStands,), pieces=_pieces, apply=_apply)


def _commitments_stand(state: State) -> Iterator[Stand]:
    for kind, kept in ((BindingStands, state.commitments), (EvictionStands, state.evictions)):
        for one in kept.values():
            event = kind(
                decision=one.decision,
                pod=one.pod,
                uid=one.uid,
                node=one.node,
                is_unknown=one.is_unknown,
                assigned_ns=one.assigned_ns,
                is_annotated=one.is_annotated,
                mode=one.mode,
                in_favour_of=one.in_favour_of,
            )
            yield Stand(f"Pod/{one.pod}", event)


def _apply_commitment(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    one = stand.event
    assert isinstance(one, BindingStands | EvictionStands)
    kept = fold.state.commitments if isinstance(one, BindingStands) else fold.state.evictions
    kept[one.uid] = Commitment(
        decision=one.decision,
        pod=one.pod,
        uid=one.uid,
        node=one.node,
        is_unknown=one.is_unknown,
        assigned_ns=one.assigned_ns,
        is_annotated=one.is_annotated,
        mode=one.mode,
        in_favour_of=one.in_favour_of,
    )


COMMITMENTS: Final = Contributor(
    kinds=(BindingStands, EvictionStands),
    pieces=plain(_commitments_stand),
    apply=_apply_commitment,
)
