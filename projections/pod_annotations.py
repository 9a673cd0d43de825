"""What annotations and labels of a pod say that muster reads.

Pods of one job say the same, but for their names and numbers. So what is said is read once for all pods that say the same;
what differs from pod to pod (its index, the decision that bound it, its devices) is read with the rest of its metadata
(`projections/pods.py`).
"""

from collections.abc import Callable
from functools import lru_cache, partial
from sys import intern
from typing import Final, TypeAlias

from msgspec import Struct

from events.limits import (
    CHOICE_BYTES_MAX,
    NAME_BYTES_MAX,
    name_problem,
    object_name_problem,
    whole_number,
)
from events.sized_cache import sized_cache
from projections.device_families import DeviceFamilies
from projections.fault_options import ANNOTATIONS as FAULT_ANNOTATIONS
from projections.fault_options import stated_options
from projections.job_option_keys import DETERMINED, JOB_OPTION_KEYS, OWN, job_option_keys
from projections.pod_class import CARD_KEYS, CARD_NAME, stated_cards
from projections.pod_terms import Labels, size_of

GROUP_NAME = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
GROUP_OF_POD: Final = "the name of its pod group"
"""What the error of a name of a pod group that is not valid begins with."""
FOREIGN_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label that names a PodGroup of the coscheduling plugin, or one of Volcano."""
COSCHEDULING_GROUP = (FOREIGN_GROUP, "pod-group.scheduling.sigs.k8s.io/name")
COSCHEDULING_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
"""The minimum of a group whose PodGroup states none above 1, in the Ascend device stack."""
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
MIRROR = "kubernetes.io/config.mirror"
DEVICE_OPTION_BYTES_MAX: Final = 1024
"""Maximum length of an annotation or label that says what devices a pod needs."""
SAID_BYTES_MAX: Final = 4 << 20
"""Bytes of annotations and labels of which it is kept what they say."""

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")

Said: TypeAlias = tuple[Labels, Labels]
"""Annotations and labels that are read, each sorted by key."""


class PodAnnotations(Struct, frozen=True, gc=False):
    """What annotations and labels say."""

    group_name: str
    """The pod group that they name, or ""."""
    needs_group_object: bool
    min_member: int
    queue: str
    role: str
    task_priority: int | None
    is_protected: bool
    """Whether they forbid its eviction. As in Volcano, a value that is not a truth value forbids it."""
    is_static: bool
    cards: str
    device_options: Labels
    is_confirmed: bool
    fault_options: Labels
    pool_options: Labels
    problem: str = ""
    """The first of them that is not valid as a name, and why; else ""."""


@lru_cache(maxsize=8)
def read_annotations(families: DeviceFamilies) -> frozenset[str]:
    """Return the keys of annotations that `annotation_reader` reads."""
    of_families = (*families.pod_options, *families.confirmations)
    return frozenset(
        (
            *(*GROUP_NAME, MIN_MEMBER, MIN_AVAILABLE, QUEUE_NAME, TASK_SPEC, TASK_PRIORITY),
            *(PREEMPTABLE, MIRROR, *CARD_KEYS, *FAULT_ANNOTATIONS, *OWN, *of_families),
        )
    )


@lru_cache(maxsize=8)
def read_labels(families: DeviceFamilies) -> frozenset[str]:
    """Return the keys of labels that `annotation_reader` reads."""
    of_families = (*families.pod_options, *families.unconfirming_labels)
    return frozenset(
        (
            *(*COSCHEDULING_GROUP, COSCHEDULING_MIN, QUEUE_NAME, TASK_SPEC, PREEMPTABLE),
            *(*OWN, *DETERMINED, *of_families),
        )
    )


def _size(said: Said) -> int:
    return size_of(said[0]) + size_of(said[1])


@lru_cache(maxsize=8)
def annotation_reader(families: DeviceFamilies) -> Callable[[Said], PodAnnotations]:
    """Return a function that returns what annotations and labels say: those with a key in `read_annotations` and in
    `read_labels`."""
    return sized_cache(SAID_BYTES_MAX, _size)(partial(_pod_annotations, families))


def _pod_annotations(families: DeviceFamilies, said: Said) -> PodAnnotations:
    annotations, labels = dict(said[0]), dict(said[1])
    names = _Names()
    options = families.options_of_pod(annotations, labels)
    for key, value in options:
        names.read(key, value, DEVICE_OPTION_BYTES_MAX)
    group_name, needs_object = _group_name(annotations, labels)
    least = labels.get(COSCHEDULING_MIN) or annotations.get(MIN_MEMBER)
    least = least or annotations.get(MIN_AVAILABLE)
    evictable = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))
    group_name = names.read_object(GROUP_OF_POD, group_name)
    queue = names.read_object(QUEUE_NAME, annotations.get(QUEUE_NAME) or labels.get(QUEUE_NAME))
    role = names.read(TASK_SPEC, annotations.get(TASK_SPEC) or labels.get(TASK_SPEC))
    cards = names.read(CARD_NAME, stated_cards(annotations), CHOICE_BYTES_MAX)
    number = whole_number(least)
    has_options = not JOB_OPTION_KEYS.isdisjoint((*annotations, *labels))
    return PodAnnotations(
        group_name=group_name,
        needs_group_object=needs_object,
        min_member=1 if number is None else max(1, number),
        queue=intern(queue),
        role=intern(role),
        task_priority=whole_number(annotations.get(TASK_PRIORITY)),
        is_protected=evictable is not None and evictable not in _TRUE,
        is_static=MIRROR in annotations,
        cards=cards,
        device_options=() if names.problem else options,
        is_confirmed=families.is_confirmed(annotations, labels),
        fault_options=stated_options(annotations, {}),
        pool_options=job_option_keys(annotations, labels) if has_options else (),
        problem=names.problem,
    )


class _Names:
    """Reader of names in an object; keeps the first name that is not valid as its problem."""

    def __init__(self) -> None:
        self.problem = ""

    def read(self, what: str, name: str | None, bytes_max: int = NAME_BYTES_MAX) -> str:
        """Return the name; "" if it is not valid."""
        return self._checked(what, name, name_problem(name, bytes_max)) if name else ""

    def read_object(self, what: str, name: str | None) -> str:
        """Return the name of an object; "" if it is not valid."""
        return self._checked(what, name, object_name_problem(name)) if name else ""

    def _checked(self, what: str, name: str, problem: str) -> str:
        if problem:
            self.problem = self.problem or f"{what}: {problem}"
        return "" if problem else name


def _group_name(annotations: dict[str, str], labels: dict[str, str]) -> tuple[str, bool]:
    for key in GROUP_NAME:
        if name := annotations.get(key):
            return name, True
    for key in COSCHEDULING_GROUP:
        if name := labels.get(key):
            return name, COSCHEDULING_MIN not in labels
    return "", False
