"""Kubernetes' Job: create pods until enough have succeeded, or too many have failed (rule K10.4).

Supported: parallelism, completions, completionMode, backoffLimit, activeDeadlineSeconds, suspend,
podReplacementPolicy, ttlSecondsAfterFinished, and podFailurePolicy rules on exit codes and disruptions. A
pod deleted by another client counts as failed, unless such a rule ignores it. Failed pods are replaced at
once: the back-off of the real controller is left out.
"""

from collections.abc import Mapping
from typing import Final

from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.job_events import JobEvent
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, name_of, section, text_at, uid_of, whole_at
from simulator.object_factory import ObjectFactory, PodOverrides, is_finished
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.scenario import kind_named
from simulator.ttl_after_finished import expire

_JOB: Final = kind_named("Job")
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
BACKOFF_LIMIT: Final = 6


def reconcile_job(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    """Create or delete pods until the job has what it wants, or finish it."""
    if is_finished(owner):
        expire(factory, owner, children)
        return
    reason = _apply_failure_policy(owner, children) or _failure_reason(factory, owner, children)
    if reason:
        _finish(factory, owner, children, ("Failed", reason))
    elif _is_done(owner, children):
        _finish(factory, owner, children, ("Complete", ""))
    else:
        _sync_pods(factory, owner, children)
        _update_status(factory, owner, children, [])


def _sync_pods(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    wanted = 0 if section(owner, "spec").get("suspend") is True else _wanted(owner, children)
    leaving = children.counts[ChildState.STOPPING] if _waits_for_terminating(owner) else 0
    for _ in range(children.active + leaving, wanted):
        _make_pod(factory, owner, children)
    for key in children.pods()[wanted:] if children.active > wanted else ():
        factory.delete_unwanted(key, children)


def _wanted(owner: Manifest, children: OwnedObjects) -> int:
    """Return how many pods should be active now."""
    spec = section(owner, "spec")
    parallelism, completions = whole_at(spec, "parallelism", 1), _completions(owner)
    if completions:
        return min(parallelism, completions - children.succeeded)
    return parallelism if children.succeeded == 0 else children.active


def _completions(owner: Manifest) -> int:
    """Without `completions` the first success completes the job: 0 in that case."""
    spec = section(owner, "spec")
    return whole_at(spec, "completions", 1 if "parallelism" not in spec else 0)


def _is_done(owner: Manifest, children: OwnedObjects) -> bool:
    completions = _completions(owner)
    is_enough = children.succeeded >= max(completions, 1)
    return is_enough and (completions > 0 or children.active == 0)


def _waits_for_terminating(owner: Manifest) -> bool:
    """Return True if a terminating pod is replaced only when it is gone (K10.4)."""
    spec = section(owner, "spec")
    policy = text_at(spec, "podReplacementPolicy")
    return policy == "Failed" or (not policy and bool(section(spec, "podFailurePolicy")))


def _failure_reason(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> str:
    spec = section(owner, "spec")
    if children.failed > whole_at(spec, "backoffLimit", BACKOFF_LIMIT):
        return "BackoffLimitExceeded"
    seconds = whole_at(spec, "activeDeadlineSeconds", 0)
    if seconds and spec.get("suspend") is not True:
        now = factory.store.now_ns
        if children.started_ns is None:
            children.started_ns = now
            factory.wake(uid_of(owner), now + seconds * SECOND)
        if now >= children.started_ns + seconds * SECOND:
            return "DeadlineExceeded"
    return ""


def _apply_failure_policy(owner: Manifest, children: OwnedObjects) -> str:
    """Apply podFailurePolicy to the pods that failed since the last call; return the reason if one fails the job."""
    happened, children.job_events = children.job_events, []
    rules = list_at(section(owner, "spec", "podFailurePolicy"), "rules")
    for job_event in happened:
        if job_event.event not in ("PodFailed", "PodEvicted"):
            continue
        rule = next((one for one in rules if _matches(one, job_event)), None)
        action = "" if rule is None else text_at(rule, "action")
        if action == "FailJob":
            return "PodFailurePolicy"
        if action == "Ignore":
            children.failed -= 1
    return ""


def _matches(rule: Mapping[str, Json], job_event: JobEvent) -> bool:
    codes = section(rule, "onExitCodes")
    if codes and job_event.event == "PodFailed":
        values = codes.get("values")
        is_in = isinstance(values, list) and job_event.exit_code in values
        return is_in if text_at(codes, "operator") == "In" else not is_in
    conditions = list_at(rule, "onPodConditions")
    is_disrupted = job_event.event == "PodEvicted"
    return is_disrupted and any(text_at(one, "type") == "DisruptionTarget" for one in conditions)


def _make_pod(factory: ObjectFactory, owner: Manifest, children: OwnedObjects) -> None:
    name, spec = name_of(owner), section(owner, "spec")
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    annotations: dict[str, str] = {}
    prefix = ""
    if text_at(spec, "completionMode") == "Indexed":
        index = _free_index(factory, children)
        labels[_INDEX] = annotations[_INDEX] = index
        prefix = f"{index}-"
    pod_name = factory.number(owner, children, prefix)
    factory.make_pod(
        owner,
        children,
        section(spec, "template"),
        pod_name,
        marks=PodOverrides(labels, annotations),
    )


def _free_index(factory: ObjectFactory, children: OwnedObjects) -> str:
    """The least completion index that no pod holds or has finished."""
    taken = {
        text_at(section(pod, "metadata", "labels"), _INDEX)
        for key, child in children.all.items()
        if child is not ChildState.FAILED and (pod := factory.store.find(key)) is not None
    }
    return next(str(index) for index in range(len(taken) + 1) if str(index) not in taken)


def _finish(
    factory: ObjectFactory, owner: Manifest, children: OwnedObjects, how: tuple[str, str]
) -> None:
    kind, reason = how
    condition: JsonObject = {"type": kind, "status": "True"}
    if reason:
        condition["reason"] = reason
    for key in children.pods():
        factory.delete_unwanted(key, children)
    _update_status(factory, owner, children, [condition])


def _update_status(
    factory: ObjectFactory, owner: Manifest, children: OwnedObjects, conditions: list[Json]
) -> None:
    counts = {
        "active": 0 if conditions else children.active,
        "ready": 0 if conditions else children.counts[ChildState.RUNNING],
        "terminating": children.counts[ChildState.STOPPING],
        "succeeded": children.succeeded,
        "failed": max(0, children.failed),
    }
    status: JsonObject = {name: count for name, count in counts.items() if count}
    if conditions:
        status["conditions"] = conditions
    elif section(owner, "spec").get("suspend") is True:
        status["conditions"] = [{"type": "Suspended", "status": "True"}]
    if status != section(owner, "status"):
        factory.store.put(_JOB, {**owner, "status": status})
