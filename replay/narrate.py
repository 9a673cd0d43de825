"""A log as text for people: one line per record, and under it a line for each pod of a decision.

    position  when     what
          17  0.000s   pod default/a-0 is seen: Pending, asks for 1 nvidia.com/gpu, 4 cpu
          22  0.000s   cycle
          27  0.000s     bind default/a in q1: 2 pods (because of 23)
                           default/a-0 -> n1, charged 1 H200
                           default/a-1 -> n2, charged 1 H200

Decisions are indented under their cycle. The record alone is enough for a line; with the object's content the line
holds more.
"""

from typing import Final

from events.cluster import KindListed, ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned, RecordsLost
from events.decision import Decision
from events.duration import format_duration
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    ShadowDecisionEnded,
    StatusUpdated,
    StatusUpdateFailed,
)
from events.record import Record
from events.subject import subject_text
from events.union import Event, Observation, Outcome
from events.watch import (
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)
from features.pools.facts import RELEASE_MARK
from features.table import FEATURES, KINDS
from projections.policy.policy import parse_policy
from replay.log_time import format_time

_WHEN: Final = 9
_POSITION: Final = 6


def narrate(
    record: Record,
    event: Event,
    content: bytes | None = None,
    *,
    start_ns: int = 0,
    is_shadow: bool = False,
) -> list[str]:
    """Return the lines of one record, of a log that began at `start_ns`; `is_shadow` if a shadow wrote it."""
    first, *more = sentences(record, event, content, is_shadow=is_shadow)
    when = f"{format_time(record.recorded_at_ns, start_ns):<{_WHEN}}"
    is_inside = record.cycle is not None and record.cycle != record.position
    margin = " " * (_POSITION + 2)
    head = f"{record.position:>{_POSITION}}  {when}  {'  ' if is_inside else ''}{first}"
    inner = margin + " " * len(when) + "    " + ("  " if is_inside else "")
    return [head, *(inner + line for line in more)]


def sentences(
    record: Record, event: Event, content: bytes | None = None, *, is_shadow: bool = False
) -> list[str]:
    """Return the sentences of one record, without position and time; the first one is the short form."""
    if isinstance(event, CycleOpened):
        return ["cycle"]
    if isinstance(event, PolicyWarned):
        return [f"policy warning: {event.path}: {event.message}"]
    if isinstance(event, StatusUpdated | StatusUpdateFailed):
        return [f"{subject_text(record.subject)} {_outcome(event)}"]
    if isinstance(event, Outcome):
        return [_outcome(event)]
    if isinstance(event, Decision):
        first, *more = event.lines()
        if is_shadow and event.pods:
            first = f"would {first}"
        return [first + _because(record), *more]
    return [_observation(record, event, content)]


def _observation(record: Record, event: Observation, content: bytes | None) -> str:
    match event:
        case DaemonStarted():
            what = "shadow" if event.is_shadow else "daemon"
            acts = ", decides about them and acts on nothing" if event.is_shadow else ""
            return (
                f"{what} {event.holder} {event.version} takes over the log, epoch {record.epoch}:"
                f" one cycle every {format_duration(event.period_ns)}, pods of {', '.join(event.scheduler_names)}{acts}"
            )
        case RecordsLost():
            return (
                f"the log lost its end: positions {event.first} to {event.last} (digest {event.digest[:12]}) were written, as "
                f"{event.source} states, and are not in this log; accepted by {event.accepted_by}"
            )
        case PolicyChanged():
            return f"policy {event.source} in force: {_policy(event)}"
        case ObjectObserved():
            kind = record.subject.partition("/")[0]
            observed = KINDS.get(kind)
            known = observed.summarize(content) if observed and content is not None else []
            summary = ", ".join(part for part in known if part)
            seen = f"{subject_text(record.subject)} is seen{': ' if summary else ''}{summary}"
            return seen + _answering(record)
        case ObjectDeleted():
            gone = ", found missing by a list" if event.synthesized else ""
            return f"{subject_text(record.subject)} is gone{gone}"
        case ObjectUnreadable():
            return f"{subject_text(record.subject)} cannot be read: {event.reason}"
        case _:
            return _view(record, event)


def _answering(record: Record) -> str:
    return f" (answers {record.cause})" if record.cause is not None else ""


def _because(record: Record) -> str:
    return f" (because of {record.cause})" if record.cause is not None else ""


