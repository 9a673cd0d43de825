"""Write ConfigMaps that people and other programs read: what leaf switches are, faults, restarts. muster reads none back."""

import msgspec

from daemon.cluster.acting.patching import answered
from daemon.cluster.acting.request_budget import MERGE_PATCH, RequestBudget
from daemon.cluster.client.calls import CREATE_CONFIG_MAP, PATCH_CONFIG_MAP
from events.messages import Accepted, ConfigMapRequest, Rejected, Reply


async def write_config_map(budget: RequestBudget, request: ConfigMapRequest) -> Reply:
    """Replace keys of a ConfigMap, or create it. Whoever writes last is right; other keys stay."""
    patch = msgspec.json.encode({"data": request.data})
    call = PATCH_CONFIG_MAP[request.namespace, request.name]
    reply = await answered(budget, call, patch, MERGE_PATCH)
    if isinstance(reply, Rejected) and reply.code == "NotFound":
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": request.name, "namespace": request.namespace},
            "data": request.data,
        }
        create = CREATE_CONFIG_MAP[request.namespace]
        reply = await answered(budget, create, msgspec.json.encode(document))
    return Accepted() if isinstance(reply, bytes) else reply
