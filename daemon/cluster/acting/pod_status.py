"""Telling pods and queues what muster thinks of them, in their status (K7.7, K13).

No patch can reach another object of the same name, and each bears only the keys that change. Status goes
through the `status` subresource (K13.2).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from daemon.cluster.acting.custom_resource_status import Status, change_status, writes_to
from daemon.cluster.acting.k8s_time import seconds_of
from daemon.cluster.acting.patching import answered
from daemon.cluster.acting.request_budget import STRATEGIC_MERGE_PATCH, RequestBudget
from daemon.cluster.client.calls import GET_QUEUE, PATCH_POD_STATUS, PATCH_QUEUE_STATUS
from events.messages import ConditionRequest, Done, QueueStatusRequest, Refused, Reply

MESSAGE_MAX: Final = 32_768
"""Characters of a condition's message; Kubernetes allows no more where it sets a limit at all."""

TOLD_MAX: Final = 20_000
"""Pods that are remembered as told; the ones told longest ago are forgotten first."""

NOTHING_ALLOCATED: Final = {"cpu": "0", "memory": "0"}
"""The least that a Queue's `allocated` holds: the field is required there, and may not be empty."""


class PodStatusWriter:
    """Tells pods why they wait.

    It remembers whom it told, so as to leave the time of the condition alone while only its text
    changes, and to take back a nomination that it made. Both are lost when the daemon restarts, at the
    price of a newer time.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._told: dict[str, str] = {}
        """UID to the node that the pod was nominated for, or nothing."""

    async def write(self, budget: RequestBudget, request: ConditionRequest) -> Reply:
        """Set the condition PodScheduled to False, and the nominated node where there is one."""
        body = self._patch_of(request)
        reply = await answered(budget, PATCH_POD_STATUS, body, STRATEGIC_MERGE_PATCH)
        if not isinstance(reply, bytes):
            if isinstance(reply, Refused):
                self._told.pop(request.uid, None)
            return reply
        self._told.pop(request.uid, None)
        self._told[request.uid] = request.nominated_node
        if len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return Done()

    def _patch_of(self, request: ConditionRequest) -> bytes:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": request.reason,
            "message": request.message[:MESSAGE_MAX],
        }
        if request.uid not in self._told:
            condition["lastTransitionTime"] = seconds_of(self._now_ns())
        status: dict[str, object] = {"conditions": [condition]}
        if request.nominated_node:
            status["nominatedNodeName"] = request.nominated_node
        elif self._told.get(request.uid):
            status["nominatedNodeName"] = None
        return msgspec.json.encode({"metadata": {"uid": request.uid}, "status": status})


async def update_queue_status(budget: RequestBudget, request: QueueStatusRequest) -> Reply:
    """Set what is allocated in a queue, and take out what is no longer there: a merge would keep it."""
    allocated = {**NOTHING_ALLOCATED, **request.allocated}

    def change(status: Status) -> Status | None:
        standing = status.get("allocated")
        if standing == allocated:
            return None
        before = standing if isinstance(standing, dict) else {}
        return {"allocated": {**dict.fromkeys(before), **allocated}}

    write = writes_to(budget, PATCH_QUEUE_STATUS)
    return await change_status(budget, GET_QUEUE, request.uid, change, write)
