"""How close pods of a group must be in the network, and the gangs inside a gang (Volcano's subGroupPolicy).

A policy of sub-groups takes the pods that it selects and that have all labels it looks at; pods with equal
values of these make up a sub-group, which is whole from a size on and is placed whole or not at all. The
group's gang needs so many whole sub-groups of each policy.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from events.limits import name_problem, quoted
from projections.objects import NetworkTopology, SubGroupPolicy
from projections.pod_terms import Labels, Selector, label_selector, selects

SubGroupKey: TypeAlias = tuple[int, tuple[str, ...]]
"""A sub-group: which policy, and the values of the labels that it looks at."""


class TopologyConstraint(Struct, frozen=True):
    """How close pods must be (hard), or had better be."""

    is_hard: bool = True
    tier: int | None = None
    """The highest tier of a HyperNode that may hold them all; None for no such bound."""
    tier_name: str = ""
    """The same by the name of the tier; empty where none is named."""

    @property
    def is_bound(self) -> bool:
        """Whether some tier is the highest."""
        return self.is_hard and (self.tier is not None or bool(self.tier_name))

    @property
    def text(self) -> str:
        """In words."""
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
    """Pods that make a sub-group whole."""
    least: int
    """Sub-groups that must be whole for the gang to be whole."""
    topology_constraint: TopologyConstraint | None = None


def topology_constraint_of(given: NetworkTopology | None) -> TopologyConstraint | None:
    """What `networkTopology` says. Raises ValueError."""
    if given is None:
        return None
    mode = given.mode or "hard"
    if mode not in ("hard", "soft"):
        raise ValueError(f"networkTopology.mode: {quoted(mode)} is neither hard nor soft")
    if problem := name_problem(given.highestTierName or ""):
        raise ValueError(f"networkTopology.highestTierName: {problem}")
    return TopologyConstraint(mode == "hard", given.highestTierAllowed, given.highestTierName or "")


def sub_group_rules(given: list[SubGroupPolicy] | None) -> tuple[SubGroupRule, ...]:
    """What `subGroupPolicy` says. Raises ValueError (msgspec.ValidationError is one)."""
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
    """The sub-groups of one group: how many of their pods count towards the gang."""

    def __init__(self, rules: tuple[SubGroupRule, ...]) -> None:
        self.rules = rules
        self.ready: dict[SubGroupKey, int] = {}

    def key_of(self, labels: Labels) -> SubGroupKey | None:
        """The sub-group of a pod with these labels: of the first policy that takes it; None for no one's."""
        there = dict(labels)
        for index, rule in enumerate(self.rules):
            if rule.selector is not None and not selects(rule.selector, there):
                continue
            if all(key in there for key in rule.keys):
                return index, tuple(there[key] for key in rule.keys)
        return None

    def count(self, key: SubGroupKey, sign: int) -> None:
        """A pod of a sub-group counts, or (-1) no longer."""
        left = self.ready.get(key, 0) + sign
        if left:
            self.ready[key] = left
        else:
            del self.ready[key]

    def are_enough_ready(self, more: Mapping[SubGroupKey, int]) -> bool:
        """Whether enough of them are whole once these pods count as well."""
        if not any(rule.least for rule in self.rules):
            return True
        whole = [0] * len(self.rules)
        for key in {**self.ready, **more}:
            count = self.ready.get(key, 0) + more.get(key, 0)
            whole[key[0]] += count >= self.rules[key[0]].size
        return all(have >= rule.least for have, rule in zip(whole, self.rules, strict=True))
