"""A shadow of kube-scheduler on a real API server, whose audit log says what the shadow asked for."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from daemon.cluster.client.calls import SHADOW_CALLS
from daemon.cluster.client.rbac import NAME, cluster_rules
from daemon.log.opening import open_log
from daemon.queries.replay import replay_log
from daemon.queries.shadow_report import shadow_report
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import Api, Object
from tests.control_plane.cluster import Cluster, own_plane
from tests.control_plane.manifests import GPU, GPU_NAME, node, pod
from tests.control_plane.setup import BINDINGS, CLUSTER_ROLES, NAMESPACE, ROLES
from tests.e2e.daemon import Daemon

NODE_COUNT: Final = 260
POD_COUNT: Final = 2_000
EACH: Final = POD_COUNT // 2
AT_ONCE: Final = 64
PATIENCE_SECONDS: Final = 120.0
SHADOW: Final = f"system:serviceaccount:{NAMESPACE}:{NAME}"
SCHEDULER: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "%s", qps: 10000, burst: 10000}
"""


@pytest.fixture
def audited() -> Iterator[Cluster]:
    """A cluster whose API server logs each request."""
    with own_plane(has_controllers=False, is_audited=True) as cluster:
        yield cluster


async def only_the_role_of_a_shadow(api: Api) -> None:
    """Let muster's account do what a shadow's role says."""
    rules = [rule.document() for rule in cluster_rules(SHADOW_CALLS)]
    metadata = {"metadata": {"name": NAME}}
    head = {"apiVersion": CLUSTER_ROLES.api_version, "kind": CLUSTER_ROLES.kind}
    await api.apply(CLUSTER_ROLES, {**head, **metadata, "rules": rules})
    for kind in (BINDINGS, ROLES):
        for one in await api.items(kind.path):
            if one["metadata"]["name"] == NAME:
                path = kind.object_path(NAME, one["metadata"]["namespace"])
                (await api.delete(path)).expect(200)


def queue(name: str, cards: int) -> Object:
    quota = json.dumps({GPU_NAME: cards})
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name, "annotations": {"volcano.sh/card.quota": quota}},
        "spec": {"weight": 1, "capability": {"cpu": "100000", "memory": "1000Ti"}},
    }


def card_pod(name: str, in_queue: str = "wide", group: str = "") -> Object:
    one = pod("default", name, cards=1, product=GPU, schedulerName="default-scheduler")
    one["metadata"]["annotations"] = {
        "scheduling.volcano.sh/queue-name": in_queue,
        "volcano.sh/card.name": GPU_NAME,
    } | ({"scheduling.k8s.io/group-name": group} if group else {})
    return one


async def make(api: Api, path: str, manifests: list[Object]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def post(manifest: Object) -> None:
        async with limit:
            (await api.post(path, manifest)).expect(201)

    await asyncio.gather(*(post(one) for one in manifests))


async def until_placed(api: Api, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            pods = await api.items(PODS.collection_path("default"))
            if sum(bool(one["spec"].get("nodeName")) for one in pods) == count:
                return
            await asyncio.sleep(0.5)


@asynccontextmanager
async def shadowing(cluster: Cluster, folder: Path) -> AsyncIterator[Daemon]:
    options = ("--shadow", "--of", "default-scheduler")
    shadow = Daemon(folder, cluster.muster, str(folder / "shadow.db"), options, period_seconds=0.2)
    await shadow.start()
    try:
        await shadow.until_ready("shadow")
        yield shadow
        await shadow.stop()
    finally:
        await shadow.kill()


async def decided(shadow: Daemon, count: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while shadow.told.count('"gang bind decided"') < count:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def requests_of(audit_log: Path, user: str) -> list[Mapping[str, Any]]:
    entries = [json.loads(line) for line in audit_log.read_text().splitlines()]
    return [one for one in entries if one["user"]["username"] == user]


async def test_a_shadow_of_kube_scheduler_writes_nothing_and_its_account_adds_up(
    audited: Cluster, tmp_path: Path
) -> None:
    assert audited.plane is not None
    config = tmp_path / "kube-scheduler.yaml"
    config.write_text(SCHEDULER % audited.admin, encoding="utf-8")
    async with Api.of(audited.admin) as api:
        await only_the_role_of_a_shadow(api)
        await make(api, NODES.path, [node(f"node-{index:03}") for index in range(NODE_COUNT)])
        await make(api, QUEUES.path, [queue("wide", 8 * NODE_COUNT), queue("small", 10)])
        gang = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {"name": "gang", "namespace": "default"},
            "spec": {"minMember": 4, "queue": "wide"},
        }
        await api.create(POD_GROUPS, gang)
        pods = PODS.collection_path("default")
        await make(api, pods, [card_pod(f"first-{index:04}") for index in range(EACH)])
        async with shadowing(audited, tmp_path) as shadow:
            await decided(shadow, EACH)
            audited.plane.start_scheduler("--config", str(config))
            try:
                second = [card_pod(f"gang-{index}", group="gang") for index in range(3)]
                second += [card_pod(f"small-{index:02}", "small") for index in range(20)]
                second += [card_pod(f"second-{index:04}") for index in range(EACH - 23)]
                await make(api, pods, second)
                await until_placed(api, POD_COUNT)
                await asyncio.sleep(2)
            finally:
                audited.plane.stop_scheduler()
    assert audited.plane.audit_log is not None
    asked = requests_of(audited.plane.audit_log, SHADOW)
    verbs = Counter(one["verb"] for one in asked)
    assert set(verbs) == {"get", "list", "watch"}, verbs
    assert all("objectRef" not in one for one in asked if one["verb"] == "get"), "not discovery"
    log = await open_log(str(tmp_path / "shadow.db"))
    try:
        replayed = await replay_log(log)
        report = await shadow_report(log)
    finally:
        await log.close()
    assert replayed.divergence is None
    classes = {row.name: row.pods for row in report.classes}
    assert sum(classes.values()) == report.pods == POD_COUNT
    assert classes["earlier"] >= EACH * 9 // 10, classes
    assert classes["neither"] == classes["only muster"] == classes["already placed"] == 0
    assert [(one.queue, one.resource, one.peak) for one in report.overruns] == [
        ("small", GPU_NAME, 20)
    ]
    assert [(one.pod_group, one.most, one.ended) for one in report.half_gangs] == [
        ("default/gang", 3, "open")
    ]
    assert report.lost_card_hours > 0
