"""What a tenant with rights in its own namespaces does to others, on a real API server.

Meanwhile a neighbour's canaries are created, twice a second, on the same nodes: pods that ask for CPU, for a GPU, for a half of a shared
GPU, for an Ascend chip. Each must have its node within 2 s of its creation; no pod of the neighbour may be evicted or rejected by a kubelet;
`/readyz` must answer. With `-s` each test prints how long canaries waited: number, median and longest of each sort.

The API server, the daemon and the test share a machine. To the 2 s of a canary is added what the machine took for it: three times what its
creation, or its first watch event, took the test, where that is more than a quarter of a second; and the time during which threads of the
daemon were ready to run and got no CPU, as the kernel counts it: what is left is what the daemon would take on a machine of its own. How many canaries took more than 2 s, and how many of these were granted it, is printed.

`make test-e2e` runs nine of the attacks once each: four under the policy with all actions and plugins on SQLite; one under each of the other
policies (pools of the deciders `priority` and `fair_share`, hierarchical `drf`, `capacity-card`); and one on PostgreSQL. `make soak` runs the others: each
attack under each policy to which it can do something, on SQLite and on PostgreSQL.

Not here: tens of thousands of stalled handshakes (`tests/daemon/serving`), logs that lost their end, and the ValidatingAdmissionPolicies: the
attacks are made without them, so what is shown is what the scheduler itself holds.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from msgspec import Struct

from projections.api_resource import Resource
from projections.kinds.pod import PODS
from projections.kinds.priority_class import PRIORITY_CLASSES
from projections.kinds.volcano_queue import QUEUES
from tests.checkout import ROOT
from tests.control_plane.api import GONE, Object
from tests.control_plane.cluster import Cluster, prepared
from tests.control_plane.kubelet import amounts_of
from tests.control_plane.manifests import CARD, pod
from tests.control_plane.program import free_ports
from tests.e2e.daemon import TOLD, Daemon
from tests.e2e.device_plugin import DevicePlugins
from tests.e2e.hostile_tenant import tenant_of
from tests.e2e.log_times import log_times
from tests.e2e.neighbour import ACCELERATOR, SHARING, Neighbour, Observed
from tests.e2e.rig import Rig, node_of, rigged
from tests.e2e.tenant_attacks import (
    ATTACKS,
    CHIPS,
    NODES_COUNT,
    PLUGIN_SECONDS,
    Attack,
    Scene,
    priority_class,
)
from tests.e2e.tenant_policies import ALL, POLICIES, Policy, queue
from tests.integration.postgres.conftest import database, started
from tests.integration.postgres.server import Server

NAMESPACES: Final = 6
"""Of the attacker."""
STEADY_PODS: Final = 6
PROBE_SECONDS: Final = 0.25
ANSWER_SECONDS_MAX: Final = 2.0
"""The longest that an answer of `/readyz` may take."""

_numbers = count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """One cluster for all attacks."""
    with prepared() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server."""
    server = started()
    yield server
    server.close()


@pytest.fixture
async def postgresql(server: Server) -> AsyncIterator[str]:
    """The address of a log on PostgreSQL."""
    async with database(server, f"tenants_{next(_numbers)}") as url:
        yield url


