"""Which PersistentVolumeClaims the volumes of a pod name."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from events.limits import ITEMS_MAX, clipped, object_name_problem
from projections.objects import Metadata

_MARKS: Final = (b'"persistentVolumeClaim"', b'"ephemeral"')


class ClaimRef(Struct, frozen=True):
    """A volume of a pod, and the claim that it names."""

    volume: str
    claim: str
    """`namespace/name`"""
    owner: str = ""
    """UID of the pod to which the claim must belong, for an ephemeral volume; else empty."""

    @property
    def subject(self) -> str:
        """Return the claim as records name it."""
        return f"PersistentVolumeClaim/{self.claim}"


class StatedClaim(Struct, frozen=True):
    """A volume that needs a claim, as the spec of a pod states it."""

    volume: str
    name: str = ""
    is_ephemeral: bool = False


StatedClaims: TypeAlias = tuple[StatedClaim, ...]


class _ClaimSource(Struct):
    claimName: str = ""  # noqa: N815


class _Volume(Struct):
    name: str = ""
    persistentVolumeClaim: _ClaimSource | None = None  # noqa: N815
    ephemeral: Raw = Raw(b"")


_VOLUMES: Final = msgspec.json.Decoder(list[_Volume] | None)


def may_have_claims(volumes: bytes) -> bool:
    """Return whether raw volumes may need claims; other volumes (secrets, tokens) say nothing about nodes."""
    return any(one in volumes for one in _MARKS)


def stated_claims(volumes: bytes) -> StatedClaims:
    """Return the claims that raw volumes need; none if the volumes cannot be read."""
    if not may_have_claims(volumes):
        return ()
    try:
        read = _VOLUMES.decode(volumes) or ()
    except msgspec.ValidationError:
        return ()
    return tuple([one for volume in read if (one := _stated(volume)) is not None])


def claims_problem(volumes: bytes) -> str:
    """Return why the claims of raw volumes cannot be read, or ""."""
    if not may_have_claims(volumes):
        return ""
    try:
        _VOLUMES.decode(volumes)
    except msgspec.ValidationError as error:
        return f"volumes: {error}"
    claims = stated_claims(volumes)
    if len(claims) > ITEMS_MAX:
        return f"{len(claims)} volumes with claims are more than {ITEMS_MAX}"
    for one in claims:
        if problem := object_name_problem(one.volume) or object_name_problem(one.name):
            return clipped(f"volumes: {problem}")
    return ""


def claims_of(stated: StatedClaims, pod: Metadata) -> tuple[ClaimRef, ...]:
    """Return the claims of a pod. The claim of an ephemeral volume has the name POD-VOLUME."""
    namespace, found = pod.namespace or "default", []
    for one in stated[:ITEMS_MAX]:
        name = f"{pod.name}-{one.volume}" if one.is_ephemeral else one.name
        owner = pod.uid or "" if one.is_ephemeral else ""
        found.append(ClaimRef(one.volume, f"{namespace}/{name}", owner))
    return tuple(found)


def _stated(volume: _Volume) -> StatedClaim | None:
    if volume.persistentVolumeClaim is not None:
        return StatedClaim(volume.name, volume.persistentVolumeClaim.claimName)
    if bytes(volume.ephemeral) not in (b"", b"null"):
        return StatedClaim(volume.name, is_ephemeral=True)
    return None
