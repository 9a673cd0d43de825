"""HyperNodes as their objects say: nodes that are close to one another in the network, and groups of such.

A HyperNode names its members, nodes or other HyperNodes; its tier says how close they are (smaller is
closer). Nodes may also be found by a pattern of their names or by their labels.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from projections.faults import Pairs
from projections.objects import HyperNodeObject, HyperNodeSpec, MemberEntry
from projections.pod_terms import Selector, label_selector, selects

INVALID: Final = "InvalidHyperNode"
INVALID_MEMBER: Final = "InvalidHyperNodeMember"

Labels: TypeAlias = Mapping[str, str]


class HyperNodeFacts(Struct, frozen=True):
    """A HyperNode as its object says."""

    name: str
    tier: int
    tier_name: str = ""
    children: tuple[str, ...] = ()
    """HyperNodes that it names as its members."""
    nodes: tuple[str, ...] = ()
    """Nodes that it names."""
    patterns: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    faults: Pairs = ()

    @property
    def seeks(self) -> bool:
        """Whether it finds nodes by what they are like."""
        return bool(self.patterns or self.selectors)

    def finds(self, name: str, labels: Labels) -> bool:
        """Whether a node is one of those that it seeks."""
        if any(_compiled(one).search(name) for one in self.patterns):
            return True
        return any(selects(one, labels) for one in self.selectors)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def hyper_node_facts(obj: HyperNodeObject, problem: str = "") -> HyperNodeFacts:
    """What muster reads of a HyperNode. A member that cannot be used is named in `faults` and left out."""
    spec = obj.spec or HyperNodeSpec()
    children: dict[str, None] = {}
    nodes: dict[str, None] = {}
    patterns: dict[str, None] = {}
    selectors: dict[Selector, None] = {}
    faults = [(INVALID, f"{problem}; it has no members")] if problem else []
    for index, member in enumerate(spec.members or ()):
        exact, pattern = member.selector.exactMatch, member.selector.regexMatch
        wrong = _wrong(member)
        if wrong:
            faults.append((INVALID_MEMBER, f"spec.members[{index}]: {wrong}; it is left out"))
        elif exact is not None:
            (children if member.type == "HyperNode" else nodes)[exact.name] = None
        elif pattern is not None:
            patterns[pattern.pattern] = None
        elif (found := label_selector(member.selector.labelMatch)) is not None:
            selectors[found] = None
    return HyperNodeFacts(
        name=obj.metadata.name,
        tier=spec.tier,
        tier_name=spec.tierName or "",
        children=tuple(children),
        nodes=tuple(nodes),
        patterns=tuple(patterns),
        selectors=tuple(selectors),
        faults=tuple(faults),
    )


def _wrong(member: MemberEntry) -> str:
    """Why a member cannot be used; empty where it can."""
    selector = member.selector
    if member.type not in ("Node", "HyperNode"):
        return f"type {member.type!r} is neither Node nor HyperNode"
    if selector.exactMatch is not None:
        return "" if selector.exactMatch.name else "it names nobody"
    if member.type == "HyperNode":
        return "a HyperNode is found by its exact name only"
    if selector.regexMatch is not None:
        try:
            _compiled(selector.regexMatch.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return f"{selector.regexMatch.pattern!r} is no pattern: {error}"
        return "" if selector.regexMatch.pattern else "its pattern is empty"
    try:
        found = label_selector(selector.labelMatch)
    except msgspec.ValidationError as error:
        return f"labelMatch: {error}"
    return "it names nobody" if found is None else ""
