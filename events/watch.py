"""What happened to our view of the cluster: what the server serves, watches opened and closed, gaps.

Between a `watch_closed` with a gap and the next `kind_listed` of its kind it is not known what happened:
what the list then shows missing is recorded as gone, with the gap as its cause.
"""

from typing import Final

from events.record import Fact

WENT_BACK: Final = "revision_went_back"
"""The cause of a watch's end when the API server no longer has the history that the log holds: its etcd was
restored from an older snapshot, or it is another cluster's."""


class ServerDiscovered(Fact, frozen=True, kw_only=True):
    """What the API server says of itself, read once at each start."""

    kind = "server_discovered.v1"

    version: str
    served: tuple[str, ...]
    """The resources it serves that muster knows, as `group/version/plural`, sorted."""


class WatchOpened(Fact, frozen=True, kw_only=True):
    """A watch was opened behind a revision, up to which everything is in the log."""

    kind = "watch_opened.v1"

    resource: str
    resource_version: str
    is_resumed: bool = False
    """From where the log ended: the server still knew that revision, so no list was needed."""


class WatchClosed(Fact, frozen=True, kw_only=True):
    """A watch ended, and why."""

    kind = "watch_closed.v1"

    resource: str
    resource_version: str
    """The last revision it had come to."""
    cause: str
    """With `revision_went_back` the server's data was set back: nothing decided before is relied upon."""
    message: str = ""
    count: int = 0
    """Events it showed."""
    duration_ns: int = 0
    has_gap: bool = False
    """Whether what happened since cannot be seen any more, until the kind is listed."""


class WatchProgressed(Fact, frozen=True, kw_only=True):
    """A bookmark: all that happened to a kind up to a revision is in the log."""

    kind = "watch_progressed.v1"

    resource: str
    resource_version: str


class KindCompared(Fact, frozen=True, kw_only=True):
    """A kind was listed whole beside its watch, and compared with the log; what differed follows, caused by this."""

    kind = "kind_compared.v1"

    resource: str
    resource_version: str
    """The revision of the list, up to which the watch had shown everything."""
    count: int
    """Objects in the list."""
    differences: int
    """Objects that the log showed otherwise, or not at all, or that are not in the list."""


class BindRejectedByNode(Fact, frozen=True, kw_only=True):
    """The kubelet turned a pod away that muster had bound: its cause is the observation."""

    kind = "bind_rejected_by_node.v1"

    pod: str
    uid: str
    node: str
    reason: str
    """As the kubelet has it: `OutOfcpu`, `UnexpectedAdmissionError` ..."""
    resources: tuple[str, ...]
    """What the node does not seem to have, whatever it says; `pods` where the node as a whole."""


class ForeignPodPlaced(Fact, frozen=True, kw_only=True):
    """A pod that muster did not place is on a node that is dedicated to muster."""

    kind = "foreign_pod_placed.v1"

    pod: str
    uid: str
    node: str
    scheduler: str
    """The pod's `schedulerName`; empty for none."""
