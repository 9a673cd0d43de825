"""Kubernetes Events for records of the log, as data (K11).

Events are for people that look at an object without the log; they expire, and the log is the record. Reasons
are a closed list, `REASONS`; further detail (the code of a refusal, say) is the `action` of the Event.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct, structs

from events.decisions.config_invalid import ConfigInvalid
from events.decisions.eviction import EvictionDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.outcome import BindFailed, EvictionFailed, PodBound, PodEvicted, PodGroupUpdated
from events.record import Fact
from events.union import EVENTS
from events.watch import BindRejectedByNode, ForeignPodPlaced
from features.pools.group_overrides import KIND as OVERRIDES
from features.table import KINDS
from projections.cluster import Cluster
from projections.config_errors import OPTION_CUT
from projections.policy.policy import EVICTING
from projections.quarantine import ALL_TENANTS
from projections.session_priority import PRIORITY_CUT
from projections.tenants import tenant_word
from scheduling.conditions import group_text, pod_text

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

SCHEDULER: Final = "muster.sh/scheduler"
"""The reporting component: `From` in `kubectl describe`."""

PODS_REPORTED_MAX: Final = 32
"""Pods of one refusal that get an Event. All of them get the condition `PodScheduled`."""

REMEMBERED_MAX: Final = 10_000
"""Evictions in progress whose reasons are remembered; the oldest are forgotten first."""

NOTICED: Final[frozenset[str]] = frozenset(
    event.kind
    for event in EVENTS
    if issubclass(
        event,
        (
            *(PodBound, BindFailed, PodGroupUnschedulable, PodGroupUpdated, ConfigInvalid),
            *(EvictionDecided, PodEvicted, EvictionFailed, BindRejectedByNode, ForeignPodPlaced),
        ),
    )
)
"""Kinds of records that may cause an Event."""


class Reason(Struct, frozen=True):
    """A reason of an Event."""

    types: tuple[str, ...]
    regarding: tuple[str, ...]
    """Kinds of the objects that the Event is about."""
    meaning: str


CUTS: Final = (OPTION_CUT, PRIORITY_CUT)
"""Codes of values beyond a bound."""

_BOTH: Final = ("Pod", "PodGroup")
_REFUSED: Final = (WARNING,)

REASONS: Final[dict[str, Reason]] = {
    "Scheduled": Reason((NORMAL,), _BOTH, "The pod was bound to a node; the pod group is ready."),
    "FailedScheduling": Reason(
        _REFUSED, ("Pod",), "The pod cannot be placed now; the action is the code of the refusal."
    ),
    "Unschedulable": Reason(
        _REFUSED, ("PodGroup",), "The pod group cannot be placed now; the action is the code."
    ),
    "InsufficientCPUQuota": Reason(_REFUSED, _BOTH, "The queue's quota of cpu does not suffice."),
    "InsufficientMemoryQuota": Reason(
        _REFUSED, _BOTH, "The queue's quota of memory does not suffice."
    ),
    "InsufficientScalarQuota": Reason(
        _REFUSED, _BOTH, "The queue's quota of a card or another resource does not suffice."
    ),
    "EmptyQueueCapability": Reason(_REFUSED, _BOTH, "The queue has no capability at all."),
    "GetTaskRequestResourceFailed": Reason(
        _REFUSED, _BOTH, "What the pod asks for cannot be computed."
    ),
    "FailedBinding": Reason(_REFUSED, ("Pod",), "The API server refused the binding."),
    "Evict": Reason(
        (NORMAL, WARNING),
        _BOTH,
        "The pod has begun to end: a warning on it, a notice on its group.",
    ),
    "FailedEviction": Reason(
        _REFUSED, ("Pod",), "The API server or a budget refused the eviction; the pod stays."
    ),
    "InvalidQueue": Reason(
        _REFUSED, ("Queue",), "Something in the Queue cannot be read; the action says what."
    ),
    "Misconfigured": Reason(
        _REFUSED,
        ("Node", "PodGroup", "Pod"),
        "A label, an annotation or a field cannot be used as it is; the action says what. On a pod where its group has no object.",
    ),
    "RejectedByNode": Reason(
        _REFUSED,
        ("Node",),
        "The kubelet rejected a pod that was bound to it; the node is closed for a while to pods of its namespace, or to all.",
    ),
    "ForeignPlacement": Reason(
        _REFUSED, ("Node",), "Another scheduler placed a pod on a node dedicated to muster."
    ),
    "LogAnchored": Reason(
        (NORMAL,),
        ("Lease",),
        "Position and digest of the head of the log, for `log verify --expect`.",
    ),
}
"""Every reason of an Event that muster writes."""

QUOTA_REASONS: Final = frozenset(
    name for name, one in REASONS.items() if one.regarding == _BOTH and one.types == _REFUSED
)
"""Codes of refusals that are reasons of Events themselves."""


class Regarding(Struct, frozen=True):
    """The object that an Event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


