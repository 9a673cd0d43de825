"""What the API server is and serves, asked of it and not guessed from its version (rule K19)."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from daemon.cluster.client.calls import CALLS
from daemon.cluster.client.errors import NotFoundError
from daemon.cluster.watching.client_protocol import ApiClient
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.watch_event import UnreadableEventError
from events.watch import ServerDiscovered
from projections.api_resource import Resource
from projections.kinds.hyper_node import HYPER_NODES
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.kinds.workload import VOLCANO_JOBS

FEATURES: Final[Mapping[str, str]] = {
    "volcano_queues": QUEUES.discovery_name,
    "volcano_pod_groups": POD_GROUPS.discovery_name,
    "volcano_jobs": VOLCANO_JOBS.discovery_name,
    "hyper_nodes": HYPER_NODES.discovery_name,
    "workloads": "scheduling.k8s.io/v1alpha1/workloads",
    "resource_claims": "resource.k8s.io/v1/resourceclaims",
}
"""What a cluster may have, and the resource by which that is known."""

GROUPS: Final = frozenset(
    {call.resource.group for call in CALLS} | {path.split("/")[0] for path in FEATURES.values()}
)
"""API groups whose resources are asked for; `` is the core group, `/api/v1`."""


class _Version(Struct):
    gitVersion: str  # noqa: N815


class _Groups(Struct):
    class Group(Struct):
        class Version(Struct):
            groupVersion: str  # noqa: N815

        name: str
        versions: list[Version] = []

    groups: list[Group] = []


class _Resources(Struct):
    class Resource(Struct):
        name: str

    resources: list[Resource] = []


T = TypeVar("T")

_version: Final = msgspec.json.Decoder(_Version)
_groups: Final = msgspec.json.Decoder(_Groups)
_resources: Final = msgspec.json.Decoder(_Resources)


async def discover(server: ApiClient, rate_limit: RateLimit) -> ServerDiscovered:
    """The server's version, and the resources it serves of the groups that matter here."""
    version = _decode(_version, await _get(server, rate_limit, "/version"), "/version").gitVersion
    served: set[str] = set()
    for one in ("v1", *await _group_versions(server, rate_limit)):
        try:
            plurals = await _plurals(server, rate_limit, one)
        except NotFoundError:
            continue  # Went away since the groups were listed.
        served |= {f"{one}/{plural}" for plural in plurals}
    return ServerDiscovered(version=version, served=tuple(sorted(served)))


async def is_served(server: ApiClient, rate_limit: RateLimit, resource: Resource) -> bool:
    """Whether discovery knows a resource whose list was answered with 404.

    A 404 alone does not tell: proxies give them too, and what is not served counts as deleted.
    """
    version = resource.api_version
    if resource.group and version not in await _group_versions(server, rate_limit):
        return False
    return resource.plural in await _plurals(server, rate_limit, version)


def features(served: Iterable[str]) -> tuple[str, ...]:
    """The switches that follow from what is served."""
    there = set(served)
    return tuple(name for name, resource in FEATURES.items() if resource in there)


async def _group_versions(server: ApiClient, rate_limit: RateLimit) -> list[str]:
    """`group/version` of each group that matters here."""
    groups = _decode(_groups, await _get(server, rate_limit, "/apis"), "/apis").groups
    return [one.groupVersion for group in groups if group.name in GROUPS for one in group.versions]


async def _plurals(server: ApiClient, rate_limit: RateLimit, version: str) -> set[str]:
    """The resources of a group's version, without their parts."""
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    resources = _decode(_resources, await _get(server, rate_limit, path), path).resources
    return {one.name for one in resources if "/" not in one.name}


async def _get(server: ApiClient, rate_limit: RateLimit, path: str) -> bytes:
    await rate_limit.admit()
    return await server.get(path)


def _decode(decoder: "msgspec.json.Decoder[T]", body: bytes, path: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise UnreadableEventError(f"{path}: not what the API says it is: {error}") from error
