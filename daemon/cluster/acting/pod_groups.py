"""Telling PodGroups their phase and whether they can be scheduled (volcano B.14).

The status of a PodGroup is a subresource of its own in some releases of the CRD and part of the object
in others. The first answer tells which, and is remembered until an answer says otherwise.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from daemon.cluster.acting.errand import MERGE_PATCH, Errand
from daemon.cluster.acting.patching import answered
from daemon.cluster.acting.stamp import seconds_of
from daemon.cluster.acting.telling import MESSAGE_MAX
from daemon.cluster.client.calls import GET_POD_GROUP, PATCH_POD_GROUP, PATCH_POD_GROUP_STATUS
from events.sighting import (
    Done,
    GroupConditionRequest,
    PhaseRequest,
    Refused,
    Reply,
    Unknown,
)

READS_MAX: Final = 5
"""How often a PodGroup that others write at the same time is read before giving up."""

Condition = dict[str, object]


class _Metadata(Struct):
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Status(Struct):
    phase: str = ""
    conditions: list[Condition] | None = None


class _Group(Struct):
    metadata: _Metadata
    status: _Status | None = None


class GroupTeller:
    """Tells PodGroups. Time comes from the clock that it is given."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._is_apart = True
        """Whether the status is a subresource, as far as is known."""

    async def tell_phase(self, errand: Errand, request: PhaseRequest) -> Reply:
        """Set the phase."""
        patch = {"metadata": {"uid": request.uid}, "status": {"phase": request.phase}}
        return await self._patch(errand, patch, lambda status: status.phase == request.phase)

    async def tell_condition(self, errand: Errand, request: GroupConditionRequest) -> Reply:
        """Set one condition and keep the others, whoever wrote them.

        A merge replaces the whole list (K13), so it is read, and written only if it is still the same.
        """
        reply: Reply = Unknown(message="others keep changing the PodGroup")
        for _ in range(READS_MAX):
            group = await _read(errand)
            if not isinstance(group, _Group):
                return group
            if group.metadata.uid != request.uid:
                return Refused(code="Conflict", message=f"its uid is not {request.uid}")
            standing = (group.status or _Status()).conditions or []
            if any(_says(one, request) for one in standing):
                return Done()
            reply = await self._write(errand, request, group.metadata, standing)
            if not isinstance(reply, Refused) or reply.code != "Conflict":
                return reply
        return reply

    async def _write(
        self,
        errand: Errand,
        request: GroupConditionRequest,
        metadata: _Metadata,
        standing: list[Condition],
    ) -> Reply:
        told = self._condition(request)
        is_new = all(one.get("type") != request.type for one in standing)
        conditions = [told if one.get("type") == request.type else one for one in standing]
        if is_new:
            conditions.append(told)
        patch = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion},
            "status": {"conditions": conditions},
        }
        return await self._patch(
            errand,
            patch,
            lambda status: any(_says(one, request) for one in status.conditions or ()),
        )

    def _condition(self, request: GroupConditionRequest) -> Condition:
        return {
            "type": request.type,
            "status": "True",
            # One for each writing: the position of the decision, by which it can be looked up.
            "transitionID": str(request.decision),
            "lastTransitionTime": seconds_of(self._now_ns()),
            "reason": request.reason,
            "message": request.message[:MESSAGE_MAX],
        }

    async def _patch(
        self, errand: Errand, patch: object, is_taken: Callable[[_Status], bool]
    ) -> Reply:
        """Patch the status, wherever it is."""
        body = msgspec.json.encode(patch)
        if not self._is_apart:
            reply = await answered(errand, PATCH_POD_GROUP, body, MERGE_PATCH)
            if not isinstance(reply, bytes):
                return reply
            if _shows(reply, is_taken):
                return Done()
            # The server took the patch and left the status out: it has become a subresource.
        reply = await answered(errand, PATCH_POD_GROUP_STATUS, body, MERGE_PATCH)
        if isinstance(reply, bytes):
            self._is_apart = True
            return Done()
        if not self._is_apart or not isinstance(reply, Refused) or reply.code != "NotFound":
            return reply
        # There is no such group, or no such subresource; the group itself tells.
        reply = await answered(errand, PATCH_POD_GROUP, body, MERGE_PATCH)
        if not isinstance(reply, bytes):
            return reply
        if not _shows(reply, is_taken):
            return Refused(code="Invalid", message="the PodGroup keeps no such status")
        self._is_apart = False
        return Done()


async def _read(errand: Errand) -> _Group | Refused | Unknown:
    raw = await answered(errand, GET_POD_GROUP)
    if not isinstance(raw, bytes):
        return raw
    try:
        return msgspec.json.decode(raw, type=_Group)
    except msgspec.DecodeError as error:
        return Unknown(message=f"the PodGroup cannot be read: {error}")


def _shows(raw: bytes, is_taken: Callable[[_Status], bool]) -> bool:
    try:
        return is_taken(msgspec.json.decode(raw, type=_Group).status or _Status())
    except msgspec.DecodeError:
        return False


def _says(condition: Condition, request: GroupConditionRequest) -> bool:
    """Whether a condition says what is asked for; its time and its id do not matter (B.14)."""
    wanted = {
        "type": request.type,
        "status": "True",
        "reason": request.reason,
        "message": request.message[:MESSAGE_MAX],
    }
    return all(condition.get(key) == value for key, value in wanted.items())