def _outcome(event: Outcome) -> str:
    if isinstance(event, ShadowDecisionEnded):
        return _ended(event)
    tries = f" at attempt {event.attempts}" if event.attempts > 1 else ""
    match event:
        case PodBound():
            return f"pod {event.pod} is bound to {event.node}{tries}"
        case BindFailed():
            why = f"{event.code}: {event.message}"
            return f"pod {event.pod} is not bound to {event.node}{tries}: {why}"
        case BindOutcomeUnknown():
            return f"pod {event.pod}, bound to {event.node}: no answer{tries}: {event.message}"
        case PodAnnotated():
            return f"pod {event.pod} is annotated with its devices on {event.node}{tries}"
        case PodAnnotationFailed():
            why = f"{event.code}: {event.message}"
            return (
                f"pod {event.pod} is not annotated with its devices on {event.node}{tries}: {why}"
            )
        case PodAnnotationUnknown():
            return (
                f"pod {event.pod}, annotated with its devices on {event.node}: no answer{tries}: "
                f"{event.message}"
            )
        case PodGroupUpdated():
            return f"status of pod group {event.pod_group} is updated to {event.phase}{tries}"
        case PodGroupUpdateFailed():
            why = f"{event.code}: {event.message}"
            return f"status of pod group {event.pod_group} is not updated to {event.phase}{tries}: {why}"
        case PodEvicted():
            return f"pod {event.pod} is evicted from {event.node}{tries}"
        case EvictionFailed():
            why = f"{event.code}: {event.message}"
            return f"pod {event.pod} is not evicted from {event.node}{tries}: {why}"
        case EvictionOutcomeUnknown():
            return f"pod {event.pod}, evicted from {event.node}: no answer{tries}: {event.message}"
        case StatusUpdated() | StatusUpdateFailed():
            return _status_update(event)


def _ended(event: ShadowDecisionEnded) -> str:
    if event.what == "evict":
        return f"pod {event.pod} was not evicted from {event.node} in time: the shadow expects that no longer"
    if event.reason == "placed":
        return f"pod {event.pod} has a node: the shadow no longer assumes it on {event.node}"
    return (
        f"pod {event.pod} was not placed in time: the shadow no longer assumes it on {event.node}"
    )


def _status_update(event: StatusUpdated | StatusUpdateFailed) -> str:
    if isinstance(event, StatusUpdated):
        if event.what == RELEASE_MARK:
            return "is asked to release its resources"
        return f"has its status updated: {event.what}"
    return f"does not have its status updated: {event.what}: {event.code}: {event.message}"


def _view(
    record: Record,
    event: KindListed
    | WatchOpened
    | WatchClosed
    | WatchProgressed
    | ServerDiscovered
    | KindCompared
    | BindRejectedByNode
    | ForeignPodPlaced,
) -> str:
    match event:
        case KindListed():
            if not event.served:
                return f"{event.resource} is not served here"
            return f"every {event.resource} is seen: {event.count}"
        case WatchOpened():
            how = "is watched again" if event.is_resumed else "is watched"
            return f"every {event.resource} {how}, from revision {event.resource_version}"
        case WatchClosed():
            gap = "; what happens now is not seen" if event.has_gap else ""
            why = f": {event.message}" if event.message else ""
            return (
                f"the watch of {event.resource} {event.cause} after {event.count} events{why}{gap}"
            )
        case WatchProgressed():
            return f"every {event.resource} is seen up to revision {event.resource_version}"
        case KindCompared():
            differs = (
                f"{event.differences} differ from the log"
                if event.differences
                else "equal to the log"
            )
            return f"every {event.resource} is listed to check its watch: {event.count}, {differs}"
        case ServerDiscovered():
            return f"API server {event.version} serves {len(event.served)} kinds that muster reads"
        case BindRejectedByNode():
            short = ", ".join(event.resources)
            return f"pod {event.pod} is rejected by the kubelet of {event.node}: {event.reason} ({short}){_because(record)}"
        case ForeignPodPlaced():
            by = f"by {event.scheduler}" if event.scheduler else "without a scheduler"
            return (
                f"pod {event.pod} is on dedicated node {event.node}, bound {by}{_because(record)}"
            )


def _policy(event: PolicyChanged) -> str:
    policy, _ = parse_policy(bytes(event.policy), FEATURES.policy_table)
    tiers = " / ".join(", ".join(one.name for one in tier) for tier in policy.tiers)
    return f"{', '.join(policy.actions)} over {tiers}"
