"""Validation of objects: names, times, limits, and immutable fields."""

import re
from collections.abc import Callable
from typing import Final

from events.normalize import Json
from simulator.api_server.served_resources import ServedResource
from simulator.api_server.status_errors import (
    FieldError,
    bad_request,
    invalid_field,
    required_field,
)
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, name_of, section, text_at

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MICRO: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}(Z|[-+][0-9]{2}:[0-9]{2})"
)
_QUALIFIED: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
)
_LABEL: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
NAME_MAX: Final = 253
LABEL_MAX: Final = 63
ANNOTATIONS_MAX: Final = 256 * 1024
EVENT_TEXT_MAX: Final = 128
NOTE_MAX: Final = 1024

_EVENT_FIXED: Final = (
    *("action", "reason", "regarding", "related", "note", "type", "eventTime"),
    *("reportingController", "reportingInstance"),
)
_NAMES: Final = {"note": "message", "regarding": "involvedObject"}
"""How errors name the fields of an Event: as in the older version."""

_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def check_times(served: ServedResource, manifest: Manifest) -> None:
    """Times that need six digits of a second (rules K11.1, K14.1): otherwise decoding fails."""
    kind = served.kind.kind
    if kind == "Lease":
        holder, fields = section(manifest, "spec"), ("renewTime", "acquireTime")
        times = [text_at(holder, field) for field in fields]
    elif kind == "Event":
        series = section(manifest, "series")
        times = [text_at(manifest, "eventTime"), text_at(series, "lastObservedTime")]
    else:
        return
    for time in times:
        if time and not _MICRO.fullmatch(time):
            raise bad_request(
                f'{kind} in version "{served.kind.version}" cannot be handled as a {kind}: parsing '
                f'time "{time}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse it'
            )


def validation_errors(
    served: ServedResource, new: Manifest, old: Manifest | None
) -> list[FieldError]:
    """Return the errors of an object, alone and compared with the one that it replaces."""
    faults = _metadata_faults(new)
    check = _CHECKS.get(served.kind.kind)
    if check is not None and not served.is_custom:
        faults += check(new, old)
    return faults


def _metadata_faults(manifest: Manifest) -> list[FieldError]:
    metadata, name = section(manifest, "metadata"), name_of(manifest)
    faults = []
    if not name:
        faults.append(required_field("metadata.name", "name or generateName is required"))
    elif len(name) > NAME_MAX:
        why = f"must be no more than {NAME_MAX} characters"
        faults.append(invalid_field("metadata.name", name, why))
    elif not _SUBDOMAIN.fullmatch(name):
        faults.append(invalid_field("metadata.name", name, _SUBDOMAIN_RULE))
    faults += [
        invalid_field(
            "metadata.labels", value, f"a label must be of at most {LABEL_MAX} plain characters"
        )
        for value in section(metadata, "labels").values()
        if not isinstance(value, str) or len(value) > LABEL_MAX or not _LABEL.fullmatch(value)
    ]
    sizes = (
        len(key.encode()) + len(str(value).encode())
        for key, value in section(metadata, "annotations").items()
    )
    if sum(sizes) > ANNOTATIONS_MAX:
        why = f"may not be more than {ANNOTATIONS_MAX} bytes"
        faults.append(FieldError("metadata.annotations", "TooLong", f"Too long: {why}"))
    return faults


def _pod_faults(new: Manifest, old: Manifest | None) -> list[FieldError]:
    spec = section(new, "spec")
    if old is None:
        return [] if list_at(spec, "containers") else [required_field("spec.containers")]
    before = section(old, "spec")
    if _fixed(spec, _gated(before)) == _fixed(before, _gated(before)) and _only_fewer(spec, before):
        return []
    return [
        FieldError(
            "spec",
            "Forbidden",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow "
            "it to be set to 1 if it was previously negative)",
        )
    ]


def _gated(spec: "object") -> bool:
    return isinstance(spec, dict) and bool(spec.get("schedulingGates"))


def _fixed(spec: "object", is_gated: bool) -> dict[str, Json]:
    """Immutable fields of a pod's spec. While it is gated, its node selection may be narrowed."""
    assert isinstance(spec, dict)
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if is_gated:
        free |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in free and value is not None}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [
                {name: value for name, value in one.items() if name != "image"}
                for one in list_at(spec, key)
            ]
    return fixed


