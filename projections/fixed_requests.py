"""What a pod asks for is fixed when it gets its node: by the decision, or at the record at which it is first seen there.

Any user who may change a pod can rewrite its annotations and labels while it runs. They then change neither what the pod
is charged nor what it holds: its card, its devices, its pod group and with that its queue, its place in the group, its
terms about other pods. What asks for shares of GPUs by annotations alone, on a pod that is first seen on a node and that no scheduler has
given any, counts for nothing. A pod that could not be evicted before cannot be made so later, but the reverse is followed. What
differs is an error of the pod alone. The exception is what a kubelet reports of a resize, and what a device plugin
confirms (`projections/pod_devices.py`).

Labels themselves are followed, as in Kubernetes: selectors of other pods, of budgets and of controllers read the labels
that a pod has now.
"""

from typing import Final

from msgspec import Struct, structs

from events.limits import clipped
from projections.device_families import DeviceFamilies
from projections.objects import PodObject
from projections.pod_annotations import (
    GROUP_NAME,
    GROUP_OF_POD,
    PREEMPTABLE,
    QUEUE_NAME,
    TASK_PRIORITY,
    TASK_SPEC,
)
from projections.pod_class import CARD_NAME, ClassKey, PodClasses, StatedRequest
from projections.pod_group_resolution import group_key_of
from projections.pod_terms import Labels
from projections.pods import TASK_INDEX, Pod, PodFacts

FIXED: Final = "FixedWhenBound"
"""Code of the error of a pod of which the object says something else than what it was placed by."""

KEYS_MAX: Final = 8
"""Maximum number of keys that the error names."""


class Fixed(Struct, frozen=True):
    """What is read of a pod that has its node."""

    facts: PodFacts
    key: ClassKey
    request: StatedRequest
    """What the class is parsed with instead of the annotations and labels of the object."""
    changed: tuple[str, ...]
    """What the object says otherwise: annotations, labels and fields."""

    @property
    def message(self) -> str:
        """Return the text of the error."""
        more = len(self.changed) - KEYS_MAX
        keys = ", ".join(self.changed[:KEYS_MAX]) + (f" and {more} more" if more > 0 else "")
        return clipped(
            f"{keys}: without effect, as the pod was not placed by this: what it asks for is fixed when it gets its node"
        )


def fixed_request(
    classes: PodClasses, old: Pod | None, facts: PodFacts, key: ClassKey
) -> Fixed | None:
    """Return what is read of a pod that has a node, or the one that was decided for it; None if that is what its object says,
    and for pods without a node. `key` is the key of the class by the object."""
    if old is None:
        return _first_request(classes.families, facts, key)
    kept = old.facts
    assumed = old.decided.assumed
    if facts.node != (kept.node or assumed) and (facts.node or kept.node):
        # It has another node than before, or lost it.
        is_ours = old.failed_binding(facts.decision, facts.node) is not None
        return None if is_ours else _first_request(classes.families, facts, key)
    if not kept.node and not assumed:
        return None
    known = classes.by_key.get(key)
    is_same_class = known is not None and known.index in (old.pod_class.index, old.pod_class.plain)
    if (
        is_same_class
        and facts.group_name == kept.group_name
        and facts.owner == kept.owner
        and facts.queue == kept.queue
        and facts.role == kept.role
        and facts.index == kept.index
        and facts.is_numbered == kept.is_numbered
        and facts.task_priority == kept.task_priority
        and facts.min_member == kept.min_member
        and facts.is_evictable == kept.is_evictable
        and facts.is_protected == kept.is_protected
        and facts.problem == kept.problem
        and (facts.assignments == kept.assignments or not kept.node)
    ):
        return None
    request = classes.stated_request(old.pod_class)
    stated = StatedRequest.of(key)
    if request is None or stated is None:
        return None  # It could not be read before: this is the first request that is known.
    changed: dict[str, None] = {}
    fixed = structs.replace(
        facts,
        **_group(kept, facts, changed),
        min_member=kept.min_member,
        queue=kept.queue,
        role=kept.role,
        index=kept.index,
        is_numbered=kept.is_numbered,
        task_priority=kept.task_priority,
        is_evictable=kept.is_evictable or facts.is_evictable,
        is_protected=facts.is_protected and not kept.is_evictable,
        problem=kept.problem,
        assignments=_assignments(classes.families, kept, facts, changed),
    )
    invalid = facts.problem.partition(":")[0]
    invalid = GROUP_NAME[0] if invalid == GROUP_OF_POD else invalid
    for name, is_other in (
        (QUEUE_NAME, facts.queue != kept.queue),
        (TASK_SPEC, facts.role != kept.role),
        (TASK_INDEX, (facts.index, facts.is_numbered) != (kept.index, kept.is_numbered)),
        (TASK_PRIORITY, facts.task_priority != kept.task_priority),
        (PREEMPTABLE, kept.is_evictable and not facts.is_evictable),
        (invalid, bool(facts.problem) and facts.problem != kept.problem),
        (CARD_NAME, request.cards != stated.cards),
    ):
        if is_other:
            changed[name] = None
    for before, now in ((request.options, stated.options), (request.labels, stated.labels)):
        changed.update(dict.fromkeys(_unlike(before, now)))
    return Fixed(fixed, request.in_key(key, kept.problem), request, tuple(changed))


