"""Trouble that an operator makes or meets: a missing verb, a definition that goes, a kubelet that says no."""

import asyncio
from typing import Any

import pytest

from daemon.cluster.client.rbac import NAME
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from tests.control_plane.api import Object
from tests.control_plane.setup import CLUSTER_ROLES, DEFINITIONS, NAMESPACES, define
from tests.e2e.between import between
from tests.e2e.daemon import Daemon
from tests.e2e.rig import PATIENCE_SECONDS, POLL_SECONDS, Rig, is_running, node_of, phase_of


async def until_reasons(daemon: Daemon, key: str, *, are_there: bool) -> dict[str, Any]:
    """What `/readyz` says, as soon as a reason is or is not among what it names."""
    said: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS + 30):
            while True:
                said = await daemon.readiness()
                reasons = said.get("reasons") or {}
                if said and any(one.startswith(key) for one in reasons) is are_there:
                    return reasons
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{key}: {said}") from None


async def forbid(rig: Rig, resource: str, verb: str) -> Object:
    """Take a verb from muster's role; the role as it was."""
    path = CLUSTER_ROLES.object_path(NAME)
    role = (await rig.api.get(path)).expect(200)
    rules = []
    for rule in role["rules"]:
        if resource in rule["resources"]:
            others = [one for one in rule["resources"] if one != resource]
            rules.append({**rule, "resources": others})
            rules.append({**rule, "resources": [resource]})
            rules[-1]["verbs"] = [one for one in rule["verbs"] if one != verb]
        else:
            rules.append(rule)
    kept = [one for one in rules if one["resources"] and one["verbs"]]
    (await rig.api.patch(path, {"rules": kept})).expect(200)
    return role


async def allow(rig: Rig, role: Object) -> None:
    """Give the role back what it had."""
    path = CLUSTER_ROLES.object_path(NAME)
    (await rig.api.patch(path, {"rules": role["rules"]})).expect(200)


async def test_a_watch_that_is_forbidden_is_named_and_comes_back(rig: Rig) -> None:
    """Rules K3.9 and K15.3: what is required and missing keeps a daemon from being ready."""
    await rig.add_nodes(1)
    role = await forbid(rig, "nodes", "list")
    daemon = rig.daemon()
    await daemon.start()
    reasons = await until_reasons(daemon, "watch/Node", are_there=True)
    assert "list nodes" in str(reasons)
    await rig.pod("waits")
    await allow(rig, role)
    await rig.until(lambda found: all(map(is_running, found)), seconds=120)
    await daemon.until_ready()
    await rig.judged(daemon)


async def test_a_binding_that_is_forbidden_is_tried_again_and_not_in_haste(rig: Rig) -> None:
    """Rules K8, 403, and K15.3"""
    await rig.add_nodes(1)
    daemon = await rig.started()
    role = await forbid(rig, "pods/binding", "create")
    await asyncio.sleep(1.0)  # An API server takes roles over a moment later.
    await rig.pod("waits")
    await daemon.until_told("bind failed")
    await asyncio.sleep(3.0)
    tries = daemon.told.count("bind failed")
    assert tries <= 10, "a hot loop"
    await allow(rig, role)
    await rig.until(lambda found: all(map(is_running, found)), seconds=120)
    verdict = await rig.judged(daemon)
    assert verdict.bound == 1
    assert set(verdict.refused) == {"Forbidden"}


async def test_a_definition_may_go_and_come_back_meanwhile(rig: Rig) -> None:
    """What need not be there is not waited for; pods without a group go on."""
    if rig.cluster.plane is None:
        pytest.skip("the definitions of this cluster are not ours to delete")
    await rig.add_nodes(2)
    daemon = await rig.started()
    await rig.group("gang", least=2)
    await rig.job("before", pods=2, group="gang")
    await rig.until_running(2, "before")
    path = DEFINITIONS.object_path("podgroups.scheduling.volcano.sh")
    (await rig.api.delete(path)).expect(200)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await rig.api.get(path)).status != 404:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(POLL_SECONDS)
    await rig.pod("alone")
    await rig.until(lambda found: sum(map(is_running, found)) == 3)
    await define(rig.api)
    await rig.group("again", least=2)
    await rig.job("after", pods=2, group="again")
    await rig.until(
        lambda found: len(found) == 2 and all(map(is_running, found)), "after", seconds=120
    )
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (5, {})


