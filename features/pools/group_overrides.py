"""What operators set for a job: the cluster-scoped resource `GroupOverride`, which tenants cannot write.

The scheduler cannot see who wrote an annotation, so what an operator changes (`muster group set-priority`, `move` and so on)
stands in an object of its own. It counts before what the job states, and beyond the bounds of its queue and pool. It is for
one pod group, by the UID of its PodGroup; without a PodGroup by the UID of one of its pods or of their controlling owner. It is
void for a later group of the same name.
"""

import re
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct

from events.limits import object_name_problem, quoted
from projections.index import Index
from projections.objects import Int32, Metadata, read
from projections.policy.pools import PRIORITY_MAX, PRIORITY_MIN

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_groups import PodGroup

KIND: Final = "GroupOverride"
NAME_CHARS_MAX: Final = 253
HASH_DIGITS: Final = 40
NO_CAP: Final = -1
"""Value of `maxSlots`: the job has no cap, whatever it states."""

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_POSITION: Final = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")


class OverrideSpec(Struct):
    """The spec of a GroupOverride; None: the operator sets nothing."""

    namespace: str
    name: str
    uid: str
    pool: str | None = None
    priority: Int32 | None = None
    weight: str | None = None
    maxSlots: Int32 | None = None  # noqa: N815
    position: str | None = None


class OverrideObject(Struct):
    """A GroupOverride."""

    metadata: Metadata
    spec: OverrideSpec


class GroupOverride(Struct, frozen=True):
    """What an operator sets for a pod group."""

    group: str
    """Key of the pod group, `namespace/name`."""
    uid: str
    pool: str = ""
    priority: int | None = None
    weight: tuple[int, int] | None = None
    max_slots: int | None = None
    """`NO_CAP`: none."""
    position: str = ""
    """A decimal number; "" if none is set."""

    def is_of(self, group: "PodGroup") -> bool:
        """Return whether it is for this pod group, and not for an earlier one of its name."""
        if group.observed.facts is not None:
            return group.observed.facts.uid == self.uid
        return any(
            self.uid == pod.facts.uid
            or (pod.facts.owner is not None and pod.facts.owner.uid == self.uid)
            for pod in group.pods.values()
        )


class GroupOverrides(Index):
    """The overrides by pod group."""

    name = "group overrides"
    COMPARED: ClassVar[tuple[str, ...]] = ("by_group", "group_of")

    def __init__(self) -> None:
        self.by_group: dict[str, GroupOverride] = {}
        """Key of a pod group to its override."""
        self.group_of: dict[str, str] = {}
        """Name of an override to the key of its pod group."""

    def rebuilt(self, cluster: "Cluster", /) -> "GroupOverrides":
        """Find the pod group of each override again."""
        twin = GroupOverrides()
        for path, facts in cluster.object_facts.get(KIND, {}).items():
            assert isinstance(facts, GroupOverride)
            twin.by_group[facts.group] = facts
            twin.group_of[path.rpartition("/")[2]] = facts.group
        return twin

    def put(self, cluster: "Cluster", name: str, facts: GroupOverride | None) -> None:
        """Set the override of a name; None if it is gone or cannot be read."""
        before = self.group_of.pop(name, None)
        if before is not None:
            del self.by_group[before]
            cluster.pod_groups.mark(before, cluster.position)
        if facts is not None:
            self.by_group[facts.group] = facts
            self.group_of[name] = facts.group
            cluster.pod_groups.mark(facts.group, cluster.position)


def override_of(cluster: "Cluster", group: "PodGroup") -> GroupOverride | None:
    """Return what an operator has set for a pod group; None if nothing, or only for an earlier group of its name."""
    by_group = cluster.indexes.of(GroupOverrides).by_group
    found = by_group.get(group.key) if by_group else None
    return found if found is not None and found.is_of(group) else None


def override_name(namespace: str, name: str) -> str:
    """Return the name of the override of a pod group: `namespace.name`, or with a hash where that is no name of an object."""
    plain = f"{namespace}.{name}"
    if len(plain) <= NAME_CHARS_MAX and _SUBDOMAIN.fullmatch(plain):
        return plain
    digest = sha256(plain.encode()).hexdigest()[:HASH_DIGITS]
    return f"{namespace}.{digest}"


def override_facts(content: bytes) -> GroupOverride | str:
    """Return what a GroupOverride sets, or what is wrong with it: it then counts as absent."""
    obj = read(OverrideObject, content)
    if isinstance(obj, str):
        return obj
    spec = obj.spec
    for what, text in (("namespace", spec.namespace), ("name", spec.name), ("uid", spec.uid)):
        if problem := object_name_problem(text) or ("" if text else "is empty"):
            return f"spec.{what}: {problem}"
    wanted = override_name(spec.namespace, spec.name)
    if obj.metadata.name != wanted:
        return f"metadata.name: the override of {spec.namespace}/{spec.name} is named {wanted}"
    pool = spec.pool or ""
    if problem := object_name_problem(pool):
        return f"spec.pool: {problem}"
    priority = spec.priority
    if priority is not None and not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        return f"spec.priority: {priority} is not from {PRIORITY_MIN} to {PRIORITY_MAX}"
    weight: tuple[int, int] | None = None
    if spec.weight is not None:
        if not _WEIGHT.fullmatch(spec.weight) or not (stated := Fraction(spec.weight)):
            return (
                f"spec.weight: {quoted(spec.weight)} is no number above 0 with at most six decimals"
            )
        weight = (stated.numerator, stated.denominator)
    if spec.maxSlots is not None and spec.maxSlots < NO_CAP:
        return f"spec.maxSlots: {spec.maxSlots} is not {NO_CAP} (no cap) or a number of slots"
    position = spec.position or ""
    if position and not _POSITION.fullmatch(position):
        return f"spec.position: {quoted(position)} is not a decimal number"
    return GroupOverride(
        group=f"{spec.namespace}/{spec.name}",
        uid=spec.uid,
        pool=pool,
        priority=priority,
        weight=weight,
        max_slots=spec.maxSlots,
        position=position,
    )
