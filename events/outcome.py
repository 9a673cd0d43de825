"""What came of a decision. `unknown` is an outcome too: it is asked about, never guessed."""

from events.record import Fact


class PodEffect(Fact, frozen=True, kw_only=True):
    """Something was asked of a pod on a node."""

    pod: str
    uid: str
    node: str


class PodBound(PodEffect, frozen=True, kw_only=True):
    """The API server took the binding."""

    kind = "pod_bound.v1"

    attempts: int = 1
    latency_ns: int = 0


class BindFailed(PodEffect, frozen=True, kw_only=True):
    """The API server refused the binding: the pod is not where we meant it to be."""

    kind = "bind_failed.v1"

    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class BindOutcomeUnknown(PodEffect, frozen=True, kw_only=True):
    """No answer came, or one that says nothing: the pod stays assumed until it is read back."""

    kind = "bind_outcome_unknown.v1"

    message: str
    attempts: int = 1
    latency_ns: int = 0


class PodEvicted(PodEffect, frozen=True, kw_only=True):
    """The API server took the eviction: the pod has begun to end."""

    kind = "pod_evicted.v1"

    attempts: int = 1
    latency_ns: int = 0


class EvictionFailed(PodEffect, frozen=True, kw_only=True):
    """The API server, or a budget, refused the eviction: the pod stays."""

    kind = "eviction_failed.v1"

    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class EvictionOutcomeUnknown(PodEffect, frozen=True, kw_only=True):
    """No answer came: whether the pod has begun to end is asked again."""

    kind = "eviction_outcome_unknown.v1"

    message: str
    attempts: int = 1
    latency_ns: int = 0


class PodGroupUpdated(Fact, frozen=True, kw_only=True):
    """The API server was told the phase of a PodGroup."""

    kind = "pod_group_updated.v1"

    pod_group: str
    phase: str
    attempts: int = 1
    latency_ns: int = 0


class PodGroupUpdateFailed(Fact, frozen=True, kw_only=True):
    """The API server did not take the phase of a PodGroup."""

    kind = "pod_group_update_failed.v1"

    pod_group: str
    phase: str
    code: str
    message: str
    attempts: int = 1
    latency_ns: int = 0


class StatusUpdated(Fact, frozen=True, kw_only=True):
    """The API server took a status update; the record's `subject` is the object."""

    kind = "status_updated.v1"

    uid: str
    what: str
    """`PodScheduled` of a pod, `conditions` or `counts` of a PodGroup, `allocated` of a Queue."""
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