async def test_a_pod_group_that_goes_while_its_gang_is_bound_loses_no_pod(rig: Rig) -> None:
    """Rule K8.6: partial success is normal."""
    await rig.add_nodes(2)
    async with between(rig.cluster.muster, rig.folder) as (one, kubeconfig):
        once = asyncio.Event()

        async def delete(_: str) -> None:
            if not once.is_set():
                once.set()
                path = POD_GROUPS.object_path("gang", rig.namespace)
                (await rig.api.delete(path)).expect(200)

        one.before = delete
        daemon = await rig.started(kubeconfig=kubeconfig)
        await rig.group("gang", least=4)
        await rig.job("train", pods=4, cards=2, group="gang")
        await rig.until(lambda found: sum(map(is_running, found)) == 4)
        verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (4, {})


async def test_a_namespace_that_goes_takes_its_pods_along(rig: Rig) -> None:
    """Rule K8, 403: give up what cannot be bound there."""
    await rig.add_nodes(1, cards=2)
    daemon = await rig.started()
    await rig.deployment("web", pods=4)
    await rig.until(lambda found: sum(map(is_running, found)) == 2 and len(found) == 4)
    (await rig.api.delete(NAMESPACES.object_path(rig.namespace))).expect(200)
    await rig.until(lambda found: found == [])
    rig.namespace = f"{rig.namespace}-2"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": rig.namespace}}
    await rig.api.create(NAMESPACES, manifest)
    await rig.pod("elsewhere", cards=2, nodeSelector={})
    await rig.until(lambda found: all(map(is_running, found)))
    await rig.judged(daemon)


async def test_what_a_kubelet_turns_away_goes_somewhere_else(rig: Rig) -> None:
    """Rule K5.12: the node is held in doubt for a while, or the loop would never end."""
    bad, good = await rig.add_nodes(2)
    rig.kubelet.verdict = lambda pod: "UnexpectedAdmissionError" if node_of(pod) == bad else ""
    daemon = await rig.started()
    await rig.deployment("web", pods=4)

    def are_settled(found: list[Object]) -> bool:
        return sum(is_running(one) and node_of(one) == good for one in found) == 4

    found = await rig.until(are_settled)
    turned_away = [one for one in found if phase_of(one) == "Failed"]
    assert len(turned_away) <= 8, "it insisted"
    verdict = await rig.judged(daemon)
    assert 1 <= verdict.kinds["bind_rejected_by_node.v1"] <= len(turned_away)


async def test_what_cannot_be_honoured_is_refused_with_its_reason(rig: Rig) -> None:
    """Rule K6.7: a hard constraint is never ignored silently."""
    await rig.add_nodes(1)
    daemon = await rig.started()
    claim = {"name": "c", "resourceClaimTemplateName": "any"}
    await rig.pod("claims", resourceClaims=[claim])
    await rig.pod("plain")

    def is_told(found: list[Object]) -> bool:
        told = {one["metadata"]["name"]: str(one["status"]) for one in found}
        return "NotReadyForScheduling" in told["claims"] and "Running" in told["plain"]

    found = await rig.until(is_told)
    claims = next(one for one in found if one["metadata"]["name"] == "claims")
    conditions = {one["type"]: one for one in claims["status"]["conditions"]}
    assert "laim" in conditions["PodScheduled"]["message"]
    assert (await rig.api.get(PODS.object_path("claims", rig.namespace))).status == 200
    await rig.judged(daemon)
