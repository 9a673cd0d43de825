"""What cannot be in a workload or an autoscaler: an API server refuses it, so a scenario may not have it."""

from collections.abc import Mapping
from typing import Final

from replay.world.document import Value

WANTED_REPLICAS: Final = "muster.sh/wanted-replicas"
TARGETS: Final = ("Deployment", "ReplicaSet", "StatefulSet")
"""What an autoscaler may scale."""

Fields = Mapping[str, Value]


def check_autoscaler(value: Value, fields: Fields) -> None:
    """An autoscaler names what it scales, and how far."""
    spec = _mapping(fields, "spec")
    if "maxReplicas" not in spec:
        raise value.error("a HorizontalPodAutoscaler must have spec.maxReplicas")
    most = spec["maxReplicas"].whole("maxReplicas", 1)
    if "minReplicas" in spec and spec["minReplicas"].whole("minReplicas", 1) > most:
        raise spec["minReplicas"].error("minReplicas is larger than maxReplicas")
    if "scaleTargetRef" not in spec:
        raise value.error("a HorizontalPodAutoscaler must have spec.scaleTargetRef")
    target = spec["scaleTargetRef"].mapping("scaleTargetRef")
    for key in ("kind", "name"):
        if key not in target:
            raise spec["scaleTargetRef"].error(f"scaleTargetRef.{key} is missing")
        target[key].text(f"scaleTargetRef.{key}")
    if target["kind"].plain() not in TARGETS:
        raise target["kind"].error(
            f"scaleTargetRef.kind: none of {', '.join(TARGETS)}, which are what can be scaled"
        )


def check_deployment(fields: Fields) -> None:
    """How a Deployment replaces its pods."""
    strategy = _mapping(_mapping(fields, "spec"), "strategy")
    kind = _one_of(strategy, "type", ("RollingUpdate", "Recreate"))
    rolling = _mapping(strategy, "rollingUpdate")
    if kind == "Recreate" and rolling:
        raise strategy["rollingUpdate"].error("rollingUpdate does not go with type: Recreate")
    shares = [_share(rolling[key], key) for key in ("maxSurge", "maxUnavailable") if key in rolling]
    if shares == [0, 0]:
        raise strategy["rollingUpdate"].error("maxSurge and maxUnavailable cannot both be 0")


def check_stateful_set(fields: Fields) -> None:
    """How a StatefulSet makes and replaces its pods."""
    spec = _mapping(fields, "spec")
    _one_of(spec, "podManagementPolicy", ("OrderedReady", "Parallel"))
    strategy = _mapping(spec, "updateStrategy")
    _one_of(strategy, "type", ("RollingUpdate", "OnDelete"))
    rolling = _mapping(strategy, "rollingUpdate")
    if "partition" in rolling:
        rolling["partition"].whole("partition")


def check_job(fields: Fields) -> None:
    """When a Job is over, and which of its pods count."""
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


def _check_rule(item: Value) -> None:
    rule = item.mapping("a rule")
    if _one_of(rule, "action", ("FailJob", "Ignore", "Count")) is None:
        raise item.error("a rule must have an action: FailJob, Ignore or Count")
    if ("onExitCodes" in rule) == ("onPodConditions" in rule):
        raise item.error("a rule has either onExitCodes or onPodConditions")
    codes = _mapping(rule, "onExitCodes")
    if codes and (_one_of(codes, "operator", ("In", "NotIn")) is None or "values" not in codes):
        raise rule["onExitCodes"].error("onExitCodes must have an operator and values")


def _share(value: Value, what: str) -> int:
    said = value.plain()
    if isinstance(said, str) and said.endswith("%") and said[:-1].isdecimal():
        return int(said[:-1])
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return said
    raise value.error(f"{what} must be a whole number or a share such as 25%")


def _one_of(fields: Fields, key: str, known: tuple[str, ...]) -> str | None:
    if key not in fields or fields[key].is_null:
        return None
    said = fields[key].plain()
    if said not in known:
        raise fields[key].error(f"{key}: {said!r} is not known; known are {', '.join(known)}")
    return str(said)


def _mapping(fields: Fields, key: str) -> dict[str, Value]:
    return fields[key].mapping(key) if key in fields and not fields[key].is_null else {}
