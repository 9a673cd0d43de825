"""Whether the claims of a pod can be used at all, before any node is looked at."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, structs

from events.limits import clipped
from events.requeue import VOLUMES
from projections.claim_refs import ClaimRef
from projections.cluster import Cluster
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.volumes.claim_users import ClaimUsers
from projections.volumes.facts import (
    CLAIM,
    DELAYED,
    DRIVER,
    READ_WRITE_ONCE_POD,
    SHARED_MODES,
    STORAGE_CLASS,
    VOLUME,
    ClaimFacts,
    DriverFacts,
    StorageClassFacts,
    VolumeFacts,
)
from projections.wakeup_events import ALL_VOLUMES
from scheduling.node_predicates import NodePredicate

NOT_SUPPORTED: Final = "volume claims are not supported"


class VolumeRefusal(Struct, frozen=True):
    """Why pods cannot be placed because of their volumes."""

    code: str
    limit: str
    """The claim in question, as `namespace/name`, or the kind that is not listed."""
    message: str
    requeue_on: tuple[str, ...] = ()


class VolumeRules(Struct, frozen=True):
    """Which checks of volumes the policy has switched on."""

    binds: bool = False
    """Claims must be bound, and the node affinity of their volumes holds."""
    zones: bool = False
    """The zone labels of volumes hold."""
    pins: bool = False
    """A ReadWriteOnce volume that is attached keeps further pods on its node."""

    @property
    def checks(self) -> bool:
        """Return whether anything is checked."""
        return self.binds or self.zones


class VolumeLookup:
    """The claims and volumes of one State, and the checks of them that its policy has switched on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def rules(self) -> VolumeRules:
        """Return the checks of the policy in force."""
        found = self._cluster.plugins.of(NodePredicate)
        binds = not found or any(one.checks_claims for one in found)
        return VolumeRules(
            binds=binds,
            zones=not found or any(one.checks_volume_zones for one in found),
            pins=binds and any(one.pins_read_write_once for one in found),
        )

    def claim(self, claim: str) -> ClaimFacts | None:
        """Return a claim by `namespace/name`, or None."""
        found = self._cluster.object_facts.get(CLAIM, {}).get(claim)
        return found if isinstance(found, ClaimFacts) else None

    def volume(self, name: str) -> VolumeFacts | None:
        """Return a volume, or None."""
        found = self._cluster.object_facts.get(VOLUME, {}).get(f"/{name}")
        return found if isinstance(found, VolumeFacts) else None

    def _is_attached(self, volume: VolumeFacts) -> bool:
        """Return whether a volume is attached to the node of a pod that uses it. A driver without an object attaches."""
        if not volume.driver:
            return volume.is_attached
        driver = self._cluster.object_facts.get(DRIVER, {}).get(f"/{volume.driver}")
        return not isinstance(driver, DriverFacts) or driver.attaches

    def is_single_node(self, claim: ClaimFacts, volume: VolumeFacts) -> bool:
        """Return whether a volume is attached, and only to one node at a time (ReadWriteOnce). Volumes of one pod are limited
        to that pod."""
        modes = (*claim.modes, *volume.modes)
        if not modes or any(one in modes for one in (*SHARED_MODES, READ_WRITE_ONCE_POD)):
            return False
        return self._is_attached(volume)


def _absent(one: ClaimRef, claim: ClaimFacts | None) -> tuple[str, str] | None:
    """Return code and message if a claim does not exist, is lost, is being deleted, or is another pod's."""
    name = one.claim
    if name.endswith("/"):
        return "ClaimMissing", f"volume {one.volume} names no claim"
    if claim is None and one.owner:
        return "ClaimMissing", f"claim {name} of an ephemeral volume is not created yet"
    if claim is None:
        return "ClaimMissing", f"claim {name} does not exist"
    if claim.is_lost:
        return "ClaimLost", f"claim {name} has lost its volume {claim.volume}"
    if claim.is_deleting:
        return "ClaimDeleting", f"claim {name} is being deleted"
    if one.owner and claim.owner != one.owner:
        return "ClaimNotOwned", f"claim {name} belongs to something else than this pod"
    return None


def _count(group: PodGroup, claim: str) -> int:
    """Return how many waiting pods of a group use a claim."""
    pods = (pod.pod_class.claims for pod in group.pending)
    return sum(any(one.claim == claim for one in claims) for claims in pods)


