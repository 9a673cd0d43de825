"""Read HyperNode objects: nodes that are close to one another in the network, and sets of such.

A HyperNode names its members, nodes or other HyperNodes; a smaller tier means that they are closer. Nodes can also
be selected by a pattern of their names or by their labels.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
import re2
from msgspec import Raw, Struct

from events.limits import name_problem, quoted
from projections.config_errors import Pairs
from projections.objects import NOTHING, Int32, Many, Metadata
from projections.pod_terms import Selector, label_selector, selects

PATTERNS_MAX: Final = 64
"""Maximum number of patterns of one HyperNode: each is matched against each node."""

PATTERN_BYTES_MAX: Final = 1000
"""Maximum length of a pattern in bytes."""

PATTERN_MEMORY_BYTES: Final = 1 << 20
"""Maximum memory of a compiled pattern, and of its cache, in bytes."""

PATTERNS_KEPT: Final = 256
"""Number of patterns that stay compiled: together at most 256 MiB."""

INVALID: Final = "InvalidHyperNode"
INVALID_MEMBER: Final = "InvalidHyperNodeMember"

Labels: TypeAlias = Mapping[str, str]


class ExactMatch(Struct):
    """A member by its name."""

    name: str = ""


class RegexMatch(Struct):
    """Members by a pattern of names."""

    pattern: str = ""


class MemberSelector(Struct):
    """Selects members by one of the three."""

    exactMatch: ExactMatch | None = None  # noqa: N815
    regexMatch: RegexMatch | None = None  # noqa: N815
    labelMatch: Raw = NOTHING  # noqa: N815


class MemberEntry(Struct):
    """One of `HyperNode.spec.members`."""

    type: str = ""
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(Struct):
    """`HyperNode.spec` (topology.volcano.sh)."""

    tier: Int32 = 0
    tierName: str | None = None  # noqa: N815
    members: Many[MemberEntry] | None = None


class HyperNodeObject(Struct):
    """A HyperNode."""

    metadata: Metadata
    spec: HyperNodeSpec | None = None


class HyperNodeFacts(Struct, frozen=True):
    """What muster reads of a HyperNode."""

    name: str
    tier: int
    tier_name: str = ""
    children: tuple[str, ...] = ()
    """HyperNodes that it names as members."""
    nodes: tuple[str, ...] = ()
    """Nodes that it names as members."""
    patterns: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    faults: Pairs = ()

    @property
    def selects_nodes(self) -> bool:
        """Return whether it selects nodes by patterns or labels."""
        return bool(self.patterns or self.selectors)

    def selects(self, name: str, labels: Labels) -> bool:
        """Return whether its patterns or label selectors select a node."""
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
    """Compile a pattern that matches in linear time, whatever it is."""
    return re2.compile(pattern, options=_OPTIONS)


def hyper_node_facts(obj: HyperNodeObject, problem: str = "") -> HyperNodeFacts:
    """Return what muster reads of a HyperNode. A member that cannot be used is named in `faults` and left out."""
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
    """Return why a member cannot be used, or ""."""
    selector = member.selector
    if member.type not in ("Node", "HyperNode"):
        return f"type {quoted(member.type)} is neither Node nor HyperNode"
    if selector.exactMatch is not None:
        name = selector.exactMatch.name
        return name_problem(name) if name else "it names no member"
    if member.type == "HyperNode":
        return "a HyperNode is found by its exact name only"
    if selector.regexMatch is not None:
        return _wrong_pattern(selector.regexMatch.pattern)
    try:
        found = label_selector(selector.labelMatch)
    except msgspec.ValidationError as error:
        return f"labelMatch: {error}"
    return "it names no member" if found is None else ""


def _wrong_pattern(pattern: str) -> str:
    """Return why a pattern cannot be used, or ""."""
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
