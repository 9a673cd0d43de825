"""Steps of a branch of a recorded past: what happened from outside, and policies that came into force."""

from enum import Enum

from msgspec import Struct

from events.daemon import PolicyChanged
from events.normalize import JsonObject
from simulator.manifest import Kind


class Verb(Enum):
    """What a recorded step does to an object."""

    CREATE = "create"
    """Create it, unless an object of this name exists."""
    REPLACE = "replace"
    """Create it, or replace its content."""
    PATCH = "patch"
    """Change it by a JSON merge patch, if it exists."""
    DELETE_POD = "delete pod"
    """Let its kubelet stop it, unless it is stopping."""
    END_POD = "end pod"
    """Give a pod its final status, if it has not ended."""
    REMOVE = "remove"


class RecordedStep(Struct, frozen=True):
    """One change of an object by another client than muster, as recorded."""

    at_ns: int
    verb: Verb
    kind: Kind
    namespace: str
    name: str
    uid: str
    content: JsonObject = {}
    """The object, or the merge patch."""
    node: str = ""
    """If not empty, a pod is deleted or ended only if it is on this node."""
    is_finished: bool = False
    """Whether a removed workload was finished: then it is removed only if it is finished here too."""


class PolicyStep(Struct, frozen=True):
    """A policy comes into force."""

    at_ns: int
    policy: PolicyChanged
