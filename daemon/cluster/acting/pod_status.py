"""Update the status of pods and queues (K7.7, K13).

No patch can reach another object of the same name, and each holds only the changed keys. It goes through the `status`
subresource (K13.2).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from daemon.cluster.acting.custom_resource_status import Status, change_status
from daemon.cluster.acting.k8s_time import seconds_of
from daemon.cluster.acting.patching import answered, patches
from daemon.cluster.acting.request_budget import STRATEGIC_MERGE_PATCH, RequestBudget
from daemon.cluster.client.calls import GET_QUEUE, PATCH_POD_STATUS, PATCH_QUEUE_STATUS
from events.messages import Accepted, PodConditionRequest, QueueStatusRequest, Rejected, Reply

MESSAGE_MAX: Final = 32_768
"""Characters of a condition's message; Kubernetes allows no more where it sets a limit at all."""

NOMINATED_MAX: Final = 20_000
"""Pods whose reported condition is remembered; the oldest are forgotten first."""

NOTHING_ALLOCATED: Final = {"cpu": "0", "memory": "0"}
"""The least that a Queue's `allocated` holds: the field is required there, and may not be empty."""


class PodStatusWriter:
    """Writes the condition of waiting pods.

    It remembers the conditions that it wrote, to keep their transition time while only the message changes, and to
    remove a nomination that it made. Both are lost at a restart, which only gives a newer time.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._nominated: dict[str, str] = {}
        """UID to the node for which the pod was nominated, or nothing."""

    async def write(self, budget: RequestBudget, request: PodConditionRequest) -> Reply:
        """Set the condition PodScheduled to False, and the nominated node if there is one."""
        body = self._patch_of(request)
        reply = await answered(budget, PATCH_POD_STATUS, body, STRATEGIC_MERGE_PATCH)
        if not isinstance(reply, bytes):
            if isinstance(reply, Rejected):
                self._nominated.pop(request.uid, None)
            return reply
        self._nominated.pop(request.uid, None)
        self._nominated[request.uid] = request.nominated_node
        if len(self._nominated) > NOMINATED_MAX:
            del self._nominated[next(iter(self._nominated))]
        return Accepted()

    def _patch_of(self, request: PodConditionRequest) -> bytes:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": request.reason,
            "message": request.message[:MESSAGE_MAX],
        }
        if request.uid not in self._nominated:
            condition["lastTransitionTime"] = seconds_of(self._now_ns())
        status: dict[str, object] = {"conditions": [condition]}
        if request.nominated_node:
            status["nominatedNodeName"] = request.nominated_node
        elif request.clears_nomination or self._nominated.get(request.uid):
            status["nominatedNodeName"] = None
        return msgspec.json.encode({"metadata": {"uid": request.uid}, "status": status})


async def update_queue_status(budget: RequestBudget, request: QueueStatusRequest) -> Reply:
    """Set the allocated amounts of a queue, and remove those that are gone: a merge would keep them."""
    allocated = {**NOTHING_ALLOCATED, **request.allocated}

    def change(status: Status) -> Status | None:
        standing = status.get("allocated")
        if standing == allocated:
            return None
        before = standing if isinstance(standing, dict) else {}
        return {"allocated": {**dict.fromkeys(before), **allocated}}

    write = patches(budget, PATCH_QUEUE_STATUS)
    return await change_status(budget, GET_QUEUE, request.uid, change, write)