class ClaimCheck:
    """Whether the pods of one class can use their claims."""

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self._cluster = cluster
        self._lookup = VolumeLookup(cluster)
        self._pod_class = pod_class

    def refusal(self, group: PodGroup | None = None) -> VolumeRefusal | None:
        """Return why the pods of a class cannot use their claims, whatever the node; None if they can."""
        if not self._pod_class.claims:
            return None
        rules = self._lookup.rules
        if not rules.checks:
            return None
        found = self._kinds_refusal()
        if found is None and rules.binds:
            found = self._first() or self._in_use(group)
        if found is None:
            return None
        events = () if found.code == "UnsupportedDemand" else self.events()
        return structs.replace(found, message=clipped(found.message), requeue_on=events)

    def events(self) -> tuple[str, ...]:
        """Return the events that could change what the volumes of a pod allow (`events/requeue.py`)."""
        if not self._pod_class.claims:
            return ()
        return tuple([VOLUMES + one for one in dict.fromkeys(self._subjects())])

    def _subjects(self) -> Iterator[str]:
        if any(self._cluster.volume_kinds.values()):
            yield ALL_VOLUMES
        for one in self._pod_class.claims:
            yield one.subject
            claim = self._lookup.claim(one.claim)
            if claim is None:
                continue
            if claim.volume:
                yield f"{VOLUME}//{claim.volume}"
                volume = self._lookup.volume(claim.volume)
                if volume is not None and volume.driver:
                    yield f"{DRIVER}//{volume.driver}"
            elif claim.storage_class:
                yield f"{STORAGE_CLASS}//{claim.storage_class}"

    def _kinds_refusal(self) -> VolumeRefusal | None:
        """Return why claims cannot be judged, because a kind is not listed."""
        if not self._cluster.volume_kinds:
            text = f"volume {self._pod_class.claims[0].volume} needs a claim: {NOT_SUPPORTED}"
            return VolumeRefusal(code="UnsupportedDemand", limit="", message=text)
        for kind, why_not in self._cluster.volume_kinds.items():
            if why_not:
                text = f"{kind} is {why_not}; pods with claims wait for it"
                return VolumeRefusal(code="VolumesNotListed", limit=kind, message=text)
        return None

    def _first(self) -> VolumeRefusal | None:
        """Return the refusal for the first claim that cannot be used."""
        claims: Mapping[ClaimRef, ClaimFacts | None] = {
            one: self._lookup.claim(one.claim) for one in self._pod_class.claims
        }
        for one, claim in claims.items():
            if found := _absent(one, claim):
                code, text = found
                return VolumeRefusal(code=code, limit=one.claim, message=text)
        for one, claim in claims.items():
            if claim is not None and (found := self._unbound(one, claim)):
                code, text = found
                return VolumeRefusal(code=code, limit=one.claim, message=text)
        for one, claim in claims.items():
            if claim is not None and self._lookup.volume(claim.volume) is None:
                text = (
                    f"volume {claim.volume} of claim {one.claim} does not exist or is not seen yet"
                )
                return VolumeRefusal(code="VolumeMissing", limit=one.claim, message=text)
        return None

    def _unbound(self, one: ClaimRef, claim: ClaimFacts) -> tuple[str, str] | None:
        """Return code and message if a claim is not bound."""
        name, class_name = one.claim, claim.storage_class
        if claim.is_bound:
            return None
        if claim.volume:
            return "ClaimUnbound", f"claim {name} waits to be bound to volume {claim.volume}"
        if not class_name:
            return "ClaimUnbound", f"claim {name} waits for a volume (it names no storage class)"
        found = self._cluster.object_facts.get(STORAGE_CLASS, {}).get(f"/{class_name}")
        if not isinstance(found, StorageClassFacts):
            return "ClassMissing", f"storage class {class_name} of claim {name} does not exist"
        if not found.binding:
            return (
                "ClassUnusable",
                f"storage class {class_name} of claim {name} has no binding mode",
            )
        if found.binding == DELAYED:
            return "ClaimDelayed", (
                f"claim {name} is bound when its first pod is placed (storage class {class_name}, {DELAYED}):"
                " delayed binding is not supported yet"
            )
        return "ClaimUnbound", (
            f"claim {name} waits for a volume (storage class {class_name} binds at once)"
        )

    def _in_use(self, group: PodGroup | None) -> VolumeRefusal | None:
        """Return the refusal if another pod uses a claim that only one pod may use."""
        users = self._cluster.indexes.of(ClaimUsers)
        for one in self._pod_class.claims:
            claim = self._lookup.claim(one.claim)
            if claim is None or READ_WRITE_ONCE_POD not in claim.modes:
                continue
            text = f"claim {one.claim} can be used by one pod only ({READ_WRITE_ONCE_POD})"
            if holders := users.pods.get(one.claim):
                pod = min(self._cluster.pods[uid].key for uid in holders)
                text = f"{text}; pod {pod} uses it"
            elif users.trial.get(one.claim):
                count = 0 if group is None else _count(group, one.claim)
                text = f"{text}; the gang has {count} that use it"
            else:
                continue
            return VolumeRefusal(code="VolumeInUse", limit=one.claim, message=text)
        return None
