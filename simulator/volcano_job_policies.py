"""The policies of a Volcano Job: which action answers what happened (volcano A.3).

The rules of the task whose pod it is come before those of the job, and of several the first that names
the event, `*` or the exit code. A rule with a timeout acts so much later, unless the pod runs by then.
"""

from collections.abc import Iterable, Mapping

from events.normalize import Json
from projections.duration import nanoseconds
from simulator.job_events import JobEvent
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, section, text_at, whole_at
from simulator.volcano_job_constants import SYNC

Rule = Mapping[str, Json]


def action_for(job: Manifest, job_event: JobEvent) -> tuple[str, int]:
    """The action, and after how many nanoseconds."""
    if job_event.action:
        return job_event.action, 0
    spec = section(job, "spec")
    for task in list_at(spec, "tasks"):
        if job_event.task and text_at(task, "name") == job_event.task:
            rule = _first(list_at(task, "policies"), job_event)
            if rule is not None:
                return text_at(rule, "action"), timeout_ns(rule)
    rule = _first(list_at(spec, "policies"), job_event)
    return (SYNC, 0) if rule is None else (text_at(rule, "action"), timeout_ns(rule))


def events_of(rule: Rule) -> list[str]:
    """The events that a policy names, by either key."""
    events = rule.get("events")
    several = [one for one in events if isinstance(one, str)] if isinstance(events, list) else []
    return [*several, *([text_at(rule, "event")] if rule.get("event") else [])]


def timeout_ns(rule: Rule) -> int:
    """How long the action waits; what cannot be read is no time."""
    try:
        return nanoseconds(text_at(rule, "timeout") or "0s")
    except ValueError:
        return 0


def _first(rules: Iterable[Rule], job_event: JobEvent) -> Rule | None:
    for rule in rules:
        events = events_of(rule)
        # That a pod waits or runs is news only to who names it: every pod does.
        is_any = "*" in events and job_event.event not in ("", "PodPending", "PodRunning")
        if is_any or (job_event.event and job_event.event in events):
            return rule
        if job_event.exit_code and whole_at(rule, "exitCode", 0) == job_event.exit_code:
            return rule
    return None
