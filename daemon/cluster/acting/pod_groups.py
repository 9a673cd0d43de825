"""Update the status of PodGroups: phase, counts and conditions (volcano B.14).

The status of a PodGroup is a subresource in some releases of the CRD and part of the object in others. The first
answer shows which, and is remembered until an answer shows otherwise.
"""

from collections.abc import Callable

from daemon.cluster.acting.custom_resource_status import (
    Change,
    Status,
    Write,
    change_status,
    says_all,
)
from daemon.cluster.acting.k8s_time import seconds_of
from daemon.cluster.acting.patching import answered
from daemon.cluster.acting.pod_status import MESSAGE_MAX
from daemon.cluster.acting.request_budget import MERGE_PATCH, RequestBudget
from daemon.cluster.client.calls import GET_POD_GROUP, PATCH_POD_GROUP, PATCH_POD_GROUP_STATUS
from events.messages import (
    Accepted,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    Rejected,
    Reply,
)
from projections.group_facts import CONDITIONS, UNSCHEDULABLE

Condition = dict[str, object]


class GroupTeller:
    """Updates PodGroups. Time comes from the given clock."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._is_apart = True
        """Whether the status is a subresource, as far as known."""

    async def update_phase(self, budget: RequestBudget, request: PodGroupPhaseRequest) -> Reply:
        """Set the phase, and how many pods run or have ended; an admission ends the refusal before it."""
        now = seconds_of(self._now_ns())

        def change(status: Status) -> Status | None:
            changes = _counts(status, request)
            if status.get("phase") != request.phase:
                changes = {"phase": request.phase, **changes}
            if request.ends_refusal and any(_refuses(one) for one in _conditions(status)):
                changes["conditions"] = [
                    _ended(one, now) if _refuses(one) else one for one in _conditions(status)
                ]
            return changes or None

        return await change_status(
            budget, GET_POD_GROUP, request.uid, change, self._to(budget, change)
        )

    async def update_counts(self, budget: RequestBudget, request: PodGroupCountsRequest) -> Reply:
        """Set how many pods run or have ended."""

        def change(status: Status) -> Status | None:
            return _counts(status, request) or None

        return await change_status(
            budget, GET_POD_GROUP, request.uid, change, self._to(budget, change)
        )

    async def update_condition(
        self, budget: RequestBudget, request: PodGroupConditionRequest
    ) -> Reply:
        """Set one condition, end its opposite, and keep the conditions of other writers."""
        wanted = self._condition(request)

        def change(status: Status) -> Status | None:
            conditions = _conditions(status)
            others = [one for one in conditions if _contradicts(one, wanted)]
            if any(_equals(one, wanted) for one in conditions) and not others:
                return None
            at = wanted["lastTransitionTime"]
            kept = [_ended(one, at) if one in others else one for one in conditions]
            return {"conditions": _with(kept, wanted)}

        return await change_status(
            budget, GET_POD_GROUP, request.uid, change, self._to(budget, change)
        )

    def _condition(self, request: PodGroupConditionRequest) -> Condition:
        return {
            "type": request.type,
            "status": "True",
            # The position of the decision identifies each write.
            "transitionID": str(request.decision),
            "lastTransitionTime": seconds_of(self._now_ns()),
            "reason": request.reason,
            "message": request.message[:MESSAGE_MAX],
        }

    def _to(self, budget: RequestBudget, change: Change) -> Write:
        async def write(body: bytes) -> Reply:
            return await self._patch(budget, body, change)

        return write

    async def _patch(self, budget: RequestBudget, body: bytes, change: Change) -> Reply:
        """Patch the status, as subresource or part of the object."""
        if not self._is_apart:
            reply = await answered(budget, PATCH_POD_GROUP, body, MERGE_PATCH)
            if not isinstance(reply, bytes):
                return reply
            if says_all(reply, change):
                return Accepted()
            # The server took the patch and dropped the status: it has become a subresource. Nothing
            # was changed, so the version of the object is still the one that was read.
        reply = await answered(budget, PATCH_POD_GROUP_STATUS, body, MERGE_PATCH)
        if isinstance(reply, bytes):
            self._is_apart = True
            return Accepted()
        if not self._is_apart or not isinstance(reply, Rejected) or reply.code != "NotFound":
            return reply
        # Either the group or the subresource is missing; reading the group shows which.
        reply = await answered(budget, PATCH_POD_GROUP, body, MERGE_PATCH)
        if not isinstance(reply, bytes):
            return reply
        if not says_all(reply, change):
            return Rejected(code="Invalid", message="the PodGroup keeps no such status")
        self._is_apart = False
        return Accepted()


def _counts(status: Status, request: PodGroupPhaseRequest | PodGroupCountsRequest) -> Status:
    """The counts that differ from a status; a missing one is 0."""
    counts = {
        "running": request.running,
        "succeeded": request.succeeded,
        "failed": request.failed,
    }
    return {name: count for name, count in counts.items() if (status.get(name) or 0) != count}


def _conditions(status: Status) -> list[Condition]:
    standing = status.get("conditions")
    if not isinstance(standing, list):
        return []
    return [one for one in standing if isinstance(one, dict)]


def _with(conditions: list[Condition], wanted: Condition) -> list[Condition]:
    """The conditions with one replaced by type, or appended."""
    if all(one.get("type") != wanted["type"] for one in conditions):
        return [*conditions, wanted]
    return [wanted if one.get("type") == wanted["type"] else one for one in conditions]


def _refuses(condition: Condition) -> bool:
    """Return True for the condition that the group cannot be scheduled, if it is true."""
    return condition.get("type") == UNSCHEDULABLE and condition.get("status") == "True"


def _ended(condition: Condition, at: object) -> Condition:
    """Return the condition as no longer true since `at`."""
    return {**condition, "status": "False", "lastTransitionTime": at}


def _contradicts(condition: Condition, wanted: Condition) -> bool:
    """Return True for the opposite of the scheduler's two conditions, if it is true."""
    is_other = condition.get("type") in CONDITIONS and condition.get("type") != wanted["type"]
    return is_other and condition.get("status") == "True"


def _equals(condition: Condition, wanted: Condition) -> bool:
    """Return True if a condition is as wanted, apart from time and id (B.14)."""
    compared = ("type", "status", "reason", "message")
    return all(condition.get(key) == wanted[key] for key in compared)
