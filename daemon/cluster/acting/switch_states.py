"""Write what each leaf switch is into a ConfigMap, for `kubectl describe`. Nothing reads it back."""

import msgspec

from daemon.cluster.acting.patching import answered
from daemon.cluster.acting.request_budget import MERGE_PATCH, RequestBudget
from daemon.cluster.client.calls import CREATE_SWITCH_STATES, PATCH_SWITCH_STATES
from events.messages import Accepted, Rejected, Reply, SwitchStatesRequest

KEY = "global-tor-info"
"""Key of the data."""


async def write_switch_states(budget: RequestBudget, request: SwitchStatesRequest) -> Reply:
    """Replace the text in the ConfigMap, or create the ConfigMap. Whoever writes last is right."""
    data = {KEY: request.content}
    patch = msgspec.json.encode({"data": data})
    reply = await answered(budget, PATCH_SWITCH_STATES, patch, MERGE_PATCH)
    if isinstance(reply, Rejected) and reply.code == "NotFound":
        metadata = {"name": request.name, "namespace": request.namespace}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        reply = await answered(budget, CREATE_SWITCH_STATES, msgspec.json.encode(document))
    return Accepted() if isinstance(reply, bytes) else reply
