"""The state of watches: what the server serves, watches opened and closed, gaps.

Between a `watch_closed` with a gap and the next `kind_listed` of its kind, events are lost: an object that the list
does not hold is recorded as deleted, with the gap as the cause.
"""

from typing import Final

from events.record import Fact

WENT_BACK: Final = "revision_went_back"
"""The cause of a watch's end when the API server no longer has the history that the log holds: its etcd was
restored from an older snapshot, or it is another cluster's."""


FORBIDDEN: Final = "forbidden"
"""The cause of a watch's end, or of a list that failed, if muster may not list or watch the kind."""


class ServerDiscovered(Fact, frozen=True, kw_only=True):
    """Version and resources of the API server, read once at each start."""

    kind = "server_discovered.v1"

    version: str
    served: tuple[str, ...]
    """The resources it serves that muster knows, as `group/version/plural`, sorted."""


class WatchOpened(Fact, frozen=True, kw_only=True):
    """A watch was opened at a revision up to which the log holds everything."""

    kind = "watch_opened.v1"

    resource: str
    resource_version: str
    is_resumed: bool = False
    """Whether it resumes where the log ended: the server still had that revision, so no list was needed."""


class WatchClosed(Fact, frozen=True, kw_only=True):
    """A watch ended, and why."""

    kind = "watch_closed.v1"

    resource: str
    resource_version: str
    """The last revision that it had reached."""
    cause: str
    """`ended`, `cut`, `stalled`, `expired`, `failed`, `unauthorized`, `forbidden` or `revision_went_back`. The last one:
    the data of the server were restored from an older state, so earlier decisions are not relied upon."""
    message: str = ""
    count: int = 0
    """Events that it sent."""
    duration_ns: int = 0
    has_gap: bool = False
    """Whether events since then are lost until the kind is listed."""


class WatchProgressed(Fact, frozen=True, kw_only=True):
    """A bookmark: the log holds all events of a kind up to a revision."""

    kind = "watch_progressed.v1"

    resource: str
    resource_version: str


class KindCompared(Fact, frozen=True, kw_only=True):
    """A full list of a kind was compared with State while its watch went on; the differences follow, caused by this."""

    kind = "kind_compared.v1"

    resource: str
    resource_version: str
    """The revision of the list, which the watch had reached."""
    count: int
    """Objects in the list."""
    differences: int
    """Objects that differ, are missing in State, or are missing in the list."""


class BindRejectedByNode(Fact, frozen=True, kw_only=True):
    """The kubelet rejected a pod that muster had bound; the cause is the observation of the pod."""

    kind = "bind_rejected_by_node.v1"

    pod: str
    uid: str
    node: str
    reason: str
    """The reason of the kubelet, such as `OutOfcpu` or `UnexpectedAdmissionError`."""
    resources: tuple[str, ...]
    """The resources that the node lacks although it reports them; `pods` stands for the node as a whole."""


class ForeignPodPlaced(Fact, frozen=True, kw_only=True):
    """A pod that muster did not place is on a node that is dedicated to muster."""

    kind = "foreign_pod_placed.v1"

    pod: str
    uid: str
    node: str
    scheduler: str
    """The pod's `schedulerName`; empty if it has none."""
