"""The policies of a Volcano Job: which action handles an event (volcano A.3).

Policies of the pod's task precede those of the job; the first that names the event, `*` or the exit code applies. A
policy with a timeout is delayed by it, and void if the pod runs by then.
"""

from collections.abc import Iterable, Mapping

from events.duration import nanoseconds
from events.normalize import Json
from simulator.job_events import JobEvent
from simulator.manifest import Manifest
from simulator.manifest_fields import list_at, section, text_at, whole_at
from simulator.volcano_job_constants import SYNC

Rule = Mapping[str, Json]


def action_for(job: Manifest, job_event: JobEvent) -> tuple[str, int]:
    """Return the action for an event, and its delay in nanoseconds."""
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
    """The delay of the action; an invalid timeout is no delay."""
    try:
        return nanoseconds(text_at(rule, "timeout") or "0s")
    except ValueError:
        return 0


def _first(rules: Iterable[Rule], job_event: JobEvent) -> Rule | None:
    for rule in rules:
        events = events_of(rule)
        # `*` does not include PodPending and PodRunning, which every pod has.
        is_any = "*" in events and job_event.event not in ("", "PodPending", "PodRunning")
        if is_any or (job_event.event and job_event.event in events):
            return rule
        if job_event.exit_code and whole_at(rule, "exitCode", 0) == job_event.exit_code:
            return rule
    return None
