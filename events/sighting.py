"""What a shore hands to the loop, before it is a record: objects as they came, and answers.

These are not stored. `scheduling/step.py` turns them into observations and outcomes.
"""

from typing import TypeAlias

from msgspec import Struct


class Seen(Struct, frozen=True):
    """An object was added or modified. `raw` is its JSON, with kind and apiVersion."""

    raw: bytes


class Gone(Struct, frozen=True):
    """An object was deleted. `raw` is its last known JSON."""

    raw: bytes
    synthesized: bool = False


class Listed(Struct, frozen=True):
    """All objects of one Kubernetes kind have been handed over."""

    resource: str
    resource_version: str
    count: int
    served: bool = True


Sighting: TypeAlias = Seen | Gone | Listed


class BindRequest(Struct, frozen=True):
    """A pod is to be bound to a node. `decision` is the position that says so."""

    decision: int
    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str] = {}


class PhaseRequest(Struct, frozen=True):
    """A PodGroup object is to be told its phase."""

    decision: int
    namespace: str
    name: str
    uid: str
    phase: str


Request: TypeAlias = BindRequest | PhaseRequest


class Done(Struct, frozen=True):
    """The API server did what was asked, or had done so before."""


class Refused(Struct, frozen=True):
    """The API server refused. `code` is a reason in CamelCase."""

    code: str
    message: str


class Unknown(Struct, frozen=True):
    """No answer that tells whether it was done."""

    message: str


Reply: TypeAlias = Done | Refused | Unknown


class Answer(Struct, frozen=True):
    """What came of a request, after `attempts` tries that took `latency_ns` in all."""

    request: Request
    reply: Reply
    attempts: int = 1
    latency_ns: int = 0
