"""`muster group`: jobs are changed through the API server, by objects that their owners cannot write."""

import asyncio
import json
from collections.abc import AsyncIterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from daemon.cli.group_operations import decimal_text, place_beside
from daemon.cluster.group_overrides import Job, Member
from daemon.cluster.server.simulated_api_server import Server, running_server
from features.pools.group_overrides import override_name
from features.pools.job_options import read_job_options
from features.pools.override_kind import GROUP_OVERRIDES
from projections.job_option_keys import POSITION, PRIORITY
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from simulator.api_server.access_control import Rule, User
from simulator.api_server.api import Behaviour
from simulator.scenario import Scenario
from tests.checkout import ROOT
from tests.control_plane.api import Api, Object
from tests.control_plane.manifests import pod
from tests.control_plane.setup import NAMESPACES
from tests.daemon.cli.builders import documents, error_of, muster, scenario

ADMIN, MEMBER = "token-of-the-admin", "token-of-a-member"
NOW_NS = 2_000_000_000_000_000_000


class Cluster:
    """A simulated API server with one namespace, a client of it, and the command."""

    def __init__(self, server: Server, api: Api, folder: Path) -> None:
        self.server = server
        self.api = api
        self.admin = server.kubeconfig(folder / "admin.yaml", ADMIN)
        self.member = server.kubeconfig(folder / "member.yaml", MEMBER)

    def may(self, *rules: Rule) -> None:
        """Give the member these permissions."""
        self.server.access.tokens[MEMBER] = User("member", rules)

    async def group(
        self, name: str, namespace: str = "ml", priority_class: str = "", **annotations: str
    ) -> None:
        """Create a PodGroup. Annotations are named without their prefix, with `_` for `-`."""
        manifest = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": _annotations(annotations),
            },
            "spec": {"minMember": 1}
            | ({"priorityClassName": priority_class} if priority_class else {}),
        }
        await self.api.create(POD_GROUPS, manifest)

    async def pod(
        self, name: str, labels: dict[str, str] | None = None, **annotations: str
    ) -> Object:
        """Create a pod."""
        manifest = pod("ml", name)
        manifest["metadata"] |= {"labels": labels or {}, "annotations": _annotations(annotations)}
        return await self.api.create(PODS, manifest)

    async def set_by_operator(self, name: str, namespace: str = "ml") -> dict[str, Any]:
        """Return what is set for a pod group, without what it is for; nothing without an override."""
        path = GROUP_OVERRIDES.object_path(override_name(namespace, name))
        found = await self.api.get(path)
        if found.status == 404:
            return {}
        spec = dict(found.expect(200)["spec"])
        assert (spec.pop("namespace"), spec.pop("name")) == (namespace, name)
        assert spec.pop("uid")
        return spec

    async def place(self, name: str, position: str, namespace: str = "ml") -> None:
        """Let an operator put a PodGroup at a position."""
        found = (await self.api.get(POD_GROUPS.object_path(name, namespace))).expect(200)
        await self.place_uid(name, found["metadata"]["uid"], position, namespace)

    async def place_uid(self, name: str, uid: str, position: str, namespace: str = "ml") -> None:
        """Let an operator put a pod group with the object of this UID at a position."""
        manifest = {
            "apiVersion": GROUP_OVERRIDES.api_version,
            "kind": GROUP_OVERRIDES.kind,
            "metadata": {"name": override_name(namespace, name)},
            "spec": {"namespace": namespace, "name": name, "uid": uid, "position": position},
        }
        await self.api.create(GROUP_OVERRIDES, manifest)

    async def annotations(self, name: str, namespace: str = "ml") -> dict[str, str]:
        """Return what a PodGroup states, without prefixes."""
        path = POD_GROUPS.object_path(name, namespace)
        found = (await self.api.get(path)).expect(200)["metadata"].get("annotations") or {}
        return {key.removeprefix("muster.sh/"): value for key, value in found.items()}

    async def run(self, *words: str, kubeconfig: Path | None = None) -> Result:
        """Run a command in a thread, while the server answers."""
        files = ("--kubeconfig", str(kubeconfig or self.admin))
        return await asyncio.to_thread(muster, *words, *files)

    async def says(self, *words: str) -> str:
        """Run a command that succeeds, and return the line that it prints."""
        result = await self.run(*words)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()

    async def fails(self, code: int, *words: str, kubeconfig: Path | None = None) -> str:
        """Run a command that fails, and return its error."""
        result = await self.run(*words, kubeconfig=kubeconfig)
        assert result.exit_code == code, result.output
        return error_of(result)


