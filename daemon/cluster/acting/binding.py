"""Annotate and bind a pod (K8): requests that are safe to repeat, and the meaning of each answer.

The binding names the pod by UID, so it can reach no other pod (K8.4), and carries the annotations, so that the
kubelet sees devices and node at once (K8.1). If it is unknown whether a binding was done, the pod is read. `Accepted` is
only returned for a pod that is bound to our node with our annotations. What a device plugin reads is written before, in a
patch of its own.
"""

from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.acting.error_classification import is_overload, may_be_done, refusal_of
from daemon.cluster.acting.patching import Merge, patch_unchanged, patches
from daemon.cluster.acting.request_budget import RequestBudget
from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import BIND_POD, GET_POD, PATCH_POD
from events.errors import ClusterError
from events.messages import (
    Accepted,
    AnnotateRequest,
    BindRequest,
    OutcomeUnknown,
    PodMarkRequest,
    Rejected,
    Reply,
)
from projections.pods import WITHDRAWN


class Metadata(Struct):
    """The part of an object's metadata that identifies it."""

    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    deletionTimestamp: str | None = None  # noqa: N815


class _Spec(Struct):
    nodeName: str | None = None  # noqa: N815


class PodGlance(Struct):
    """The part of a pod that shows its node."""

    metadata: Metadata
    spec: _Spec


POD: Final = msgspec.json.Decoder(PodGlance)


async def annotate(budget: RequestBudget, request: AnnotateRequest) -> Reply:
    """Write the annotations of a pod, before it is bound.

    The precondition is the version of the pod without a node: a patch that arrives after the binding, perhaps of a later
    decision, is refused.
    """

    def change(pod: PodGlance) -> Merge | Reply:
        if pod.spec.nodeName:
            text = f"already assigned to node {pod.spec.nodeName}"
            return Rejected(code="Conflict", message=text)
        annotations: dict[str, object] = {**request.annotations}
        is_done = annotations.items() <= (pod.metadata.annotations or {}).items()
        return Accepted() if is_done else {"metadata": {"annotations": annotations}}

    write = patches(budget, PATCH_POD)
    return await patch_unchanged(budget, GET_POD, POD, request.uid, change, write)


async def mark_pod(budget: RequestBudget, request: PodMarkRequest) -> Reply:
    """Write annotations and labels on a pod, unless it is another one of its name."""

    def change(pod: PodGlance) -> Merge | Reply:
        annotations, labels = pod.metadata.annotations or {}, pod.metadata.labels or {}
        is_done = request.annotations.items() <= annotations.items()
        if is_done and request.labels.items() <= labels.items():
            return Accepted()
        wanted = {"annotations": request.annotations, "labels": request.labels}
        return {"metadata": {key: one for key, one in wanted.items() if one}}

    write = patches(budget, PATCH_POD)
    return await patch_unchanged(budget, GET_POD, POD, request.uid, change, write)


async def bind(budget: RequestBudget, request: BindRequest) -> Reply:
    """Bind a pod, or find out that it is bound already.

    A pod with devices by name is bound only in the version that was read. If it is not bound although an earlier request
    may still be on its way, its version is changed before the refusal is returned: that request is refused then, whenever
    it arrives, and the devices can be given to other pods.
    """
    in_doubt, version = request.is_in_doubt, ""
    if request.devices:
        found = await _read_back(budget, request)
        if not isinstance(found, PodGlance):
            return found
        version = found.metadata.resourceVersion
    while True:
        try:
            # The body of the answer is a Status without further information.
            await budget.request(BIND_POD, body=binding_of(request, version))
        except ClusterError as error:
            failure = error
        else:
            return Accepted()
        in_doubt = in_doubt or may_be_done(failure)
        refused = refusal_of(failure)
        if _asks_the_pod(failure, refused, in_doubt=in_doubt):
            found = await _read_back(budget, request)
            if not isinstance(found, PodGlance):
                return found
            if version not in ("", found.metadata.resourceVersion):
                version = found.metadata.resourceVersion
                refused = None if refused is None or refused.code == "Conflict" else refused
        if refused is not None:
            if request.devices and in_doubt:
                return await _withdraw(budget, request, refused)
            return refused
        if not await budget.pause(failure):
            return OutcomeUnknown(message=str(failure))


async def _withdraw(budget: RequestBudget, request: BindRequest, refused: Rejected) -> Reply:
    """Change the version of a pod whose binding was refused. Return the refusal, or the outcome that the pod shows."""
    shown: list[Reply] = []

    def change(pod: PodGlance) -> Merge | Reply:
        decision = str(request.decision)
        reply = _judged(pod, request)
        if reply is None and (pod.metadata.annotations or {}).get(WITHDRAWN) == decision:
            reply = refused
        if reply is None:
            return {"metadata": {"annotations": {WITHDRAWN: decision}}}
        shown.append(reply)
        return reply

    write = patches(budget, PATCH_POD)
    reply = await patch_unchanged(budget, GET_POD, POD, request.uid, change, write)
    if shown:
        return shown[-1]
    match reply:
        case Accepted():
            return refused
        case Rejected(code="NotFound"):
            return reply
        case Rejected(message=message) | OutcomeUnknown(message=message):
            return OutcomeUnknown(message=f"the pod cannot be written: {message}")


def binding_of(request: BindRequest, version: str = "") -> bytes:
    """The Binding object of a request, for the pod in a version; empty for any."""
    metadata: dict[str, object] = {
        "name": request.name,
        "namespace": request.namespace,
        "uid": request.uid,
    }
    if version:
        metadata["resourceVersion"] = version
    if annotations := {**request.devices, **request.annotations}:
        metadata["annotations"] = annotations
    target = {"apiVersion": "v1", "kind": "Node", "name": request.node}
    document = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return msgspec.json.encode(document)


def _asks_the_pod(failure: ClusterError, refused: Rejected | None, *, in_doubt: bool) -> bool:
    """Return True if the pod must be read before the outcome is known.

    Not after 503 and 429: a second binding of the same pod is answered 409 if the first was done.
    """
    if refused is not None and refused.code == "Conflict":
        return True
    return in_doubt and not is_overload(failure) and (refused is not None or may_be_done(failure))


async def _read_back(budget: RequestBudget, request: BindRequest) -> Reply | PodGlance:
    """Return the outcome that the pod shows; the pod while it has no node."""
    while True:
        try:
            pod = decoded(GET_POD.what, await budget.request(GET_POD), POD)
            return _judged(pod, request) or pod
        except ClusterError as error:
            failure = error
        refused = refusal_of(failure)
        if refused is not None and refused.code == "NotFound":
            return refused
        if refused is not None or not await budget.pause(failure):
            return OutcomeUnknown(message=f"the pod cannot be read back: {failure}")


def _judged(pod: PodGlance, request: BindRequest) -> Reply | None:
    if pod.metadata.uid != request.uid:
        return Rejected(
            code="Conflict", message=f"the pod was created again: its uid is not {request.uid}"
        )
    if not pod.spec.nodeName:
        return None
    if pod.spec.nodeName != request.node:
        return Rejected(code="Conflict", message=f"already assigned to node {pod.spec.nodeName}")
    has = pod.metadata.annotations or {}
    other = sorted(key for key, value in request.annotations.items() if has.get(key) != value)
    if other:
        text = f"already assigned to node {request.node} with other values of {', '.join(other)}"
        return Rejected(code="Conflict", message=text)
    return Accepted()
