"""What a history came to: without it a machine that plays nothing of note would find nothing wrong."""

from collections.abc import Iterator, Mapping
from typing import Final

from hypothesis import settings

from events.cluster import ObjectDeleted, ObjectObserved
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.outcome import BindFailed
from events.record import Record
from events.union import Event
from projections.refusals import CLAIM_CODES
from projections.state import State

KINDS: Final = {"mig-": "a slice is charged", "mps-": "a share is charged"}


def rarely_reached(seen: Mapping[str, int], wanted: tuple[str, ...], least: int) -> dict[str, int]:
    """What happened less often than the test needs. Examples that differ each time may miss what is rare."""
    assert settings.default is not None
    if not settings.default.derandomize:
        return {}
    return {one: seen[one] for one in wanted if seen[one] < least}


def reached(state: State, record: Record, event: Event) -> Iterator[str]:
    """What of note a record brings; `state` has it already."""
    match event:
        case GangBindDecided() | PipelineDecided():
            yield from _placed(state, event)
        case EvictionDecided():
            yield f"a pod is evicted: {event.action}"
        case PipelineWithdrawn():
            yield "a promise is withdrawn"
        case PodGroupUnschedulable() if event.code == "InsufficientScalarQuota":
            yield "a quota of cards is used up"
        case PodGroupUnschedulable() if event.code in CLAIM_CODES:
            yield f"a claim refuses a pod: {event.code}"
        case BindFailed():
            yield "a bind fails"
        case ObjectDeleted() if record.subject.removeprefix("Node//") in state.cluster.nodes.nodes:
            yield "a node is lost under its pods"
        case ObjectObserved() if _is_above(state, record.subject.removeprefix("Queue//")):
            yield "a quota is lowered below use"
        case _:
            pass


def _placed(state: State, event: GangBindDecided | PipelineDecided) -> Iterator[str]:
    what = "pods are nominated" if isinstance(event, PipelineDecided) else "pods are bound"
    yield what
    if len(event.placements) > 1:
        yield f"{what}: a gang"
    for one in event.placements:
        if state.cluster.pods[one.uid].pod_class.claims:
            yield f"{what}: with a claim"
        if one.cards and len(state.cluster.pods[one.uid].pod_class.cards) > 1:
            yield "one of several cards is charged"
        for card in one.cards:
            yield KINDS.get(card.partition("/")[2][:4], "a whole card is charged")


def _is_above(state: State, name: str) -> bool:
    queue = state.cluster.queues.get(name)
    if queue is None or queue.facts is None:
        return False
    quota = queue.facts.quota
    return any(queue.allocated.get(card, 0) > count for card, count in quota.items())
