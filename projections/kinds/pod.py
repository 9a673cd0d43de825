"""Pod. State applies pods itself, because it also keeps what was decided about them."""

from functools import partial
from typing import Final

from events.amount_text import amounts_text
from projections.api_resource import Resource
from projections.device_families import DeviceFamilies
from projections.objects import PodObject, read
from projections.observed_kind import ObservedKind
from projections.pod_class import parse_class
from projections.pods import pod_facts

PODS: Final = Resource(
    "Pod",
    "pods",
    short_names=("po",),
    subresources=("binding", "eviction", "status"),
    field_selectors=(
        *("spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "spec.serviceAccountName"),
        *("status.phase", "status.podIP", "status.nominatedNodeName"),
    ),
)


def _summary(families: DeviceFamilies, content: bytes) -> list[str]:
    obj = read(PodObject, content)
    if isinstance(obj, str):
        return [obj]
    facts, _ = pod_facts(obj, families)
    pod_class = parse_class(0, obj, families)
    asks = amounts_text(pod_class.request)
    return [
        facts.phase + (" " + facts.reason if facts.reason else ""),
        f"on {facts.node}" if facts.node else "",
        "being deleted" if facts.is_releasing else "",
        "gated" if facts.is_gated else "",
        f"asks for {asks}" if asks and not facts.node else "",
        f"of {'|'.join(pod_class.cards)}" if pod_class.cards and not facts.node else "",
        f"queue {facts.queue}" if facts.queue and not facts.node else "",
        f"group {facts.group_name}" if facts.group_name and not facts.node else "",
        pod_class.unsupported,
    ]


def pod_kind(families: DeviceFamilies) -> ObservedKind:
    """Return the kind, with what these families read of pods."""
    return ObservedKind(
        resource=PODS,
        why="what asks and what holds; one is read alone where the answer to a bind was lost, and gets its devices written on it",
        is_required=True,
        has_own_table=True,
        summarize=partial(_summary, families),
    )
