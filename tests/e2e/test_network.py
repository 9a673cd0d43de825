"""Gangs that must be close, on a real API server: HyperNodes are watched, and their changes place pods."""

from collections.abc import AsyncIterator

import pytest

from daemon.cluster.client.calls import EVENTS
from projections.kinds.hyper_node import HYPER_NODES
from projections.kinds.pod_group import POD_GROUPS
from tests.control_plane.api import Object
from tests.control_plane.manifests import GPU
from tests.e2e.rig import Rig, node_of
from tests.e2e.test_answers import conditions, status_until


def members(names: list[str]) -> list[Object]:
    """Nodes as a HyperNode names them."""
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]


class Racks:
    """HyperNodes of a test, gone when it ends: they are the whole cluster's."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._names: list[str] = []

    async def add(self, name: str, nodes: list[str], **spec: object) -> str:
        """A rack of these nodes; its full name."""
        name = f"{self._rig.namespace}-{name}"
        manifest = {
            "apiVersion": HYPER_NODES.api_version,
            "kind": HYPER_NODES.kind,
            "metadata": {"name": name},
            "spec": {"tier": 1, "members": members(nodes), **spec},
        }
        self._names.append(name)
        await self._rig.api.create(HYPER_NODES, manifest)
        return name

    async def close(self) -> None:
        """Delete them."""
        for name in self._names:
            await self._rig.api.delete(HYPER_NODES.object_path(name))


@pytest.fixture
async def racks(rig: Rig) -> AsyncIterator[Racks]:
    made = Racks(rig)
    yield made
    await made.close()


async def test_a_gang_waits_for_its_rack_and_goes_there_when_that_has_grown(
    rig: Rig, racks: Racks
) -> None:
    """Volcano A.4, B.9"""
    nodes = await rig.add_nodes(5)
    first = await racks.add("first", nodes[:2])
    await racks.add("second", nodes[2:4])
    daemon = await rig.started()
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": "g", "namespace": rig.namespace},
        "spec": {"minMember": 3, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
    }
    await rig.api.create(POD_GROUPS, group)
    await rig.job("g", pods=3, cards=8, group="g", product=GPU)
    waits = await status_until(rig, "g", lambda one: "HyperNode" in str(one.get("conditions")))
    told = conditions(waits)["Unschedulable"]["message"]
    assert f"{first} comes nearest, with room for 2." in told
    patch = {"spec": {"members": members([*nodes[:2], nodes[4]])}}
    (await rig.api.patch(HYPER_NODES.object_path(first), patch)).expect(200)
    found = await rig.until_running(3)
    assert {node_of(one) for one in found} == {nodes[0], nodes[1], nodes[4]}
    await rig.judged(daemon)


async def test_an_invalid_hypernode_gets_an_event(rig: Rig, racks: Racks) -> None:
    """Volcano A.4"""
    wrong = {"type": "Node", "selector": {"regexMatch": {"pattern": "n("}}}
    name = await racks.add("wrong", [], members=[wrong])
    await rig.add_nodes(1)
    daemon = await rig.started()
    await rig.pod("p")
    await rig.until_running(1)
    await rig.settle(daemon)
    events = await rig.api.items(EVENTS.collection_path("default"))
    [note] = [one["note"] for one in events if one["regarding"].get("name") == name]
    assert note.startswith("spec.members[0]: 'n(' is no pattern")
