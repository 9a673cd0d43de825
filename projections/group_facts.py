"""Read PodGroup objects."""

from typing import Final

import msgspec
from msgspec import Struct, structs

from events.duration import nanoseconds
from events.limits import RESOURCE_BYTES_MAX, clipped, name_problem, object_name_problem
from projections.cards import REQUEST_ANNOTATION, parse_quota
from projections.charging import compound
from projections.config_errors import Pairs
from projections.device_families import DeviceFamilies
from projections.fault_options import mode_problem, stated_options
from projections.job_option_keys import job_option_keys
from projections.objects import (
    GroupCondition,
    PodGroupObject,
    PodGroupSpec,
    PodGroupStatus,
    nanoseconds_of,
)
from projections.pod_annotations import DEVICE_OPTION_BYTES_MAX
from projections.pod_class import Amounts, amounts_of, card_names
from projections.pod_terms import Labels
from projections.quantity import QuantityError
from projections.resource_names import schedulable
from projections.sub_groups import (
    SubGroupRule,
    TopologyConstraint,
    sub_group_rules,
    topology_constraint_of,
)

WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"
CONDITIONS: Final = (UNSCHEDULABLE, SCHEDULED)
"""Types of conditions that the scheduler writes on a PodGroup."""


class GroupFacts(Struct, frozen=True):
    """What muster reads of a PodGroup."""

    namespace: str
    name: str
    uid: str
    queue: str
    min_available: int
    min_tasks: dict[str, int]
    min_resources: Amounts | None
    """What its minimum requests of the resources that a scheduler counts, by resource; None: it is not stated."""
    card_request: Amounts
    """Charge name to whole cards, used while the group has no pods."""
    priority_class: str
    phase: str
    created_ns: int
    problem: str = ""
    faults: Pairs = ()
    """Code and message of annotations that cannot be used."""
    counts: tuple[int, int, int] = (0, 0, 0)
    """Running, succeeded and failed pods in its status."""
    conditions: tuple[GroupCondition, ...] = ()
    """Its conditions of the types that the scheduler writes."""
    waiting_ns: int | None = None
    """Waiting time in its annotation, if any."""
    owner: str = ""
    """UID of the workload that controls it."""
    topology_constraint: TopologyConstraint | None = None
    """Its network topology constraint, if any."""
    sub_group_rules: tuple[SubGroupRule, ...] = ()
    device_options: Labels = ()
    """Its annotations and labels that say what devices its pods need, as keys and values."""
    fault_options: Labels = ()
    """Its annotations and labels that say what is done after a fault, as keys and values."""
    pool_options: Labels = ()
    """Its annotations and labels that pool deciders read, as keys and values."""


def group_facts(obj: PodGroupObject, families: DeviceFamilies, problem: str = "") -> GroupFacts:
    """Return what muster reads of a PodGroup. What cannot be read is named in `problem`."""
    meta, spec, status = obj.metadata, obj.spec or PodGroupSpec(), obj.status or PodGroupStatus()
    try:
        stated = spec.minResources
        resources = None if stated is None else amounts_of(schedulable(stated))
    except QuantityError as error:
        resources, problem = None, f"spec.minResources: {error}"
    try:
        closeness, rules = (
            topology_constraint_of(spec.networkTopology),
            sub_group_rules(spec.subGroupPolicy),
        )
    except (ValueError, msgspec.ValidationError) as error:
        closeness, rules, problem = None, (), f"spec: {error}"
    names = {
        "spec.queue": spec.queue or "",
        "spec.priorityClassName": spec.priorityClassName or "",
        "status.phase": status.phase or "",
    }
    wrong = {what: text for what, name in names.items() if (text := object_name_problem(name))}
    for name in resources or ():
        if text := name_problem(name, RESOURCE_BYTES_MAX):
            resources, wrong = None, {**wrong, "spec.minResources": text}
            break
    options = families.options_of_group(meta.annotations or {}, meta.labels or {})
    for key, value in options:
        if text := name_problem(value, DEVICE_OPTION_BYTES_MAX):
            options, wrong = (), {**wrong, f"metadata: {key}": text}
            break
    for what, text in wrong.items():
        names[what], problem = "", f"{what}: {text}"
    request = parse_quota((meta.annotations or {}).get(REQUEST_ANNOTATION) or "{}")
    faults: Pairs = ()
    if isinstance(request, str):
        text = f"{REQUEST_ANNOTATION}: {request}; the group asks for no cards before it has pods"
        request, faults = {}, (("InvalidCardRequest", text),)
    waiting_ns, unclear = waiting_time((meta.annotations or {}).get(WAITING_TIME))
    after_faults = stated_options(meta.annotations or {}, meta.labels or {})
    if text := mode_problem(after_faults):
        faults = (*faults, ("InvalidFaultScheduling", text))
    return GroupFacts(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or "",
        queue=names["spec.queue"],
        min_available=max(0, spec.minMember or 0),
        min_tasks=spec.minTaskMember or {},
        min_resources=resources,
        card_request=_card_request(request),
        priority_class=names["spec.priorityClassName"],
        phase=names["status.phase"],
        created_ns=nanoseconds_of(meta.creationTimestamp),
        problem=clipped(problem),
        counts=(status.running or 0, status.succeeded or 0, status.failed or 0),
        conditions=tuple(one for one in status.conditions or () if one.type in CONDITIONS),
        faults=(*faults, *unclear),
        waiting_ns=waiting_ns,
        owner=next((one.uid for one in meta.ownerReferences or () if one.controller), ""),
        topology_constraint=closeness,
        sub_group_rules=rules,
        device_options=options,
        fault_options=after_faults,
        pool_options=job_option_keys(meta.annotations or {}, meta.labels or {}),
    )


def _card_request(request: dict[str, int]) -> Amounts:
    """Return the request by charge name: `A|B` and `B|A` are the same."""
    total: Amounts = {}
    for name, count in request.items():
        cards = card_names(name)
        if cards and count:
            total[compound(cards)] = total.get(compound(cards), 0) + count
    return total


def waiting_time(annotation: str | None) -> tuple[int | None, Pairs]:
    """Return the waiting time in an annotation; text that is not a time above zero is ignored, as in Volcano."""
    if annotation is None:
        return None, ()
    try:
        span = nanoseconds(annotation)
    except ValueError as error:
        return None, (("InvalidWaitingTime", f"{WAITING_TIME}: {error}; it counts for nothing"),)
    return span or None, ()


def spec_of(facts: GroupFacts | None) -> GroupFacts | None:
    """Return the facts without the status that the scheduler writes."""
    if facts is None:
        return None
    return structs.replace(facts, phase="", counts=(0, 0, 0), conditions=())


def asks_for_more(before: GroupFacts, after: GroupFacts) -> bool:
    """Return whether the minimum of a group is raised: more pods, or more of any resource or card."""
    if after.min_available > before.min_available:
        return True
    stated, known = after.min_resources or {}, before.min_resources or {}
    return any(amount > known.get(name, 0) for name, amount in stated.items()) or any(
        amount > before.card_request.get(name, 0) for name, amount in after.card_request.items()
    )
