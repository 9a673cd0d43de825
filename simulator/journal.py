"""A simulated cluster as its scenario and the calls made to it, from which it can be rebuilt exactly.

Tests compare a log with the file of these calls (`daemon/cluster/world_file.py`).
"""

from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec import Struct

from events.errors import UsageError
from events.messages import (
    AnnotateRequest,
    BindRequest,
    EvictRequest,
    PodGroupPhaseRequest,
    PodMarkRequest,
    Reply,
    Request,
)
from simulator.cluster import SimulatedCluster
from simulator.scenario import Scenario


class JournalEntry(Struct, frozen=True):
    """A call as it is stored, with its result. `value` is the node, the phase, or what is written."""

    at_ns: int
    verb: str
    namespace: str
    name: str
    uid: str
    value: str
    decision: int
    annotations: str
    """The annotations of a pod or of a binding, as JSON."""
    result: str


def execute(simulated: SimulatedCluster, request: Request) -> Reply:
    """Execute a request."""
    match request:
        case AnnotateRequest():
            return simulated.annotate(request)
        case BindRequest():
            return simulated.bind(request)
        case EvictRequest():
            return simulated.evict(request)
        case PodMarkRequest():
            return simulated.mark_pod(request)
        case PodGroupPhaseRequest():
            return simulated.set_phase(request)
        case _:
            raise AssertionError("a simulated cluster takes no status updates of waiting pods")


def execute_and_record(simulated: SimulatedCluster, request: Request) -> tuple[Reply, JournalEntry]:
    """Execute a request, and return it as a journal entry too."""
    reply = execute(simulated, request)
    assert isinstance(
        request,
        AnnotateRequest | BindRequest | EvictRequest | PodGroupPhaseRequest | PodMarkRequest,
    )
    annotations: object = {}
    if isinstance(request, AnnotateRequest | BindRequest):
        annotations = request.annotations
    elif isinstance(request, PodMarkRequest):
        annotations = [request.annotations, request.labels]
    call = simulated.journal[-1]
    entry = JournalEntry(
        at_ns=call.at_ns,
        verb=call.verb,
        namespace=request.namespace,
        name=request.name,
        uid=request.uid,
        value=call.value,
        decision=request.decision,
        annotations=msgspec.json.encode(annotations, order="sorted").decode(),
        result=call.result,
    )
    return reply, entry


def rebuild_cluster(
    scenario: Scenario, calls: Iterable[JournalEntry], origin_ns: int = 0
) -> SimulatedCluster:
    """Return the cluster after all calls. Raises UsageError if a call would now have another result."""
    simulated = SimulatedCluster(scenario, origin_ns)
    for call in calls:
        simulated.advance(call.at_ns)
        _, repeated = execute_and_record(simulated, _request(call))
        if repeated.result != call.result:
            raise UsageError(
                f"the calls do not fit the scenario: {call.verb} {call.namespace}/{call.name} "
                f"ended with {call.result}, and would now end with {repeated.result}"
            )
    return simulated


def fingerprint(scenario: Scenario) -> str:
    """A digest of the scenario, by which a journal file recognizes it. What is expected does not count."""
    document = msgspec.structs.replace(scenario, expect=None, source="", policy_place="")
    return sha256(msgspec.json.encode(document, order="sorted")).hexdigest()


def _request(call: JournalEntry) -> Request:
    if call.verb in ("annotate", "bind"):
        request = AnnotateRequest if call.verb == "annotate" else BindRequest
        return request(
            call.decision,
            call.namespace,
            call.name,
            call.uid,
            call.value,
            msgspec.json.decode(call.annotations, type=dict[str, str]),
        )
    if call.verb in ("evict", "delete"):
        return EvictRequest(
            call.decision,
            call.namespace,
            call.name,
            call.uid,
            call.value,
            is_forced=call.verb == "delete",
        )
    if call.verb == "mark":
        annotations, labels = msgspec.json.decode(
            call.annotations, type=tuple[dict[str, str], dict[str, str]]
        )
        return PodMarkRequest(
            call.decision, call.namespace, call.name, call.uid, call.value, annotations, labels
        )
    return PodGroupPhaseRequest(call.decision, call.namespace, call.name, call.uid, call.value)
