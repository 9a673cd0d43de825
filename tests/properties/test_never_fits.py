"""Pod groups that never fit do not delay pod groups that fit."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from events.normalize import JsonObject
from tests.example_count import examples
from tests.properties.cluster_sim import ClusterSim

QUOTAS = ("capacity", "capacity-card", "proportion", "overcommit")


class Node(Struct, frozen=True):
    """A node of one of two zones."""

    cpu: int
    zone: str
    is_closed: bool


class Gang(Struct, frozen=True):
    """A pod group of equal pods that run for ever."""

    cpu: int
    count: int
    zone: str
    """Where its pods must go; empty for anywhere."""

    @property
    def least(self) -> int:
        """What it needs in all."""
        return self.cpu * self.count


nodes = st.builds(Node, st.integers(1, 6), st.sampled_from(["a", "a", "b"]), st.booleans())
gangs = st.builds(
    Gang,
    st.sampled_from([1, 2, 3, 5, 9]),
    st.integers(1, 4),
    st.sampled_from(["", "", "a", "b", "c"]),
)


def policy(quota: str) -> bytes:
    """Admission by one plugin."""
    return (
        '{"actions":"enqueue, allocate","tiers":[{"plugins":[{"name":"gang"},{"name":"predicates"},'
        f'{{"name":"{quota}"}}]}}]}}'
    ).encode()


def _submit(sim: ClusterSim, name: str, gang: Gang) -> None:
    spec: JsonObject = {"minMember": gang.count, "minResources": {"cpu": str(gang.least)}}
    sim.api.put("PodGroup", name, {"spec": spec})
    for index in range(gang.count):
        requests: JsonObject = {"cpu": str(gang.cpu)}
        wants: JsonObject = {"nodeSelector": {"zone": gang.zone}} if gang.zone else {}
        body: JsonObject = {
            "schedulerName": "muster",
            "containers": [{"name": "m", "resources": {"requests": requests}}],
            **wants,
        }
        meta: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": name}}
        sim.api.put("Pod", f"{name}-{index}", {"spec": body, "status": {"phase": "Pending"}}, meta)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    quota=st.sampled_from(QUOTAS),
    there=st.lists(nodes, min_size=1, max_size=3),
    most=st.sampled_from([4, 8, 20]),
    waves=st.lists(st.lists(gangs, min_size=1, max_size=4), min_size=1, max_size=3),
)
@example(
    quota="capacity",
    there=[Node(3, "b", is_closed=True), Node(2, "a", is_closed=False)],
    most=4,
    waves=[[Gang(3, 1, "b"), Gang(2, 1, "")]],
)
def test_groups_that_fit_do_not_wait_behind_groups_that_never_fit(
    quota: str, there: list[Node], most: int, waves: list[list[Gang]]
) -> None:
    sim = ClusterSim(policy(quota))
    for index, node in enumerate(there):
        status: JsonObject = {"allocatable": {"cpu": str(node.cpu), "memory": "4Gi", "pods": "110"}}
        spec: JsonObject = {"unschedulable": node.is_closed}
        meta: JsonObject = {"labels": {"zone": node.zone}}
        sim.api.put("Node", f"n{index}", {"spec": spec, "status": status}, meta)
    capability: JsonObject = {} if quota == "overcommit" else {"cpu": str(most)}
    sim.api.put("Queue", "default", {"spec": {"capability": capability}})
    every: dict[str, Gang] = {}
    for number, wave in enumerate(waves):
        for index, gang in enumerate(wave):
            every[f"g{number}{index}"] = gang
            _submit(sim, f"g{number}{index}", gang)
        sim.play()
    groups = sim.engine.state.cluster.groups
    runs = {name for name in every if groups[f"default/{name}"].decided.phase == "Running"}
    waits = [gang for name, gang in every.items() if name not in runs and _could_ever(gang, there)]
    free = _free(sim, there)
    used = sum(every[name].least for name in runs)
    for gang in waits:
        kept = sum(one.least for one in waits) - gang.least
        total = sum(node.cpu for node in there)
        has_quota = used + kept + gang.least <= (total * 6 // 5 if quota == "overcommit" else most)
        if quota == "proportion":
            has_quota &= used + kept + gang.least <= total
        assert not (has_quota and _holds(gang, free) >= gang.count), f"{gang} waits for nothing"


def _could_ever(gang: Gang, there: list[Node]) -> bool:
    """Whether the open nodes, were they empty, could take it."""
    return _holds(gang, [(one.cpu, one) for one in there]) >= gang.count


def _holds(gang: Gang, room: list[tuple[int, Node]]) -> int:
    return sum(
        cpu // gang.cpu for cpu, node in room if not node.is_closed and gang.zone in ("", node.zone)
    )


def _free(sim: ClusterSim, there: list[Node]) -> list[tuple[int, Node]]:
    known = sim.engine.state.cluster.nodes.nodes
    return [(known[f"n{index}"].free["cpu"] // 1000, one) for index, one in enumerate(there)]