def _first_request(families: DeviceFamilies, facts: PodFacts, key: ClassKey) -> Fixed | None:
    """Return what is read of a pod that is first seen on its node: what asks for devices that no scheduler has given it counts
    for nothing."""
    stated = StatedRequest.of(key)
    if not facts.node or stated is None or not stated.options:
        return None
    without = families.unplaced_options(stated.options, facts.assignments)
    if not without:
        return None
    options = tuple([one for one in stated.options if one[0] not in without])
    request = structs.replace(stated, options=options)
    return Fixed(facts, request.in_key(key, facts.problem), request, without)


def with_request(pod: PodObject, request: StatedRequest) -> PodObject:
    """Return a pod with the annotations and labels that a request was stated with, and no others."""
    metadata = structs.replace(pod.metadata)
    metadata.annotations = dict(request.options)
    if request.cards:
        metadata.annotations[CARD_NAME] = request.cards
    metadata.labels = dict(request.labels)
    return structs.replace(pod, metadata=metadata)


def _group(kept: PodFacts, facts: PodFacts, changed: dict[str, None]) -> dict[str, object]:
    """Return the name of the pod group of a pod, and whether it needs an object."""
    key = group_key_of(kept)
    if group_key_of(facts) == key:
        return {}
    changed[GROUP_NAME[0] if facts.group_name or kept.group_name else "ownerReferences"] = None
    name = key.partition("/")[2]
    return {"group_name": name, "needs_group_object": kept.needs_group_object}


def _assignments(
    families: DeviceFamilies, kept: PodFacts, facts: PodFacts, changed: dict[str, None]
) -> Labels:
    """Return the annotations that say which devices a pod has: those that it had when it was first seen on its node, with
    what its device plugin has confirmed since."""
    if not kept.node or facts.assignments == kept.assignments:
        return facts.assignments
    reported = families.reported_assignments
    found = {name: value for name, value in kept.assignments if name not in reported}
    now = {name: value for name, value in facts.assignments if name not in reported}
    changed.update(dict.fromkeys(_unlike(tuple(found.items()), tuple(now.items()))))
    found |= {name: value for name, value in facts.assignments if name in reported}
    return tuple(sorted(found.items()))


def _unlike(before: Labels, now: Labels) -> list[str]:
    """Return the keys whose values differ, sorted."""
    left, right = dict(before), dict(now)
    return [key for key in sorted(left | right) if left.get(key) != right.get(key)]
