"""Validation of workloads and autoscalers, as by an API server."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from events.normalize import Json
from events.yaml_document import YamlValue

WANTED_REPLICAS: Final = "muster.sh/wanted-replicas"
TARGETS: Final = ("Deployment", "ReplicaSet", "StatefulSet")
"""Kinds that an autoscaler may scale."""

Fields = Mapping[str, YamlValue]
Fault: TypeAlias = tuple[tuple[str, ...], str]
"""An error: the keys that lead to it, and the reason."""


def check_autoscaler(value: YamlValue, fields: Fields) -> None:
    """Check an autoscaler."""
    raise_autoscaler_fault({name: field.plain() for name, field in fields.items()}, value)


def raise_autoscaler_fault(manifest: Mapping[str, Json], value: YamlValue) -> None:
    """Raise an autoscaler's error at the nearest place in the value that caused it."""
    fault = autoscaler_fault(manifest)
    if fault is None:
        return
    path, reason = fault
    for key in path:
        entries = value.mapping(key) if value.is_mapping else {}
        if key not in entries:
            break
        value = entries[key]
    raise value.error(reason)


def autoscaler_fault(manifest: Mapping[str, Json]) -> Fault | None:
    """Return the error for which an API server refuses an autoscaler, or None."""
    spec = _plain(manifest.get("spec"))
    if spec is None:
        return ("spec",), "spec must be a mapping"
    return _bounds_fault(spec) or _target_fault(spec)


def _bounds_fault(spec: Mapping[str, Json]) -> Fault | None:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas")
    if most is None:
        return ("spec",), "a HorizontalPodAutoscaler must have spec.maxReplicas"
    for key, bound in (("maxReplicas", most), ("minReplicas", least)):
        is_whole = isinstance(bound, int) and not isinstance(bound, bool) and bound >= 1
        if bound is not None and not is_whole:
            return ("spec", key), f"{key} must be a whole number of at least 1"
    if isinstance(least, int) and isinstance(most, int) and least > most:
        return ("spec", "minReplicas"), "minReplicas is larger than maxReplicas"
    return None


def _target_fault(spec: Mapping[str, Json]) -> Fault | None:
    if spec.get("scaleTargetRef") is None:
        return ("spec",), "a HorizontalPodAutoscaler must have spec.scaleTargetRef"
    path, target = ("spec", "scaleTargetRef"), _plain(spec["scaleTargetRef"])
    if target is None:
        return path, "scaleTargetRef must be a mapping"
    for key in ("kind", "name"):
        if target.get(key) is None:
            return path, f"scaleTargetRef.{key} is missing"
        if not isinstance(target[key], str) or not target[key]:
            return (*path, key), f"scaleTargetRef.{key} must be a text"
    if target["kind"] not in TARGETS:
        return (
            (*path, "kind"),
            f"scaleTargetRef.kind: none of {', '.join(TARGETS)}, which are what can be scaled",
        )
    return None


def _plain(value: Json) -> Mapping[str, Json] | None:
    """Return a mapping, empty for null; None for anything else."""
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def check_deployment(fields: Fields) -> None:
    """Check the update strategy of a Deployment."""
    strategy = _mapping(_mapping(fields, "spec"), "strategy")
    kind = _one_of(strategy, "type", ("RollingUpdate", "Recreate"))
    rolling = _mapping(strategy, "rollingUpdate")
    if kind == "Recreate" and rolling:
        raise strategy["rollingUpdate"].error("rollingUpdate does not go with type: Recreate")
    shares = [_share(rolling[key], key) for key in ("maxSurge", "maxUnavailable") if key in rolling]
    if shares == [0, 0]:
        raise strategy["rollingUpdate"].error("maxSurge and maxUnavailable cannot both be 0")


def check_stateful_set(fields: Fields) -> None:
    """Check the pod management and update strategy of a StatefulSet."""
    spec = _mapping(fields, "spec")
    _one_of(spec, "podManagementPolicy", ("OrderedReady", "Parallel"))
    strategy = _mapping(spec, "updateStrategy")
    _one_of(strategy, "type", ("RollingUpdate", "OnDelete"))
    rolling = _mapping(strategy, "rollingUpdate")
    if "partition" in rolling:
        rolling["partition"].whole("partition")


def check_job(fields: Fields) -> None:
    """Check completion and failure policy of a Job."""
    spec = _mapping(fields, "spec")
    mode = _one_of(spec, "completionMode", ("NonIndexed", "Indexed"))
    if mode == "Indexed" and "completions" not in spec:
        raise spec["completionMode"].error("completionMode: Indexed goes with completions")
    policy = _mapping(spec, "podFailurePolicy")
    replacement = _one_of(spec, "podReplacementPolicy", ("TerminatingOrFailed", "Failed"))
    if policy and replacement == "TerminatingOrFailed":
        raise spec["podReplacementPolicy"].error("beside a podFailurePolicy it can only be Failed")
    for item in policy["rules"].items("rules") if "rules" in policy else ():
        _check_rule(item)


def _check_rule(item: YamlValue) -> None:
    rule = item.mapping("a rule")
    if _one_of(rule, "action", ("FailJob", "Ignore", "Count")) is None:
        raise item.error("a rule must have an action: FailJob, Ignore or Count")
    if ("onExitCodes" in rule) == ("onPodConditions" in rule):
        raise item.error("a rule has either onExitCodes or onPodConditions")
    codes = _mapping(rule, "onExitCodes")
    if codes and (_one_of(codes, "operator", ("In", "NotIn")) is None or "values" not in codes):
        raise rule["onExitCodes"].error("onExitCodes must have an operator and values")


def _share(value: YamlValue, what: str) -> int:
    plain = value.plain()
    if isinstance(plain, str) and plain.endswith("%") and plain[:-1].isdecimal():
        return int(plain[:-1])
    if isinstance(plain, int) and not isinstance(plain, bool) and plain >= 0:
        return plain
    raise value.error(f"{what} must be a whole number or a share such as 25%")


def _one_of(fields: Fields, key: str, known: tuple[str, ...]) -> str | None:
    if key not in fields or fields[key].is_null:
        return None
    plain = fields[key].plain()
    if plain not in known:
        raise fields[key].error(f"{key}: {plain!r} is not known; known are {', '.join(known)}")
    return str(plain)


def _mapping(fields: Fields, key: str) -> dict[str, YamlValue]:
    return fields[key].mapping(key) if key in fields and not fields[key].is_null else {}
