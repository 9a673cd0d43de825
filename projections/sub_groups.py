"""Network topology constraints, and sub-groups: the gangs within a gang (Volcano's subGroupPolicy).

A policy applies to pods that it selects and that have all of its label keys; pods with equal values of these labels
are a sub-group. A sub-group is ready from a number of pods on, and is placed completely or not at all. The gang of
the group needs a number of ready sub-groups of each policy.
"""

from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from msgspec import Struct

from events.limits import name_problem, quoted
from projections.objects import NetworkTopology, SubGroupPolicy
from projections.pod_terms import Labels, Selector, label_selector, selects

SubGroupKey: TypeAlias = tuple[int, tuple[str, ...]]
"""A sub-group: the index of its policy, and the values of its label keys."""


class TopologyConstraint(Struct, frozen=True):
    """How close pods must be (hard) or are preferred to be (soft)."""

    is_hard: bool = True
    tier: int | None = None
    """The highest tier of a HyperNode that may contain all pods; None without this bound."""
    tier_name: str = ""
    """The same by the name of the tier, or ""."""

    @property
    def is_bound(self) -> bool:
        """Return whether it is hard and names a highest tier."""
        return self.is_hard and (self.tier is not None or bool(self.tier_name))

    @property
    def text(self) -> str:
        """Return the constraint in words."""
        if not self.is_bound:
            return "as close as can be"
        bounds = [] if self.tier is None else [f"tier {self.tier}"]
        bounds += [f"tier {self.tier_name}"] if self.tier_name else []
        return f"within a HyperNode of {' and '.join(bounds)} or below"


class SubGroupRule(Struct, frozen=True):
    """A policy of sub-groups."""

    name: str
    selector: Selector | None
    """None selects all pods of the group."""
    keys: tuple[str, ...]
    size: int
    """Number of pods that make a sub-group ready."""
    least: int
    """Number of sub-groups that must be ready for the gang to be ready."""
    topology_constraint: TopologyConstraint | None = None


def topology_constraint_of(given: NetworkTopology | None) -> TopologyConstraint | None:
    """Return the constraint of a `networkTopology`. Raise ValueError."""
    if given is None:
        return None
    mode = given.mode or "hard"
    if mode not in ("hard", "soft"):
        raise ValueError(f"networkTopology.mode: {quoted(mode)} is neither hard nor soft")
    if problem := name_problem(given.highestTierName or ""):
        raise ValueError(f"networkTopology.highestTierName: {problem}")
    return TopologyConstraint(mode == "hard", given.highestTierAllowed, given.highestTierName or "")


def sub_group_rules(given: list[SubGroupPolicy] | None) -> tuple[SubGroupRule, ...]:
    """Return the rules of a `subGroupPolicy`. Raise ValueError (msgspec.ValidationError is one)."""
    return tuple(
        SubGroupRule(
            name=one.name,
            selector=label_selector(one.labelSelector),
            keys=tuple(one.matchLabelKeys or ()),
            size=max(1, one.subGroupSize or 1),
            least=max(0, one.minSubGroups or 0),
            topology_constraint=topology_constraint_of(one.networkTopology),
        )
        for one in given or ()
    )


class SubGroups:
    """The sub-groups of one group, with the number of their pods that count towards the gang."""

    COMPARED: ClassVar[tuple[str, ...]] = ("rules", "ready")

    def __init__(self, rules: tuple[SubGroupRule, ...]) -> None:
        self.rules = rules
        self.ready: dict[SubGroupKey, int] = {}

    def copy(self) -> "SubGroups":
        """Return a copy."""
        twin = SubGroups(self.rules)
        twin.ready = self.ready.copy()
        return twin

    def key_of(self, labels: Labels) -> SubGroupKey | None:
        """Return the sub-group of a pod with these labels, of the first policy that applies; None if none does."""
        there = dict(labels)
        for index, rule in enumerate(self.rules):
            if rule.selector is not None and not selects(rule.selector, there):
                continue
            if all(key in there for key in rule.keys):
                return index, tuple(there[key] for key in rule.keys)
        return None

    def count(self, key: SubGroupKey, sign: int) -> None:
        """Count a pod of a sub-group, or (-1) remove it."""
        left = self.ready.get(key, 0) + sign
        if left:
            self.ready[key] = left
        else:
            del self.ready[key]

    def are_enough_ready(self, more: Mapping[SubGroupKey, int]) -> bool:
        """Return whether enough sub-groups are ready with `more` pods."""
        if not any(rule.least for rule in self.rules):
            return True
        whole = [0] * len(self.rules)
        for key in {**self.ready, **more}:
            count = self.ready.get(key, 0) + more.get(key, 0)
            whole[key[0]] += count >= self.rules[key[0]].size
        return all(have >= rule.least for have, rule in zip(whole, self.rules, strict=True))