@pytest.fixture
async def rig(shared: Cluster, tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig on the shared cluster."""
    async with rigged(shared, tmp_path) as rig:
        yield rig


def named(one: Attack | Policy) -> str:
    """The name of a parameter."""
    return one.name.replace(" ", "-")


SHORT_OF_ALL: Final = ("late annotations", "chips denied", "hopeless pods", "large guarantee")
"""The attacks that `make test-e2e` runs under the policy with all actions and plugins."""


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(
            one, id=named(one), marks=[] if one.name in SHORT_OF_ALL else [pytest.mark.soak]
        )
        for one in ATTACKS
    ],
)
async def test_an_attack_leaves_others_scheduled_with_every_action_and_plugin(
    rig: Rig, attack: Attack
) -> None:
    await survive(rig, attack, ALL)


PAIRS: Final = [
    (attack, policy)
    for policy in POLICIES
    for attack in ATTACKS
    if policy is not ALL and attack.is_for(policy)
]
SHORT: Final = {
    "priority": "privileged keys",
    "fair_share": "hoarding",
    "hierarchical drf": "preemptions",
    "capacity-card": "empty groups",
}
"""The attack that `make test-e2e` runs under each of the other policies."""


def pairs() -> list[object]:
    """The pairs of attack and policy; those that `make test-e2e` leaves out are marked."""
    return [
        pytest.param(
            *pair,
            id=f"{named(pair[0])}-{named(pair[1])}",
            marks=[] if SHORT[pair[1].name] == pair[0].name else [pytest.mark.soak],
        )
        for pair in PAIRS
    ]


@pytest.mark.parametrize(("attack", "policy"), pairs())
async def test_an_attack_leaves_others_scheduled_under_other_policies(
    rig: Rig, attack: Attack, policy: Policy
) -> None:
    await survive(rig, attack, policy)


@pytest.mark.postgres
async def test_an_attack_leaves_others_scheduled_with_a_log_on_postgresql(
    rig: Rig, postgresql: str
) -> None:
    (attack,) = (one for one in ATTACKS if one.name == "misfits")
    await survive(rig, attack, ALL, postgresql)


@pytest.mark.soak
@pytest.mark.postgres
@pytest.mark.parametrize("policy", POLICIES, ids=named)
@pytest.mark.parametrize("attack", ATTACKS, ids=named)
async def test_every_attack_leaves_others_scheduled_with_a_log_on_postgresql(
    rig: Rig, postgresql: str, attack: Attack, policy: Policy
) -> None:
    if not attack.is_for(policy):
        pytest.skip("it can do nothing under this policy")
    await survive(rig, attack, policy, postgresql)


async def test_a_tenant_has_no_rights_outside_its_namespaces(rig: Rig) -> None:
    """Otherwise the attacks would show nothing."""
    async with tenant_of(rig, "his") as tenant:
        await tenant.pod("own")
        manifest = pod(rig.namespace, "foreign")
        assert (await tenant.api.post(PODS.collection_path(rig.namespace), manifest)).status == 403
        assert (await tenant.api.post(QUEUES.path, queue("any"))).status == 403
        for resource in (QUEUES, Resource("Node", "nodes", is_namespaced=False)):
            patch = {"metadata": {"labels": {"a": "b"}}}
            assert (await tenant.api.patch(resource.object_path("any"), patch)).status == 403
        path = PODS.object_path("own", tenant.home, "status")
        assert (await tenant.api.patch(path, {"status": {"phase": "Failed"}})).status == 403


class Probes(Struct):
    """The answers of `/readyz`."""

    count: int = 0
    slowest: float = 0.0
    """Seconds that the slowest answer took."""
    missing: int = 0
    """Probes without any answer."""
    said: set[str] = set()
    """The answers other than ready."""


async def survive(rig: Rig, attack: Attack, policy: Policy, log: str | None = None) -> None:
    """Attack one daemon in one way.

    Raises:
        AssertionError: a canary waited, a pod of the neighbour was evicted or rejected, or the daemon did not answer.
    """
    async with AsyncExitStack() as stack:
        scene, daemon = await arrange(stack, rig, attack, policy, log)
        neighbour = scene.neighbour
        now = asyncio.get_running_loop().time
        async with neighbour.watched() as quiet:
            await asyncio.sleep(5.0)
        probes = Probes()
        async with probed(daemon, probes), neighbour.watched(*attack.forms) as observed:
            await attack.begin(scene)
        reasons = await why(scene, daemon, observed)
        observed.evicted += await vanished(scene)
        times = await log_times(daemon.log, [f"{rig.namespace}/{one}" for one in observed.canaries])
        report(scene, attack, log, quiet, observed, probes, times)
        assert daemon.is_running, f"it is gone: {daemon.told[-TOLD:]}"
        assert "Traceback" not in daemon.told, daemon.told[-TOLD:]
        faults = [f"before: {one}" for one in quiet.faults(now())] + observed.faults(now())
        faults += scene.faults
        if probes.missing or probes.slowest > ANSWER_SECONDS_MAX:
            faults.append(
                f"/readyz: {probes.missing} without answer, slowest {probes.slowest:.1f} s"
            )
        assert not faults, "\n".join([*faults, *reasons])


async def why(scene: Scene, daemon: Daemon, observed: Observed) -> list[str]:
    """What `muster why` says of the first canary of each form that still waits."""
    asked: dict[str, str] = {}
    for name, one in observed.canaries.items():
        if not one.bound:
            asked.setdefault(one.form, name)
    found: list[str] = []
    for name in asked.values():
        words = ["-m", "daemon", "why", f"{scene.rig.namespace}/{name}", "--log", daemon.log]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        found.append(output.decode()[:TOLD])
    return found


async def vanished(scene: Scene) -> list[str]:
    """The neighbour's pods that should run all the time and do not."""
    running = {one["metadata"]["name"] for one in await scene.rig.pods() if node_of(one)}
    expected = {f"steady-{index}" for index in range(STEADY_PODS)} | {"steady-chip"}
    return sorted(expected - running)


async def arrange(
    stack: AsyncExitStack, rig: Rig, attack: Attack, policy: Policy, log: str | None
) -> tuple[Scene, Daemon]:
    """Nodes, queues, two tenants, and a daemon under the policy that leads."""
    hers, his = f"{rig.namespace}-hers", f"{rig.namespace}-his"
    tenant = await stack.enter_async_context(tenant_of(rig, "his", NAMESPACES))
    neighbour = Neighbour(rig, hers)
    plugins = DevicePlugins(rig.api, CHIPS, is_collected=False, has_reports=attack.has_reports)
    scene = Scene(
        rig=rig,
        policy=policy,
        tenant=tenant,
        neighbour=neighbour,
        plugins=plugins,
        own_queue=his,
        queues=[hers, his],
    )
    stack.push_async_callback(remove, scene)
    await rig.api.create(QUEUES, queue(hers))
    await rig.api.create(QUEUES, queue(his))
    await rig.api.create(
        PRIORITY_CLASSES,
        {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": priority_class(rig)},
            "value": 1_000,
        },
    )
    scene.plain = await rig.add_nodes(NODES_COUNT, cards=8)
    shared: dict[str, Any] = {SHARING: "true", "nvidia.com/gpu.memory": "80000"}
    (scene.sharing,) = await rig.add_nodes(1, prefix="sharing", **shared)
    ascend: dict[str, Any] = {ACCELERATOR: "huawei-Ascend910"}
    (scene.ascend,) = await rig.add_nodes(1, CHIPS, prefix="ascend", **ascend)
    await plugins.join(scene.ascend)

    async def allocate(pod: Object) -> str:
        has_chips = node_of(pod) == scene.ascend and amounts_of(pod)[CARD]
        return await plugins.allocate(pod) if has_chips else ""

    rig.kubelet.allocate = allocate
    await stack.enter_async_context(reporting(scene))
    path = rig.folder / "policy.yaml"
    users = {hers: [rig.namespace], his: tenant.namespaces} if attack.is_bounded else {}
    path.write_text(json.dumps(policy.document(rig, users, attack.creation_timeout)))
    tenants, scene.tenants_port = certified(rig)
    daemon = rig.daemon(log=log, policy=str(path), **tenants, **attack.settings)
    await daemon.start()
    await daemon.until_ready()
    neighbour.starved = daemon.starved_seconds
    await neighbour.settle(STEADY_PODS)
    return scene, daemon


def certified(rig: Rig) -> tuple[dict[str, Any], int]:
    """The settings for questions of tenants over TLS, and their port."""
    (port,) = free_ports(1)
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(rig.folder / "tls.crt")
    certificate.private_key_pem.write_to_path(rig.folder / "tls.key")
    return {
        "tenants_listen": f"127.0.0.1:{port}",
        "tenants_certificate_file": str(rig.folder / "tls.crt"),
        "tenants_key_file": str(rig.folder / "tls.key"),
    }, port


async def remove(scene: Scene) -> None:
    """Remove what outlives the namespaces."""
    await scene.tenant.clear()
    for name in scene.queues:
        await scene.rig.api.delete(QUEUES.object_path(name))
    await scene.rig.api.delete(PRIORITY_CLASSES.object_path(priority_class(scene.rig)))


@asynccontextmanager
async def reporting(scene: Scene) -> AsyncIterator[None]:
    """Let the device plugin report its chips again and again, meanwhile."""

    async def run() -> None:
        while True:
            await asyncio.sleep(PLUGIN_SECONDS)
            with suppress(*GONE):
                await scene.plugins.collect(scene.ascend)

    async with asyncio.TaskGroup() as group:
        work = group.create_task(run())
        try:
            yield
        finally:
            work.cancel()


@asynccontextmanager
async def probed(daemon: Daemon, probes: Probes) -> AsyncIterator[None]:
    """Ask `readyz` for as long as the block lasts."""
    now = asyncio.get_running_loop().time

    async def run() -> None:
        while True:
            begun = now()
            answer = await daemon.readiness()
            probes.count += 1
            probes.missing += not answer
            probes.slowest = max(probes.slowest, now() - begun)
            if answer and not answer.get("ready"):
                probes.said.add(json.dumps(answer))
            await asyncio.sleep(PROBE_SECONDS)

    async with asyncio.TaskGroup() as group:
        work = group.create_task(run())
        try:
            yield
        finally:
            work.cancel()


def report(
    scene: Scene,
    attack: Attack,
    log: str | None,
    quiet: Observed,
    observed: Observed,
    probes: Probes,
    times: str,
) -> None:
    """Print the figures."""
    now = asyncio.get_running_loop().time()
    lines: Sequence[str] = [
        f"{attack.name}, {scene.policy.name}, {'PostgreSQL' if log else 'SQLite'}",
        f"  before: {quiet.distribution(now)}",
        f"  during: {observed.distribution(now)}",
        f"  in the log: {times}",
        f"  /readyz: {probes.count} probes, slowest {probes.slowest:.2f} s, {sorted(probes.said)}",
        *(f"  {one}" for one in scene.notes),
        *(f"  forbidden: {one}" for one in sorted(set(scene.tenant.denied))),
    ]
    print("\n".join(["", *lines]))  # noqa: T201 - figures, with -s
