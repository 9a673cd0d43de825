"""The nodes that the volumes of a pod exclude, as columns over all nodes.

The column of a constraint (an affinity, zones, a set of nodes) is shared by all pods whose volumes have it, and computed
again when a node's object has changed.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from events.limits import clipped
from projections.claim_refs import ClaimRef
from projections.cluster import Cluster
from projections.pod_class import PodClass
from projections.policy.requirement import Requirement
from projections.selector import NodeSelector, Term
from projections.volumes.claim_users import ClaimUsers
from projections.volumes.facts import (
    ZONE_KEYS,
    ClaimFacts,
    VolumeFacts,
)
from scheduling.label_domains import Domain
from scheduling.volumes.claim_check import (
    VolumeLookup,
    VolumeRefusal,
    VolumeRules,
)

Mask: TypeAlias = npt.NDArray[np.bool_]

OUT_OF_REACH: Final = "node(s) didn't match PersistentVolume's node affinity"
OTHER_ZONE: Final = "node(s) were not in the zone of a volume"
IN_USE_ELSEWHERE: Final = "node(s) were not the one on which a ReadWriteOnce volume is in use"

VOLUME_REASONS: Final = (OUT_OF_REACH, OTHER_ZONE, IN_USE_ELSEWHERE)
"""The reasons in the order in which they are evaluated."""

MASKS_MAX: Final = 1024
"""Maximum number of columns that are kept; beyond it all are dropped."""

VALUES_SHOWN_MAX: Final = 3
"""The most values of a label that a message names."""


class VolumeConstraint(Struct, frozen=True):
    """What one volume of a pod asks of nodes."""

    reason: str
    code: str
    """The code of a refusal if no node satisfies it."""
    selector: NodeSelector | None = None
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    nodes: tuple[str, ...] | None = None
    problem: str = ""
    is_tied: bool = False
    """Whether it names nodes that exist: a new node would not help."""

    @property
    def text(self) -> str:
        """Return where the volume is, for messages."""
        if self.problem:
            return self.problem
        if self.nodes is not None:
            return f"in use on {' and '.join(self.nodes)}"
        if self.zones:
            return " and ".join(f"{key} {_values(values)}" for key, values in self.zones)
        terms = () if self.selector is None else self.selector.terms or ()
        return " or ".join(" and ".join(map(_requirement, _all(one))) for one in terms) or "no node"


class VolumeMasks:
    """The columns of one State. `domain_of` returns the domains of a label key."""

    def __init__(self, cluster: Cluster, domain_of: Callable[[str], Domain]) -> None:
        self.cluster = cluster
        self._domain_of = domain_of
        self._stamp = (-1, -1)
        self._masks: dict[VolumeConstraint, Mask] = {}

    def admitted(self, one: VolumeConstraint) -> Mask:
        """Return the nodes that satisfy a constraint. Do not modify the result."""
        table = self.cluster.nodes
        stamp = (table.layout, len(table.updated_slots))
        if stamp != self._stamp or len(self._masks) >= MASKS_MAX:
            self._stamp, self._masks = stamp, {}
        found = self._masks.get(one)
        if found is None:
            found = self._masks[one] = self._evaluated(one)
        return found

    def _evaluated(self, one: VolumeConstraint) -> Mask:
        if one.problem:
            return self._all(value=False)
        if one.nodes is not None:
            return self._named(one.nodes)
        if one.zones:
            return self._in_zones(one.zones)
        found = self._all(value=False)
        for term in () if one.selector is None else one.selector.terms or ():
            found |= self._matching(term)
        return found

    def _matching(self, term: Term) -> Mask:
        if not term.labels and not term.fields:
            return self._all(value=False)
        found = self._all(value=True)
        for one in term.labels:
            found &= self._domain_of(one.key).matching(one)
        for one in term.fields:
            is_name = one.key == "metadata.name"
            names = [is_name and one.matches(node.name) for node in self.cluster.nodes.order]
            found &= np.array(names, dtype=np.bool_)
        return found

    def _in_zones(self, zones: tuple[tuple[str, tuple[str, ...]], ...]) -> Mask:
        """Return the nodes in the zones, and those that have no zone label at all."""
        without, found = self._all(value=True), self._all(value=True)
        for key in ZONE_KEYS:
            without &= ~self._domain_of(key).inside
        for key, values in zones:
            wanted = Requirement(key, "In", values)
            domain, newer = self._domain_of(key), ZONE_KEYS[key]
            inside = domain.matching(wanted)
            if newer:
                inside = inside | (~domain.inside & self._domain_of(newer).matching(wanted))
            found &= inside
        return found | without

    def _named(self, names: tuple[str, ...]) -> Mask:
        found = self._all(value=False)
        for name in names:
            node = self.cluster.nodes.nodes.get(name)
            if node is not None and node.facts is not None:
                found[node.slot] = True
        return found

    def _all(self, *, value: bool) -> Mask:
        return np.full(len(self.cluster.nodes.order), value, dtype=np.bool_)


class VolumeFilter:
    """The nodes that the volumes of the pods of one class exclude."""

    def __init__(self, masks: VolumeMasks, pod_class: PodClass) -> None:
        self._masks = masks
        self._cluster = masks.cluster
        self._claims = pod_class.claims
        self._lookup = VolumeLookup(self._cluster)
        self._rules = self._lookup.rules if pod_class.claims else VolumeRules()
        self._version = -1
        self._constraints: tuple[tuple[ClaimRef, VolumeConstraint], ...] = ()

    @property
    def is_enabled(self) -> bool:
        """Return whether the pods have claims, and the policy checks them."""
        return bool(self._claims) and self._rules.checks

    def excluded(self) -> dict[str, Mask]:
        """Return reason to the nodes that it excludes, in the order of evaluation."""
        if not self.is_enabled:
            return {}
        found: dict[str, Mask] = {}
        for _, one in self.constraints():
            mask = ~self._masks.admitted(one)
            found[one.reason] = found[one.reason] | mask if one.reason in found else mask
        return {reason: found[reason] for reason in VOLUME_REASONS if reason in found}

    def constraints(self) -> tuple[tuple[ClaimRef, VolumeConstraint], ...]:
        """Return what the bound volumes of the pods ask of nodes now."""
        version = self._cluster.indexes.of(ClaimUsers).version
        if version != self._version:
            self._version = version
            self._constraints = tuple(self._all_constraints())
        return self._constraints

    @property
    def is_tied(self) -> bool:
        """Return whether the volumes are on nodes that exist, so that a new node would not help the pods."""
        return self.is_enabled and any(one.is_tied for _, one in self.constraints())

    def obstacle(self, slot: int) -> str:
        """Return why a node is excluded, for people; empty if it is not."""
        if not self.is_enabled:
            return ""
        for claim, one in self.constraints():
            if not self._masks.admitted(one)[slot]:
                return clipped(f"volume of claim {claim.claim} is elsewhere: {one.text}")
        return ""

    def conflict(self) -> VolumeRefusal | None:
        """Return why no node admits the pods whatever is free there; None if some node does, or there is no node."""
        if not self.is_enabled or not len(self._cluster.nodes.order):
            return None
        can: Mask = np.ones(len(self._cluster.nodes.order), dtype=np.bool_)
        there: list[tuple[ClaimRef, VolumeConstraint]] = []
        for claim, one in self.constraints():
            mask = self._masks.admitted(one)
            if not mask.any():
                text = f"no node can reach the volume of claim {claim.claim}: {one.text}"
                if one.nodes is not None:
                    text = (
                        f"claim {claim.claim} is {one.text} (ReadWriteOnce), which is no node now"
                    )
                return VolumeRefusal(code=one.code, limit=claim.claim, message=clipped(text))
            can = can & mask
            there.append((claim, one))
            if not can.any():
                return VolumeRefusal(
                    code="VolumesDisagree",
                    limit=claim.claim,
                    message=clipped(self._disagreement(there)),
                )
        return None

    def _disagreement(self, there: list[tuple[ClaimRef, VolumeConstraint]]) -> str:
        """Return which claims exclude each other: the last of them and the first that it disagrees with, or all."""
        last = self._masks.admitted(there[-1][1])
        pair = next((one for one in there if not (self._masks.admitted(one[1]) & last).any()), None)
        shown = there if pair is None else [pair, there[-1]]
        listed = ", ".join(f"claim {claim.claim}: {one.text}" for claim, one in shown)
        return f"no node can reach all volumes: {listed}"

    def _all_constraints(self) -> Iterator[tuple[ClaimRef, VolumeConstraint]]:
        for one in self._claims:
            claim = self._lookup.claim(one.claim)
            if claim is None or not claim.is_bound:
                continue
            volume = self._lookup.volume(claim.volume)
            if volume is None:
                continue
            if self._rules.binds and (volume.problem or volume.affinity is not None):
                problem = f"affinity of volume {claim.volume}: {volume.problem}"
                yield (
                    one,
                    VolumeConstraint(
                        OUT_OF_REACH,
                        code="VolumeNodeConflict",
                        selector=volume.affinity,
                        problem=problem if volume.problem else "",
                        is_tied=volume.is_local or bool(volume.problem),
                    ),
                )
            if self._rules.zones and volume.zones:
                yield (
                    one,
                    VolumeConstraint(OTHER_ZONE, code="VolumeZoneConflict", zones=volume.zones),
                )
            if self._rules.pins and (nodes := self._pinned(one, claim, volume)):
                yield (
                    one,
                    VolumeConstraint(
                        IN_USE_ELSEWHERE, code="VolumeInUse", nodes=nodes, is_tied=True
                    ),
                )

    def _pinned(self, one: ClaimRef, claim: ClaimFacts, volume: VolumeFacts) -> tuple[str, ...]:
        """Return the nodes on which a volume is in use that one node at a time can use; none if any node may."""
        if not self._lookup.is_single_node(claim, volume):
            return ()
        users = self._cluster.indexes.of(ClaimUsers)
        nodes = [
            *users.pods.get(one.claim, {}).values(),
            *users.trial.get(one.claim, {}).values(),
        ]
        return tuple(sorted(dict.fromkeys(nodes)))


def _all(term: Term) -> tuple[Requirement, ...]:
    return (*term.labels, *term.fields)


def _requirement(one: Requirement) -> str:
    if one.operator == "In":
        return f"{one.key} {_values(one.values)}"
    return f"{one.key} {one.operator} {_values(one.values)}".rstrip()


def _values(values: tuple[str, ...]) -> str:
    shown = values[:VALUES_SHOWN_MAX]
    more = f" or {len(values) - len(shown)} more" if len(values) > len(shown) else ""
    return " or ".join(shown) + more
