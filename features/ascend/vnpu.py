"""Virtual NPUs: which chip of a node is cut for a task, or which whole chips it gets.

A chip takes a part if it has the AI cores, the AICPUs and the image unit (DVPP) for it. The chip with the fewest free
cores that is enough is taken. A chip with a part that the device plugin has not confirmed (it is *unstable*) takes no
other one, and a node on which parts of one template are not confirmed takes no other template: the device plugin gives
parts by their size, and could confuse them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from features.ascend.chips import CHIPS_MAX
from features.ascend.vnpu_templates import (
    NO,
    NULL,
    YES,
    ChipKind,
    CoreRequest,
    Segment,
    Template,
)

CORES_MAX: Final = CHIPS_MAX * 25
"""Maximum number of AI cores of a node."""


class CutChip(NamedTuple):
    """What is free of a chip."""

    number: int
    cores: int
    cpus: int
    has_yes: bool = False
    """Whether a part has all of the DVPP."""
    has_null: bool = False
    """Whether a part has what others leave of the DVPP."""
    has_no: bool = False
    """Whether a part has none of the DVPP."""
    groups: int = 0
    """Number of virtual groups in use."""
    is_unstable: bool = False
    """Whether a part is not confirmed yet."""


class CutNode(NamedTuple):
    """The healthy chips of a node, and the templates of which parts are not confirmed yet."""

    kind: ChipKind
    chips: tuple[CutChip, ...]
    """Sorted by number."""
    unconfirmed: tuple[str, ...] = ()
    """Names of templates, sorted."""

    @property
    def idle_cores(self) -> int:
        """Return the number of free AI cores."""
        return sum(one.cores for one in self.chips)


class CutPlacing(NamedTuple):
    """How a node serves a request."""

    score: int
    chips: tuple[int, ...]
    template: str
    """The part of the one chip; "" for whole chips."""
    is_downgraded: bool = False


class NoPlacing(NamedTuple):
    """Why a node does not serve a request."""

    message: str


def cut_chip(
    number: int,
    kind: ChipKind,
    segments: Iterable[Segment],
    *,
    is_whole: bool = False,
    is_unstable: bool = False,
) -> CutChip:
    """Return what is free of a chip with these parts; nothing if a pod has it whole."""
    parts = list(segments)
    dvpp = {one.template.dvpp for one in parts}
    groups = {one.group for one in parts if one.group is not None}
    ungrouped = sum(one.group is None for one in parts)
    if is_whole:
        return CutChip(number, 0, 0, is_unstable=is_unstable)
    return CutChip(
        number=number,
        cores=max(0, kind.cores - sum(one.template.cores for one in parts)),
        cpus=max(0, kind.cpus - sum(one.template.cpus for one in parts)),
        has_yes=YES in dvpp,
        has_null=NULL in dvpp,
        has_no=NO in dvpp,
        groups=len(groups) + ungrouped if kind.has_groups else 0,
        is_unstable=is_unstable or any(not one.is_reported for one in parts),
    )


def place_cores(request: CoreRequest, node: CutNode) -> CutPlacing | NoPlacing:
    """Return how a node serves a request, or why it does not.

    Nodes that need no downgrade are better than all others; then those with fewer free cores.
    """
    kind = node.kind
    if problem := kind.problem(request):
        return NoPlacing(problem)
    idle = node.idle_cores
    if idle < request.cores:
        return NoPlacing(
            "NPUResourceShortage: node don't have enough resource, "
            f"req<{request.cores}>, idle<{idle}>"
        )
    score = 2 * CORES_MAX + 1 - min(idle, CORES_MAX)
    if kind.is_whole(request):
        return _place_whole(request.cores // kind.cores, node, score)
    template = kind.template_of(request)
    assert template is not None, "a request without a problem has a template"
    tried = [(template, False)]
    lesser = kind.downgraded(template)
    if lesser is not None:
        tried.append((lesser, True))
    for one, is_downgraded in tried:
        chip = _chip_for(one, node)
        if chip is not None:
            lost = CORES_MAX + 1 if is_downgraded else 0
            return CutPlacing(score - lost, (chip.number,), one.name, is_downgraded)
    others = [one for one in node.unconfirmed if one != template.name]
    if others:
        return NoPlacing(f"node is using {others[0]}, and not rewrite")
    return NoPlacing(f"NPUResourceShortage: no chip of the node can take {template.name}")


def _place_whole(count: int, node: CutNode, score: int) -> CutPlacing | NoPlacing:
    """Return the lowest chips of which nothing is used."""
    kind = node.kind
    free = [one.number for one in node.chips if one.cores == kind.cores and not one.is_unstable]
    if len(free) < count:
        return NoPlacing(
            "NPUResourceShortage: node don't have enough resource, "
            f"req<{count} whole chips>, idle<{len(free)}>"
        )
    return CutPlacing(score, tuple(free[:count]), "")


def _chip_for(template: Template, node: CutNode) -> CutChip | None:
    """Return the chip with the fewest free cores that takes a part, the lowest of equals."""
    if any(one != template.name for one in node.unconfirmed):
        return None
    fitting = [one for one in node.chips if can_take(one, template, node.kind)]
    return min(fitting, key=lambda one: (one.cores, one.number), default=None)


def can_take(chip: CutChip, template: Template, kind: ChipKind) -> bool:
    """Return whether a part can be cut from what is free of a chip."""
    if chip.is_unstable or chip.cores < template.cores or chip.cpus < template.cpus:
        return False
    if template.dvpp == YES and (chip.has_yes or chip.has_null):
        return False
    if template.dvpp == NULL and (chip.has_no or chip.has_yes):
        return False
    if not kind.has_groups:
        return True
    most = {0: kind.cores, 1: kind.cores, 2: kind.cores, 3: 3, 4: 1}
    return template.cores <= most.get(chip.groups, 0)