class EventNotice(Struct, frozen=True):
    """An Event to be written."""

    regarding: Regarding
    type: str
    reason: str
    action: str
    note: str
    reporter: str = SCHEDULER


def log_anchored(position: int, digest: str, lease: Regarding) -> EventNotice:
    """Return the notice of an anchor. Its action has the position: with the same action it would only count in a series."""
    note = f"The log ends at {position}:{digest}"
    return EventNotice(lease, NORMAL, "LogAnchored", f"Anchoring-{position}", note)


class EventFactory:
    """Makes notices of records. It remembers the reasons of evictions until they are done."""

    def __init__(self) -> None:
        self._evictions: dict[str, tuple[str, str]] = {}
        """UID to pod group and reason."""

    def notices(self, event: Fact, cluster: Cluster) -> list[EventNotice]:
        """Return the notices for a record, in the cluster as it is."""
        match event:
            case PodBound():
                note = f"Successfully assigned {event.pod} to {event.node}"
                return [
                    EventNotice(_pod(event.pod, event.uid), NORMAL, "Scheduled", "Binding", note)
                ]
            case BindFailed():
                return _bind_failed(event)
            case PodGroupUnschedulable():
                return [_reported(one, cluster) for one in _refused(event, cluster)]
            case PodGroupUpdated(phase="Running"):
                note = "pod group is ready"
                return _on_group(
                    cluster, event.pod_group, NORMAL, reason="Scheduled", action="Ready", note=note
                )
            case EvictionDecided():
                self._remember(event)
            case PodEvicted():
                return self._evicted(event, cluster)
            case EvictionFailed():
                self._evictions.pop(event.uid, None)
                note = f"Eviction from node {event.node} failed: {event.code}: {event.message}"
                regarding = _pod(event.pod, event.uid)
                return [EventNotice(regarding, WARNING, "FailedEviction", event.code, note)]
            case ConfigInvalid():
                return _misconfigured(event, cluster)
            case BindRejectedByNode() | ForeignPodPlaced():
                return _on_node(event, cluster)
            case _:
                pass
        return []

    def _remember(self, event: EvictionDecided) -> None:
        because = event.action
        if event.in_favour_of:
            because += f" in favour of {event.in_favour_of}"
        if event.message:
            because += f": {event.message}"
        for one in event.evictions:
            self._evictions[one.uid] = (event.pod_group, because)
        while len(self._evictions) > REMEMBERED_MAX:
            del self._evictions[next(iter(self._evictions))]

    def _evicted(self, event: PodEvicted, cluster: Cluster) -> list[EventNotice]:
        group, because = self._evictions.pop(event.uid, ("", ""))
        text = f"is evicted, because of {because}" if because else "is evicted"
        regarding = _pod(event.pod, event.uid)
        on_group = _on_group(
            cluster,
            group,
            NORMAL,
            reason="Evict",
            action="Evicting",
            note=f"Pod {event.pod} {text}",
        )
        return [EventNotice(regarding, WARNING, "Evict", "Evicting", f"Pod {text}"), *on_group]


def _bind_failed(event: BindFailed) -> list[EventNotice]:
    if event.code == "NotFound":
        return []  # The object of the Event is gone.
    note = f"Binding to node {event.node} failed: {event.code}: {event.message}"
    return [EventNotice(_pod(event.pod, event.uid), WARNING, "FailedBinding", event.code, note)]


def _refused(event: PodGroupUnschedulable, cluster: Cluster) -> Iterator[EventNotice]:
    """The group, if it has an object, and its waiting pods; the one that was examined first.

    A gang that is complete and has started gets no Event for pods beyond it (#4971 of Volcano).
    """
    group = cluster.groups.get(event.pod_group)
    if group is None or event.action in EVICTING:
        return  # A failed preemption is not the reason why the group waits.
    named = event.code if event.code in QUOTA_REASONS else ""
    message = event.message if named else group_text(group, event.code, event.message, event.pod)
    if not (group.is_ready and group.counts.allocated):
        yield from _on_group(
            cluster,
            event.pod_group,
            WARNING,
            reason=named or "Unschedulable",
            action=event.code,
            note=message,
        )
    first = [one for one in group.pending if one.key == event.pod]
    rest = (one for one in group.pending if one.key != event.pod)
    origin = first[0] if first else None
    for pod in [*first, *islice(rest, PODS_REPORTED_MAX - len(first))]:
        regarding, note = _pod(pod.key, pod.facts.uid), pod_text(group, event.message, pod, origin)
        yield EventNotice(regarding, WARNING, named or "FailedScheduling", event.code, note)


