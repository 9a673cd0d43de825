"""HyperNodes as their objects say: nodes that are close to one another in the network, and groups of such.

A HyperNode names its members, nodes or other HyperNodes; its tier says how close they are (smaller is
closer). Nodes may also be found by a pattern of their names or by their labels.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
import re2
from msgspec import Struct

from events.limits import name_problem, quoted
from projections.config_errors import Pairs
from projections.objects import HyperNodeObject, HyperNodeSpec, MemberEntry
from projections.pod_terms import Selector, label_selector, selects

PATTERNS_MAX: Final = 64
"""Patterns of one HyperNode: each is asked about each node."""

PATTERN_BYTES_MAX: Final = 1000
"""Bytes of a pattern."""

PATTERN_MEMORY_BYTES: Final = 1 << 20
"""Bytes that a pattern may take as a program, and its matching as a cache."""

PATTERNS_KEPT: Final = 256
"""Patterns that stay compiled: together at most a quarter of a GiB."""

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
    def selects_nodes(self) -> bool:
        """Whether it finds nodes by what they are like."""
        return bool(self.patterns or self.selectors)

    def selects(self, name: str, labels: Labels) -> bool:
        """Whether a node is one of those that it seeks."""
        if any(_compiled(one).search(name) for one in self.patterns):
            return True
        return any(selects(one, labels) for one in self.selectors)


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.log_errors = False
    return options


_OPTIONS: Final = _options()


@lru_cache(maxsize=PATTERNS_KEPT)
def _compiled(pattern: str) -> "re2._Regexp[str]":
    """Matches in time proportional to the text, whatever the pattern is."""
    return re2.compile(pattern, options=_OPTIONS)


def hyper_node_facts(obj: HyperNodeObject, problem: str = "") -> HyperNodeFacts:
    """What muster reads of a HyperNode. A member that cannot be used is named in `faults` and left out."""
    spec = obj.spec or HyperNodeSpec()
    children: dict[str, None] = {}
    nodes: dict[str, None] = {}
    patterns: dict[str, None] = {}
    selectors: dict[Selector, None] = {}
    faults = [(INVALID, f"{problem}; it has no members")] if problem else []
    tier_name = spec.tierName or ""
    if wrong := name_problem(tier_name):
        faults.append((INVALID, f"spec.tierName: {wrong}; it counts as absent"))
        tier_name = ""
    for index, member in enumerate(spec.members or ()):
        exact, pattern = member.selector.exactMatch, member.selector.regexMatch
        wrong = _wrong(member)
        if not wrong and pattern is not None and len(patterns) >= PATTERNS_MAX:
            wrong = f"a HyperNode has at most {PATTERNS_MAX} patterns"
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
        tier_name=tier_name,
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
        return f"type {quoted(member.type)} is neither Node nor HyperNode"
    if selector.exactMatch is not None:
        name = selector.exactMatch.name
        return name_problem(name) if name else "it names nobody"
    if member.type == "HyperNode":
        return "a HyperNode is found by its exact name only"
    if selector.regexMatch is not None:
        return _wrong_pattern(selector.regexMatch.pattern)
    try:
        found = label_selector(selector.labelMatch)
    except msgspec.ValidationError as error:
        return f"labelMatch: {error}"
    return "it names nobody" if found is None else ""


def _wrong_pattern(pattern: str) -> str:
    """Why a pattern cannot be used; empty where it can."""
    if not pattern:
        return "its pattern is empty"
    if problem := name_problem(pattern, PATTERN_BYTES_MAX):
        return f"its pattern {problem}"
    try:
        _compiled(pattern)
    except re2.error as error:
        [reason] = error.args
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        return f"{quoted(pattern)} is no pattern: {text}"
    return ""
