"""A roll-out keeps within its bounds whatever the scheduler does, and comes to an end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from events.messages import BindRequest
from events.normalize import Json, JsonObject
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    changed,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    section,
    uid_of,
)
from simulator.scenario import Apply, Scenario, kind_named

SECOND = 1_000_000_000
DEPLOYMENT = kind_named("Deployment")
SHARES = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "25%", "50%", "100%"]))


def deployment(replicas: int, surge: Json, unavailable: Json) -> Manifest:
    """A Deployment with these bounds."""
    rolling: JsonObject = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "strategy": {"rollingUpdate": rolling},
            "template": {"metadata": {"labels": {"v": "0"}}, "spec": {}},
        },
    }


def bound(share: Json, replicas: int, *, up: bool) -> int:
    """What a share comes to."""
    if isinstance(share, str):
        hundredths = int(share[:-1]) * replicas
        return -(-hundredths // 100) if up else hundredths // 100
    assert isinstance(share, int)
    return share


def pods_of(made: SimulatedCluster) -> list[Manifest]:
    """The pods that are there."""
    return list(made.store.objects()["Pod"].values())


def bind(made: SimulatedCluster, wanted: list[bool]) -> None:
    """Bind those of the waiting pods that are wanted, over and over."""
    waiting = [pod for pod in pods_of(made) if not node_of(pod)]
    for index, pod in enumerate(waiting):
        if wanted[index % len(wanted)]:
            made.bind(BindRequest(1, namespace_of(pod), name_of(pod), uid_of(pod), "n1"))


@settings(max_examples=150, deadline=None)
@given(
    replicas=st.integers(1, 6),
    surge=SHARES,
    unavailable=SHARES,
    changes=st.lists(st.integers(0, 2), min_size=1, max_size=8),
    chosen=st.lists(st.booleans(), min_size=1, max_size=5),
)
def test_a_roll_out_keeps_within_its_bounds_and_ends(
    replicas: int, surge: Json, unavailable: Json, changes: list[int], chosen: list[bool]
) -> None:
    owner = deployment(replicas, surge, unavailable)
    made = SimulatedCluster(Scenario(name="a test", steps=(Apply(0, DEPLOYMENT, owner),)))
    status: JsonObject = {"allocatable": {"cpu": "1", "pods": "110"}}
    node: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    made.put(kind_named("Node"), {**node, "status": status})
    made.advance(0)
    bind(made, [True])
    made.advance(SECOND)
    most = replicas + bound(surge, replicas, up=True)
    lacking = bound(unavailable, replicas, up=False)
    least = replicas - (lacking if most > replicas or lacking else 1)
    for at, version in enumerate([*changes, 9]):
        found = made.find("Deployment", "default", "web") or {}
        template: JsonObject = {"metadata": {"labels": {"v": str(version)}}, "spec": {}}
        made.put(DEPLOYMENT, changed(found, "spec", template=template))
        for wanted in (chosen, [True]) if at == len(changes) else (chosen,):
            for _ in range(4 * replicas if wanted == [True] else 1):
                bind(made, wanted)
                made.advance(made.now_ns + SECOND)
                pods = pods_of(made)
                assert len(pods) <= most
                assert sum(phase_of(pod) == "Running" for pod in pods) >= least
    told = section(made.find("Deployment", "default", "web") or {}, "status")
    assert (told["replicas"], told["updatedReplicas"]) == (replicas, replicas)
    assert [section(pod, "metadata", "labels")["v"] for pod in pods_of(made)] == ["9"] * replicas