def _reported(notice: EventNotice, cluster: Cluster) -> EventNotice:
    reporter = cluster.plugins.quota.event_reporter
    is_of_quota = reporter and notice.reason in QUOTA_REASONS
    return structs.replace(notice, reporter=reporter) if is_of_quota else notice


def _on_group(
    cluster: Cluster, key: str, kind: str, *, reason: str, action: str, note: str
) -> list[EventNotice]:
    group = cluster.groups.get(key)
    if group is None or group.observed.facts is None or group.is_foreign:
        return []
    facts = group.observed.facts
    regarding = Regarding(
        "PodGroup", facts.name, facts.uid, facts.namespace, "scheduling.volcano.sh/v1beta1"
    )
    return [EventNotice(regarding, kind, reason, action, note)]


def _misconfigured(event: ConfigInvalid, cluster: Cluster) -> list[EventNotice]:
    kind, _, key = event.subject.partition("/")
    if kind == "PodGroup" and event.code in CUTS:
        group = cluster.groups.get(key)
        if group is not None and group.observed.facts is None and group.pods:
            # A group without an object: its first pod stands for it.
            pod = next(iter(group.pods.values()))
            regarding = _pod(pod.key, pod.facts.uid)
            return [EventNotice(regarding, WARNING, "Misconfigured", event.code, event.message)]
    if kind == "PodGroup":
        return _on_group(
            cluster, key, WARNING, reason="Misconfigured", action=event.code, note=event.message
        )
    if kind == "Queue":
        queue = cluster.queues.get(key.strip("/"))
        if queue is None or queue.facts is None:
            return []
        regarding = Regarding(
            kind, queue.name, queue.facts.uid, api_version="scheduling.volcano.sh/v1beta1"
        )
        return [EventNotice(regarding, WARNING, "InvalidQueue", event.code, event.message)]
    if kind in ("HyperNode", OVERRIDES):
        uid, _ = cluster.others.get(kind, {}).get(key, ("", ""))
        version = KINDS[kind].resource.api_version
        regarding = Regarding(kind, key.strip("/"), uid, api_version=version)
        return [EventNotice(regarding, WARNING, "Misconfigured", event.code, event.message)]
    node = cluster.nodes.nodes.get(key.strip("/")) if kind == "Node" else None
    if node is None or node.facts is None:
        return []
    regarding = Regarding("Node", node.name, node.facts.uid)
    return [EventNotice(regarding, WARNING, "Misconfigured", event.code, event.message)]


def _on_node(event: BindRejectedByNode | ForeignPodPlaced, cluster: Cluster) -> list[EventNotice]:
    node = cluster.nodes.nodes.get(event.node)
    if node is None or node.facts is None:
        return []
    regarding = Regarding("Node", event.node, node.facts.uid)
    if isinstance(event, BindRejectedByNode):
        note = f"Pod {event.pod} was rejected: {event.reason}{_closed_to(event, cluster)}"
        return [EventNotice(regarding, WARNING, "RejectedByNode", "Quarantining", note)]
    by = f"scheduler {event.scheduler}" if event.scheduler else "no scheduler"
    note = f"Pod {event.pod} was placed here by {by}, on a node dedicated to muster"
    return [EventNotice(regarding, WARNING, "ForeignPlacement", "Counting", note)]


def _closed_to(event: BindRejectedByNode, cluster: Cluster) -> str:
    """Say to which pods a node is closed after a rejection, and for how long; empty if that is over already."""
    found: list[str] = []
    tenant = cluster.tenants.tenant_of(event.pod.partition("/")[0])
    for one in cluster.quarantines.standing(event.node):
        if one.reason != event.reason or one.resource not in event.resources:
            continue
        if one.tenant not in (tenant, ALL_TENANTS):
            continue
        whose = "all namespaces" if one.tenant == ALL_TENANTS else f"its {tenant_word(tenant)}"
        pods = f"pods of {whose}"
        those = pods if one.resource == "pods" else f"{pods} that request {one.resource}"
        found.append(f"closed to {those} for {one.length_ns // 1_000_000_000} s")
    return "".join(f"; {text}" for text in found)


def _pod(key: str, uid: str) -> Regarding:
    namespace, _, name = key.partition("/")
    return Regarding("Pod", name, uid, namespace)
