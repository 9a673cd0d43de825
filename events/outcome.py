"""Outcomes of decisions. `unknown` is an outcome too: the object is read again, the result is never guessed."""

from events.record import Fact


class PodEffect(Fact, frozen=True, kw_only=True):
    """The outcome of a request for a pod on a node."""

    pod: str
    uid: str
    node: str


class PodBound(PodEffect, frozen=True, kw_only=True):
    """The API server accepted the binding."""

    kind = "pod_bound.v1"

    attempts: int = 1
    latency_ns: int = 0


class BindFailed(PodEffect, frozen=True, kw_only=True):
    """The API server rejected the binding: the pod is not on the node."""

    kind = "bind_failed.v1"

    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class BindOutcomeUnknown(PodEffect, frozen=True, kw_only=True):
    """No answer came, or one that does not show the result: the pod stays assumed until it is read again."""

    kind = "bind_outcome_unknown.v1"

    message: str
    attempts: int = 1
    latency_ns: int = 0


class PodAnnotated(PodEffect, frozen=True, kw_only=True):
    """The API server accepted the annotations that name the devices of a pod: it can be bound."""

    kind = "pod_annotated.v1"

    attempts: int = 1
    latency_ns: int = 0


class PodAnnotationFailed(PodEffect, frozen=True, kw_only=True):
    """The API server rejected the annotations of a pod: it is not bound."""

    kind = "pod_annotation_failed.v1"

    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class PodAnnotationUnknown(PodEffect, frozen=True, kw_only=True):
    """No answer came: the same annotations are written again."""

    kind = "pod_annotation_unknown.v1"

    message: str
    attempts: int = 1
    latency_ns: int = 0


class PodEvicted(PodEffect, frozen=True, kw_only=True):
    """The API server accepted the eviction: the pod is terminating."""

    kind = "pod_evicted.v1"

    attempts: int = 1
    latency_ns: int = 0


class EvictionFailed(PodEffect, frozen=True, kw_only=True):
    """The API server, or a PodDisruptionBudget, rejected the eviction: the pod stays."""

    kind = "eviction_failed.v1"

    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class EvictionOutcomeUnknown(PodEffect, frozen=True, kw_only=True):
    """No answer came: the pod is read again to see whether it is terminating."""

    kind = "eviction_outcome_unknown.v1"

    message: str
    attempts: int = 1
    latency_ns: int = 0


class ShadowDecisionEnded(PodEffect, frozen=True, kw_only=True):
    """A shadow, which carries nothing out, stopped assuming the placement or eviction that it decided."""

    kind = "shadow_decision_ended.v1"

    what: str
    """`bind` or `evict`"""
    at_ns: int
    """When, in ns since the epoch: a back-off begins then, and the last cycle may be long ago."""
    reason: str
    """`placed`: the pod has a node, by the scheduler that it names; `expired`: the cluster showed nothing of it in time."""


class PodGroupUpdated(Fact, frozen=True, kw_only=True):
    """The API server accepted an update of the phase of a PodGroup."""

    kind = "pod_group_updated.v1"

    pod_group: str
    phase: str
    attempts: int = 1
    latency_ns: int = 0


class PodGroupUpdateFailed(Fact, frozen=True, kw_only=True):
    """The API server rejected an update of the phase of a PodGroup."""

    kind = "pod_group_update_failed.v1"

    pod_group: str
    phase: str
    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class StatusUpdated(Fact, frozen=True, kw_only=True):
    """The API server accepted a status update; the record's `subject` is the object."""

    kind = "status_updated.v1"

    uid: str
    what: str
    """`PodScheduled` or `pod-status` of a pod, `conditions` or `counts` of a PodGroup, `allocated` of a Queue,
    `leaf switches`, `faults` or `restarts` of the ConfigMap that says what they are."""
    attempts: int = 1
    latency_ns: int = 0


class StatusUpdateFailed(Fact, frozen=True, kw_only=True):
    """The API server rejected a status update. The next one is sent when the status changes again."""

    kind = "status_update_failed.v1"

    uid: str
    what: str
    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0