def _annotations(given: dict[str, str]) -> dict[str, str]:
    return {f"muster.sh/{key.replace('_', '-')}": value for key, value in given.items()}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster."""
    behaviour = Behaviour(has_kubelets=False)
    async with running_server(Scenario(name="groups"), behaviour=behaviour) as server:
        server.access.tokens |= {ADMIN: User("admin"), MEMBER: User("member", ())}
        kubeconfig = server.kubeconfig(tmp_path / "api.yaml", ADMIN)
        async with Api.of(kubeconfig) as api:
            for name in ("ml", "other"):
                manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await api.create(NAMESPACES, manifest)
            yield Cluster(server, api, tmp_path)


async def test_a_change_is_written_to_an_object_of_its_own(cluster: Cluster) -> None:
    await cluster.group("a", priority="50", weight="2")
    said = await cluster.says("group", "set-priority", "ml/a", "80")
    assert said == "ml/a: priority 50 -> 80; queue position reset to the submission time"
    assert await cluster.set_by_operator("a") == {"priority": 80}
    assert await cluster.annotations("a") == {"priority": "50", "weight": "2"}
    said = await cluster.says("group", "set-weight", "ml/a", "3")
    assert said == "ml/a: weight 2 -> 3"
    assert await cluster.set_by_operator("a") == {"priority": 80, "weight": "3"}
    said = await cluster.says("group", "set-priority", "ml/a", "60")
    assert said.startswith("ml/a: priority 80 -> 60;")


async def test_a_new_priority_resets_a_position_that_the_job_states(cluster: Cluster) -> None:
    await cluster.group("a", queue_position="7", submitted_at="2026-01-01T00:00:00Z")
    await cluster.says("group", "set-priority", "ml/a", "80")
    position = Fraction((await cluster.set_by_operator("a"))["position"])
    assert position > 1767225600000000, "the submission time that it states does not count"


async def test_queue_has_the_operations_of_group_too(cluster: Cluster) -> None:
    await cluster.group("a")
    assert await cluster.says("queue", "set-weight", "ml/a", "2.50") == (
        "ml/a: weight not stated -> 2.5"
    )
    assert await cluster.set_by_operator("a") == {"weight": "2.5"}


async def test_a_cap_of_slots_is_set_and_removed(cluster: Cluster) -> None:
    await cluster.group("a", max_slots="4")
    await cluster.says("group", "set-max-slots", "ml/a", "0")
    assert await cluster.set_by_operator("a") == {"maxSlots": 0}
    assert await cluster.says("group", "set-max-slots", "ml/a", "none") == (
        "ml/a: max-slots 0 -> none"
    )
    assert await cluster.set_by_operator("a") == {"maxSlots": -1}
    assert await cluster.says("group", "set-max-slots", "ml/a", "2") == (
        "ml/a: max-slots none -> 2"
    )


async def test_a_move_beside_a_job_of_a_priority_class_says_that_its_priority_is_not_known(
    cluster: Cluster,
) -> None:
    await cluster.group("a", priority_class="high", priority="40")
    await cluster.group("b", priority="40")
    said = await cluster.says("group", "move", "ml/b", "--ahead-of", "ml/a")
    assert "its priority may differ from that of ml/a" in said
    assert "priority" not in await cluster.set_by_operator("b")


async def test_a_job_of_an_earlier_group_of_this_name_inherits_nothing(cluster: Cluster) -> None:
    await cluster.group("a")
    await cluster.says("group", "update", "ml/a.priority=80", "ml/a.weight=3")
    rows = documents(await cluster.run("group", "overrides", "--output", "json"))
    assert [(one["group"], one["values"], one["void"]) for one in rows] == [
        ("ml/a", {"priority": 80, "weight": "3"}, "")
    ]
    await cluster.api.delete(POD_GROUPS.object_path("a", "ml"))
    [row] = documents(await cluster.run("group", "overrides", "--output", "json"))
    assert row["void"] == "there is no pod group ml/a"
    await cluster.group("a")
    assert "for an earlier pod group ml/a" in await cluster.says("group", "overrides")
    await cluster.says("group", "set-max-slots", "ml/a", "2")
    assert await cluster.set_by_operator("a") == {"maxSlots": 2}


async def test_what_is_set_is_removed_for_a_job_or_for_those_that_are_gone(
    cluster: Cluster,
) -> None:
    for name in ("a", "b", "c"):
        await cluster.group(name)
        await cluster.says("group", "set-priority", f"ml/{name}", "60")
    said = await cluster.says("group", "reset", "ml/a")
    assert said == "ml/a: what operators had set is removed: GroupOverride ml.a"
    assert (await cluster.says("group", "reset", "ml/a")).endswith("nothing changed")
    await cluster.api.delete(POD_GROUPS.object_path("b", "ml"))
    said = await cluster.says("group", "reset", "--void")
    assert said == "deleted 1 object of pod groups that are gone"
    assert [await cluster.set_by_operator(name) for name in ("a", "b", "c")] == [
        {},
        {},
        {"priority": 60},
    ]
    await cluster.fails(2, "group", "reset")
    await cluster.fails(2, "group", "reset", "ml/c", "--void")


async def test_without_the_kind_the_command_says_what_to_apply(cluster: Cluster) -> None:
    await cluster.group("a")
    await cluster.api.delete(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/groupoverrides.muster.sh"
    )
    error = await cluster.fails(3, "group", "set-priority", "ml/a", "60")
    assert error.startswith("the API server does not serve groupoverrides.muster.sh")
    assert "deploy/kustomize/queue-operators" in error


async def test_json_has_the_values_and_the_objects(cluster: Cluster) -> None:
    await cluster.group("a")
    document = json.loads(await cluster.says("group", "set-priority", "ml/a", "9", "-o", "json"))
    assert document["values"] == {"priority": 9, "position": None}
    assert document["objects"] == ["GroupOverride ml.a"]
    assert document["is_changed"] is True


@pytest.mark.parametrize(
    "words",
    [
        *(("set-priority", "ml/a", text) for text in ("0", "100", "-1", "1.5", "high", "")),
        *(("set-weight", "ml/a", text) for text in ("0", "-1", "nan", "inf", "1e3", "9" * 30)),
        *(("set-max-slots", "ml/a", text) for text in ("-1", "1.5", "9" * 10, "many")),
        ("move", "ml/a", "--pool", ""),
        ("move", "ml/a", "--pool", "x/y"),
        ("move", "ml/a"),
        ("move", "ml/a", "--pool", "p", "--behind", "ml/b"),
        ("set-priority", "a", "5"),
        ("set-priority", "ml/../a", "5"),
        ("set-priority", "ml/..", "5"),
        ("update", "ml/a.priority=0", "ml/a.weight=1"),
        ("update", "ml/a.colour=1"),
    ],
    ids=" ".join,
)
def test_nonsense_is_refused_before_the_server_is_asked(words: tuple[str, ...]) -> None:
    result = muster("group", *words, "--kubeconfig", "/nowhere")
    assert result.exit_code == 2
    assert "/nowhere" not in error_of(result)


async def test_a_pod_stands_for_its_job(cluster: Cluster) -> None:
    label = {"pod-group.scheduling.sigs.k8s.io/name": "gang"}
    alone = await cluster.pod("alone")
    for name in ("p0", "p1"):
        await cluster.pod(name, label)
    await cluster.says("group", "set-priority", "ml/alone", "80")
    await cluster.says("group", "set-priority", "ml/p1", "70")
    assert await cluster.set_by_operator(f"podgroup-{alone['metadata']['uid']}") == {"priority": 80}
    assert await cluster.set_by_operator("gang") == {"priority": 70}


async def test_an_unknown_group_or_anchor_is_named(cluster: Cluster) -> None:
    await cluster.group("a")
    assert await cluster.fails(2, "group", "set-priority", "ml/b", "5") == "group ml/b not found"
    words = ("group", "move", "ml/a", "--ahead-of", "other/c")
    assert await cluster.fails(2, *words) == "group other/c not found"


async def test_pods_of_an_owner_are_a_group_of_its_uid(cluster: Cluster) -> None:
    manifest = pod("ml", "owned")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1", "controller": True}
    manifest["metadata"]["ownerReferences"] = [owner]
    await cluster.api.create(PODS, manifest)
    await cluster.says("group", "set-weight", "ml/podgroup-u-1", "3")
    found = await cluster.api.get(GROUP_OVERRIDES.object_path("ml.podgroup-u-1"))
    assert (found.expect(200)["spec"]["uid"], found.expect(200)["spec"]["weight"]) == ("u-1", "3")


async def test_all_pod_groups_of_a_job_are_changed(cluster: Cluster) -> None:
    for name in ("t1", "t2"):
        await cluster.group(name, job="search")
    await cluster.group("other")
    await cluster.says("group", "set-priority", "ml/t1", "60")
    said = await cluster.says("group", "set-weight", "ml/search", "2")
    assert said.endswith("(2 pod groups)")
    for name in ("t1", "t2"):
        assert await cluster.set_by_operator(name) == {"priority": 60, "weight": "2"}
    assert await cluster.set_by_operator("other") == {}


async def test_a_job_moves_between_its_anchor_and_the_neighbour(cluster: Cluster) -> None:
    for name, position in (("a", "100"), ("c", "300"), ("d", "400")):
        await cluster.group(name, queue_position="1")
        await cluster.place(name, position)
    await cluster.group("b", namespace="other")
    await cluster.place("b", "200", namespace="other")
    await cluster.says("group", "move", "ml/d", "--ahead-of", "other/b")
    assert (await cluster.set_by_operator("d"))["position"] == "150"
    await cluster.says("group", "move", "ml/d", "--behind", "other/b")
    assert (await cluster.set_by_operator("d"))["position"] == "250"
    await cluster.says("group", "move", "ml/d", "--ahead-of", "ml/a")
    assert (await cluster.set_by_operator("d"))["position"] == "50"
    said = await cluster.says("group", "move", "ml/d", "--ahead-of", "ml/a")
    assert said == "ml/d: already right ahead of ml/a: nothing changed"
    said = await cluster.says("group", "move", "ml/d", "--behind-of", "ml/d")
    assert said == "ml/d: the same job as ml/d: nothing changed"
    assert (await cluster.set_by_operator("d"))["position"] == "50"


async def test_a_job_moves_behind_the_last_one(cluster: Cluster) -> None:
    await cluster.group("a")
    await cluster.group("b")
    await cluster.place("a", "1767225600000000")
    await cluster.place("b", "5")
    await cluster.says("group", "move", "ml/b", "--behind", "ml/a")
    position = Fraction((await cluster.set_by_operator("b"))["position"])
    assert position > 1767225600000000


async def test_a_move_takes_the_priority_of_the_anchor(cluster: Cluster) -> None:
    await cluster.group("a", priority="80")
    await cluster.group("b", priority="50")
    await cluster.place("a", "100")
    await cluster.place("b", "99")
    said = await cluster.says("group", "move", "ml/b", "--ahead-of", "ml/a")
    assert "priority 50 -> 80, as ml/a has" in said
    assert await cluster.set_by_operator("b") == {"priority": 80, "position": "50"}


async def test_a_move_considers_pods_of_groups_without_an_object(cluster: Cluster) -> None:
    for name, position in (("a", "100"), ("b", "200"), ("c", "300")):
        label = {"scheduling.x-k8s.io/pod-group": name}
        made = await cluster.pod(f"{name}-0", label)
        await cluster.place_uid(name, made["metadata"]["uid"], position)
    await cluster.says("group", "move", "ml/c", "--ahead-of", "ml/b")
    assert (await cluster.set_by_operator("c"))["position"] == "150"


async def test_a_job_moves_to_another_pool_once(cluster: Cluster) -> None:
    await cluster.group("a", pool="old")
    await cluster.group("b", pool="old")
    said = await cluster.says("group", "move", "ml/a", "--pool", "new")
    assert said == "ml/a: pool old -> new; queue position reset to the submission time"
    assert await cluster.set_by_operator("a") == {"pool": "new"}
    said = await cluster.says("group", "move", "ml/a", "--pool", "new")
    assert said == "ml/a: already in pool new: nothing changed"
    error = await cluster.fails(2, "group", "move", "ml/a", "--ahead-of", "ml/b")
    assert error == "group ml/a is in pool new and ml/b in pool old: change its pool first"


POOLS = """\
policy:
  pools:
    - {name: shared, decider: fair_share}
    - {name: ranked, decider: priority, nodeSelector: {pool: ranked}}
    - {name: turns, decider: round_robin, nodeSelector: {pool: turns}}
    - {name: plain, nodeSelector: {pool: plain}}
