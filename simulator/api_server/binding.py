"""`POST pods/NAME/binding`: every response of rule K8."""

from events.normalize import JsonObject
from simulator.api_server.creation import check_kind, decode_body
from simulator.api_server.http_message import Request, Response, StatusError, success
from simulator.api_server.request_target import Target
from simulator.api_server.status_errors import bad_request, conflict, not_found
from simulator.api_server.version_store import VersionStore
from simulator.cluster import Call, SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    is_terminating,
    list_at,
    name_of,
    node_of,
    section,
    text_at,
    uid_of,
)

_SUBRESOURCE = "pods/binding"


def bind(
    simulated: SimulatedCluster, versions: VersionStore, target: Target, request: Request
) -> Response:
    """Bind a pod to a node, in one update with the annotations of the binding (K8.1)."""
    document = decode_body(request, target.served)
    check_kind(document, target.served, kind="Binding")
    if name_of(document) != target.name:
        raise bad_request("name in URL does not match name in Binding object")
    node = _node(document)
    version = versions.find(target.key)
    if version is None:
        raise not_found(target.served, target.name)
    _check(target, version.manifest, document)
    if "dryRun" in request.query:
        return success(201)
    pod = version.manifest
    simulated.journal.append(
        Call(
            at_ns=simulated.now_ns,
            verb="bind",
            subject=f"{target.namespace}/{target.name}",
            uid=uid_of(pod),
            value=node,
            decision=0,
            result="done",
        )
    )
    simulated.put(target.served.kind, _bound(pod, document, node, simulated.store.timestamp()))
    return success(201)


def _node(document: JsonObject) -> str:
    """A wrong target is a 500 without a reason, as in kube-apiserver 1.34 (K20)."""
    wanted = section(document, "target")
    kind, node = text_at(wanted, "kind"), text_at(wanted, "name")
    if kind not in ("", "Node"):
        text = f'Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        raise StatusError(500, "", f"target.kind: {text}")
    if not node:
        raise StatusError(500, "", "target.name: Required value")
    return node


def _check(target: Target, pod: Manifest, document: JsonObject) -> None:
    name = target.name
    wanted, there = section(document, "metadata"), section(pod, "metadata")
    for key, text in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked = text_at(wanted, key)
        if asked and asked != text_at(there, key):
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/pods/{target.namespace}/"
                f"{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {text} in "
                f"precondition: {asked}, {text} in object meta: {text_at(there, key)}"
            )
            raise conflict(target.served, name, why)
    if is_terminating(pod):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif node := node_of(pod):
        why = f'pod {name} is already assigned to node "{node}"'
    elif list_at(section(pod, "spec"), "schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict(target.served, name, why, kind=_SUBRESOURCE)


def _bound(pod: Manifest, document: JsonObject, node: str, at: str) -> Manifest:
    """Return the pod with the binding's annotations merged in; labels are not merged in 1.34 (K20)."""
    annotations: JsonObject = {
        **section(pod, "metadata", "annotations"),
        **section(document, "metadata", "annotations"),
    }
    if annotations:
        pod = changed(pod, "metadata", annotations=annotations)
    condition: JsonObject = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": at,
    }
    others = [
        dict(one)
        for one in list_at(section(pod, "status"), "conditions")
        if one.get("type") != "PodScheduled"
    ]
    pod = changed(pod, "spec", nodeName=node)
    return changed(pod, "status", conditions=[*others, condition])