def _only_fewer(spec: "object", before: "object") -> bool:
    """Scheduling gates may only be removed (rule K7.1), tolerations only added."""
    assert isinstance(spec, dict)
    assert isinstance(before, dict)
    gates, old_gates = list_at(spec, "schedulingGates"), list_at(before, "schedulingGates")
    tolerations, old = list_at(spec, "tolerations"), list_at(before, "tolerations")
    return all(gate in old_gates for gate in gates) and all(one in tolerations for one in old)


def _lease_faults(new: Manifest, old: Manifest | None) -> list[FieldError]:
    spec = section(new, "spec")
    faults = []
    seconds = spec.get("leaseDurationSeconds")
    if isinstance(seconds, int) and seconds <= 0:
        faults.append(invalid_field("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if isinstance(transitions, int) and transitions < 0:
        why = "must be greater than or equal to 0"
        faults.append(invalid_field("spec.leaseTransitions", transitions, why))
    return faults


def _event_faults(new: Manifest, old: Manifest | None) -> list[FieldError]:
    """Limits of Events (rule K11.1); everything but the series is immutable."""
    faults: list[FieldError] = []
    series = new.get("series")
    if isinstance(series, dict):
        count = series.get("count")
        if not isinstance(count, int) or count < 2:
            faults.append(invalid_field("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            faults.append(required_field("series.lastObservedTime"))
    if old is not None and not _is_legacy_event(old):
        for field in _EVENT_FIXED:
            if new.get(field) != old.get(field):
                name = _NAMES.get(field, field)
                faults.append(invalid_field(name, text_at(new, field), "field is immutable"))
        return faults
    if _is_legacy_event(new):
        return faults + _event_namespace_faults(new)
    if not new.get("eventTime"):
        return [*faults, required_field("eventTime")]
    return faults + _new_event_faults(new)


def _new_event_faults(event: Manifest) -> list[FieldError]:
    faults: list[FieldError] = []
    controller = text_at(event, "reportingController")
    if not controller:
        faults.append(required_field("reportingController"))
    elif not _QUALIFIED.fullmatch(controller):
        faults.append(invalid_field("reportingController", controller, _QUALIFIED_RULE))
    for field in ("reportingInstance", "action", "reason"):
        text = text_at(event, field)
        if not text:
            faults.append(required_field(field))
        elif len(text) > EVENT_TEXT_MAX:
            why = f"can have at most {EVENT_TEXT_MAX} characters"
            faults.append(invalid_field(field, "", why))
    if text_at(event, "type") not in ("Normal", "Warning"):
        kind = text_at(event, "type")
        faults.append(invalid_field("type", "", f"has invalid value: {kind}"))
    if len(text_at(event, "note").encode()) > NOTE_MAX:
        faults.append(invalid_field("message", "", f"can have at most {NOTE_MAX} characters"))
    return faults + _event_namespace_faults(event)


def _is_legacy_event(event: Manifest) -> bool:
    """Return True for an Event with times and a source as only the core group has them."""
    fields = ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedCount")
    return not event.get("eventTime") and any(event.get(field) for field in fields)


def _event_namespace_faults(event: Manifest) -> list[FieldError]:
    regarding = section(event, "regarding")
    namespace = text_at(section(event, "metadata"), "namespace")
    if text_at(regarding, "namespace") not in (namespace, "") or (
        not text_at(regarding, "namespace") and namespace not in ("default", "kube-system")
    ):
        why = "does not match event.namespace"
        return [invalid_field("involvedObject.namespace", "", why)]
    return []


def _budget_faults(new: Manifest, old: Manifest | None) -> list[FieldError]:
    status = section(new, "status")
    faults = []
    for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        value = status.get(field)
        if isinstance(value, int) and value < 0:
            why = "must be greater than or equal to 0"
            faults.append(invalid_field(f"status.{field}", value, why))
    spec = section(new, "spec")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        why = "minAvailable and maxUnavailable cannot be both set"
        faults.append(invalid_field("spec", "", why))
    return faults


_CHECKS: Final[dict[str, Callable[[Manifest, Manifest | None], list[FieldError]]]] = {
    "Pod": _pod_faults,
    "Lease": _lease_faults,
    "Event": _event_faults,
    "PodDisruptionBudget": _budget_faults,
}