cluster:
  - {kind: Node, count: 2, metadata: {name: "n{i}"}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}}
  - {kind: Node, metadata: {name: r1, labels: {pool: ranked}}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 4}}}
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: s, namespace: ml}, spec: {minMember: 1}}
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: r, namespace: ml, annotations: {muster.sh/pool: ranked}}, spec: {minMember: 1}}
until: 2s
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a pool of each decider: `ml/s` is in the pool `shared`, `ml/r` in `ranked`."""
    folder = tmp_path_factory.mktemp("pools")
    path = folder / "pools.db"
    result = muster("simulate", scenario(folder, POOLS), "--log", path)
    assert result.exit_code == 0, result.output
    return path


SHARED = "has no effect in pool shared: its decider fair_share uses muster.sh/weight, muster.sh/max-slots"
RANKED = (
    "has no effect in pool ranked: its decider priority uses muster.sh/priority, muster.sh/max-slots,"
    " muster.sh/queue-position"
)
NONE_USED = "uses none of priority, weight, max-slots and queue-position"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set-priority", "ml/s", "60"), f"group ml/s: muster.sh/priority {SHARED}"),
        (("set-weight", "ml/r", "2"), f"group ml/r: muster.sh/weight {RANKED}"),
        (("set-max-slots", "ml/s", "17"), "group ml/s: max-slots 17 is above the 16 slots of pool shared"),
        (("move", "ml/s", "--ahead-of", "ml/t"), f"group ml/s: muster.sh/queue-position {SHARED}"),
        (("move", "ml/s", "--behind", "ml/r"), "group ml/s is in pool shared and ml/r in pool ranked: change its pool first"),
        (("move", "ml/s", "--pool", "other"), "there is no pool other: the policy has shared, ranked, turns, plain"),
        (
            ("set-weight", "ml/turns", "2"),
            f"group ml/turns: muster.sh/weight has no effect in pool turns: its decider round_robin {NONE_USED}",
        ),
        (
            ("set-priority", "ml/plain", "60"),
            f"group ml/plain: muster.sh/priority has no effect in pool plain: its decider session {NONE_USED}",
        ),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)  # fmt: skip
async def test_a_change_without_effect_is_refused_if_the_log_is_known(
    cluster: Cluster, log: Path, words: tuple[str, ...], said: str
) -> None:
    await cluster.group("s")
    await cluster.group("t", pool="shared")
    for name in ("ranked", "turns", "plain"):
        await cluster.group("r" if name == "ranked" else name, pool=name)
    group = words[1].partition("/")[2]
    assert await cluster.fails(2, "group", *words, "--log", str(log)) == said
    assert await cluster.set_by_operator(group) == {}


async def test_a_change_with_effect_is_made_if_the_log_is_known(
    cluster: Cluster, log: Path
) -> None:
    await cluster.group("s")
    await cluster.group("t")
    for words in (
        ("set-weight", "ml/s", "2"),
        ("set-max-slots", "ml/s", "16"),
        ("set-max-slots", "ml/s", "none"),
        ("set-priority", "ml/t", "60"),  # The log does not have it.
        ("move", "ml/s", "--pool", "ranked"),
    ):
        await cluster.says("group", *words, "--log", str(log))
    assert await cluster.set_by_operator("s") == {"weight": "2", "maxSlots": -1, "pool": "ranked"}


async def test_an_item_of_a_batch_is_checked_against_the_pool_of_the_items_before(
    cluster: Cluster, log: Path
) -> None:
    await cluster.group("s")
    items = ("ml/s.priority=60", "ml/s.pool=ranked", "ml/s.priority=70", "ml/s.weight=2")
    result = await cluster.run("group", "update", *items, "--log", str(log))
    assert result.exit_code == 1
    assert [line.partition(" has")[0] for line in result.stderr.splitlines()] == [
        "muster: error: ml/s: priority: group ml/s: muster.sh/priority",
        "muster: error: ml/s: weight: group ml/s: muster.sh/weight",
    ]
    assert await cluster.set_by_operator("s") == {"pool": "ranked", "priority": 70}


async def test_nothing_is_changed_if_the_log_cannot_be_read(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.group("a")
    result = await cluster.run(
        "group", "set-weight", "ml/a", "2", "--log", str(tmp_path / "none.db")
    )
    assert result.exit_code != 0
    assert await cluster.set_by_operator("a") == {}


async def test_a_batch_goes_on_after_a_failure(cluster: Cluster) -> None:
    await cluster.group("a.v1")
    await cluster.group("c")
    result = await cluster.run(
        *("group", "update", "ml/a.v1.priority=60", "ml/b.weight=2", "ml/c.resource-pool=p")
    )
    assert result.exit_code == 1
    assert error_of(result) == "ml/b: weight: group ml/b not found"
    assert await cluster.set_by_operator("a.v1") == {"priority": 60}
    assert await cluster.set_by_operator("c") == {"pool": "p"}


async def test_a_batch_prints_a_document_for_each_item(cluster: Cluster) -> None:
    await cluster.group("a")
    words = ("group", "update", "ml/b.weight=2", "ml/a.max_slots=4", "--output", "json")
    result = await cluster.run(*words)
    assert result.exit_code == 1
    failed, done = documents(result)
    assert failed == {"group": "ml/b", "change": "weight", "error": "group ml/b not found"}
    assert (done["group"], done["is_changed"]) == ("ml/a", True)


async def test_long_lists_are_read_page_by_page(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.cluster.group_overrides.PAGE_OBJECTS", 2)
    for number in range(1, 6):
        await cluster.group(f"g{number}")
        await cluster.place(f"g{number}", f"{number}00")
    await cluster.says("group", "move", "ml/g1", "--behind", "ml/g4")
    assert (await cluster.set_by_operator("g1"))["position"] == "450"


async def test_nothing_is_changed_if_an_item_of_a_batch_is_wrong(cluster: Cluster) -> None:
    await cluster.group("a")
    error = await cluster.fails(2, "group", "update", "ml/a.weight=2", "ml/a.priority=0", "x")
    assert "priority '0' is not a whole number from 1 to 99; 'x' is not NAMESPACE/GROUP" in error
    assert await cluster.set_by_operator("a") == {}


async def test_a_missing_permission_is_named(cluster: Cluster) -> None:
    await cluster.group("a")
    words = ("group", "set-priority", "ml/a", "5")
    error = await cluster.fails(3, *words, kubeconfig=cluster.member)
    assert error.startswith(
        "403 Forbidden: you need the permission to list groupoverrides.muster.sh: "
    )
    reads = (
        Rule(("list",), ("muster.sh",), ("groupoverrides",)),
        Rule(("get",), ("scheduling.volcano.sh",), ("podgroups",), "ml"),
    )
    cluster.may(reads[0])
    error = await cluster.fails(3, *words, kubeconfig=cluster.member)
    assert error.startswith(
        "403 Forbidden: you need the permission to get podgroups.scheduling.volcano.sh in namespace ml: "
    )
    cluster.may(*reads)
    error = await cluster.fails(3, *words, kubeconfig=cluster.member)
    assert error.startswith(
        "403 Forbidden: you need the permission to create groupoverrides.muster.sh: "
    )
    assert await cluster.set_by_operator("a") == {}
    writes = Rule(("create", "patch"), ("muster.sh",), ("groupoverrides",))
    cluster.may(*reads, writes)
    assert (await cluster.run(*words, kubeconfig=cluster.member)).exit_code == 0
    await cluster.group("b")
    moves = ("group", "move", "ml/a", "--behind", "ml/b")
    error = await cluster.fails(3, *moves, kubeconfig=cluster.member)
    assert "list podgroups.scheduling.volcano.sh in all namespaces" in error


async def test_a_server_that_is_away_ends_with_code_3(cluster: Cluster) -> None:
    await cluster.server.go_down()
    assert "refused" in await cluster.fails(3, "group", "update", "ml/a.weight=2", "ml/b.weight=2")


def job(name: str, position: Fraction) -> Job:
    """A job at a position, submitted at the epoch."""
    member = Member(False, "ml", name, name, f"ml/{name}", (), 0)
    options = read_job_options({POSITION: decimal_text(position)})
    return Job(key=f"ml/{name}", members=(member,), options=options, submitted_ns=0)


positions = st.one_of(
    st.integers(-2, 3).map(Fraction),
    st.decimals(-10, 2_000_000_000_000_000, places=20, allow_nan=False).map(Fraction),
)


@given(st.lists(positions, min_size=2, max_size=6), st.data())
def test_a_moved_job_is_on_the_right_side_and_its_position_can_be_read(
    places: list[Fraction], data: Any
) -> None:
    queue = [job(f"g{number}", place) for number, place in enumerate(places)]
    moved, anchor = data.draw(st.permutations(queue))[:2]
    is_ahead = data.draw(st.booleans())
    place = place_beside(moved, anchor, queue, NOW_NS, is_ahead=is_ahead)
    ordered = sorted(queue, key=lambda one: one.order)
    pair = (moved, anchor) if is_ahead else (anchor, moved)
    if place is None:
        assert pair in pairwise(ordered)
        return
    read: Any = read_job_options({POSITION: decimal_text(place.position)}).position
    assert read == place.position
    assert read < anchor.position if is_ahead else read > anchor.position
    between = [
        one.position
        for one in ordered
        if one is not moved
        and (read < one.position < anchor.position or anchor.position < one.position < read)
    ]
    assert between == []


async def test_the_roles_that_are_shipped_allow_the_operations_and_no_others(
    cluster: Cluster,
) -> None:
    path = ROOT / "deploy/kustomize/queue-operators/roles.yaml"
    rules = {
        one["metadata"]["name"]: one["rules"]
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if one["kind"] == "ClusterRole"
    }

    cluster.may(
        *(
            Rule(tuple(one["verbs"]), tuple(one["apiGroups"]), tuple(one["resources"]))
            for one in rules["muster-operator"]
        )
    )
    for name in ("a", "b"):
        await cluster.group(name)
    await cluster.pod("p", {"scheduling.x-k8s.io/pod-group": "g"})
    await cluster.group("c", namespace="other")
    for words in (
        ("update", "ml/a.priority=60", "ml/g.weight=2", "ml/a.pool=default"),
        ("move", "ml/a", "--ahead-of", "ml/b"),
        ("move", "ml/g", "--behind", "other/c"),
        ("overrides",),
        ("reset", "ml/a"),
        ("reset", "--void"),
    ):
        result = await cluster.run("group", *words, kubeconfig=cluster.member)
        assert result.exit_code == 0, result.output
    group = POD_GROUPS.object_path("a", "ml")
    async with Api.of(cluster.member) as api:
        patched = await api.patch(group, {"metadata": {"annotations": {PRIORITY: "60"}}})
    assert patched.status == 403
