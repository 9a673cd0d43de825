"""Validation of Volcano Jobs and Commands, as by Volcano's admission webhooks."""

from collections.abc import Mapping
from typing import Final

from events.yaml_document import YamlValue
from simulator.volcano_job_constants import ACTIONS, EVENTS, INTERNAL_EVENTS, QUEUE_ACTIONS

_ITERATIONS: Final = ("any", "all")

Fields = Mapping[str, YamlValue]


def check_volcano_job(fields: Fields) -> None:
    """Check the tasks and policies of a job, or of a patch of one."""
    spec = _mapping(fields.get("spec"), "spec")
    names: dict[str, YamlValue] = {}
    depends: dict[str, list[str]] = {}
    for index, item in enumerate(_items(spec.get("tasks"), "tasks")):
        task = item.mapping("a task")
        name = task["name"].text("name") if "name" in task else f"default{index}"
        if name in names:
            raise task["name"].error(f"two tasks are called {name}, and their pods would be, too")
        names[name] = item
        _check_policies(task.get("policies"))
        _check_partitions(task)
        depends[name] = _depends(task.get("dependsOn"))
    for name, others in depends.items():
        for other in others:
            if other not in names:
                raise names[name].error(f"task {name} depends on {other}, which is none")
    _check_circles(names, depends)
    _check_policies(spec.get("policies"))


def check_command(value: YamlValue, fields: Fields) -> None:
    """Check that a Command names an action and its target."""
    for key in ("action", "target"):
        if key not in fields:
            raise value.error(f"a Command must have {key}")
    target = fields["target"].mapping("target")
    for key in ("kind", "name"):
        if key not in target:
            raise fields["target"].error(f"target.{key} is missing")
    kind = target["kind"].text("target.kind")
    if kind not in ("Job", "Queue"):
        raise target["kind"].error("target.kind: commands go to a Job or a Queue")
    _check_action(fields["action"], ACTIONS if kind == "Job" else QUEUE_ACTIONS)
    target["name"].text("target.name")


def _check_policies(value: YamlValue | None) -> None:
    for item in _items(value, "policies"):
        rule = item.mapping("a policy")
        if "action" not in rule:
            raise item.error("a policy must have an action")
        _check_action(rule["action"], ACTIONS)
        events = [*_items(rule.get("events"), "events"), *_some(rule.get("event"))]
        for event in events:
            _check_event(event, rule)
        if "exitCode" in rule:
            if events:
                raise rule["exitCode"].error("a policy has either events or an exitCode")
            if rule["exitCode"].whole("exitCode") == 0:
                raise rule["exitCode"].error("exitCode: 0 is no failure")
        elif not events:
            raise item.error("a policy must have an event, events or an exitCode")
        if "timeout" in rule:
            rule["timeout"].time_ns("timeout")


def _check_action(value: YamlValue, known: tuple[str, ...]) -> None:
    action = value.text("action")
    if action not in known:
        raise value.error(f"action: {action!r} is not known; known are {', '.join(known)}")


def _check_event(value: YamlValue, rule: Fields) -> None:
    event = value.text("event")
    if event in INTERNAL_EVENTS:
        raise value.error(f"event: Volcano keeps {event} to itself")
    if event not in EVENTS:
        raise value.error(f"event: {event!r} is not known; known are {', '.join(EVENTS)}")
    if event == "PodPending" and "timeout" not in rule:
        raise value.error("event: PodPending goes with a timeout: every pod waits at first")


def _check_partitions(task: Fields) -> None:
    if "partitionPolicy" not in task:
        return
    policy = task["partitionPolicy"]
    fields = policy.mapping("partitionPolicy")
    sizes: dict[str, int] = {}
    for key in ("totalPartitions", "partitionSize"):
        if key not in fields:
            raise policy.error(f"partitionPolicy.{key} is missing")
        sizes[key] = fields[key].whole(f"partitionPolicy.{key}", 1)
    replicas = task["replicas"].whole("replicas") if "replicas" in task else 1
    if sizes["totalPartitions"] * sizes["partitionSize"] != replicas:
        raise policy.error(
            f"partitionPolicy: {sizes['totalPartitions']} partitions of {sizes['partitionSize']} "
            f"are not {replicas} replicas"
        )


def _depends(value: YamlValue | None) -> list[str]:
    fields = _mapping(value, "dependsOn")
    if "iteration" in fields and fields["iteration"].plain() not in (*_ITERATIONS, ""):
        raise fields["iteration"].error("dependsOn.iteration is neither any nor all")
    return [item.text("dependsOn.name") for item in _items(fields.get("name"), "dependsOn.name")]


def _check_circles(names: Fields, depends: Mapping[str, list[str]]) -> None:
    """Raise an error if tasks depend on each other in a circle."""
    left = {name: list(others) for name, others in depends.items()}
    while free := [name for name, others in left.items() if not any(one in left for one in others)]:
        for name in free:
            del left[name]
    for name in left:
        raise names[name].error(f"task {name} depends on itself, by way of others or not")


def _mapping(value: YamlValue | None, what: str) -> dict[str, YamlValue]:
    return value.mapping(what) if value is not None and not value.is_null else {}


def _items(value: YamlValue | None, what: str) -> list[YamlValue]:
    return value.items(what) if value is not None and not value.is_null else []


def _some(value: YamlValue | None) -> list[YamlValue]:
    return [value] if value is not None else []
