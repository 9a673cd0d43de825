"""What admitted groups reserve follows whatever becomes of them, and the recount finds nothing else."""

from events.messages import ObjectSeen
from events.normalize import JsonObject
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

LABELS = {"example.com/card.product": "X"}
IN_GROUP: JsonObject = {
    "annotations": {"scheduling.k8s.io/group-name": "g", "volcano.sh/card.name": "X"}
}


def group(queue: str = "default") -> bytes:
    """An admitted group that said it wants nine cards."""
    return raw(
        "PodGroup",
        "g",
        metadata={"annotations": {"volcano.sh/card.request": '{"X": 9}'}},
        spec={"minMember": 1, "queue": queue, "minResources": {"cpu": "1"}},
        status={"phase": "Inqueue"},
    )


def queue(name: str) -> bytes:
    """A queue with a quota of nine cards."""
    return raw("Queue", name, metadata={"annotations": {"volcano.sh/card.quota": '{"X": 9}'}})


def test_a_group_that_lost_its_pod_that_never_fits_reserves_its_minimum_again() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=8, labels=LABELS))
    harness.show_all("Queue", queue("default"))
    harness.show_all("PodGroup", group())
    harness.show_the_rest()
    too_large = pod("p", cards=9, metadata=IN_GROUP)
    harness.see(ObjectSeen(too_large))
    harness.cycle()
    assert harness.state.cluster.groups["default/g"].decided.refusals["allocate"].never_fits
    assert harness.state.cluster.queues["default"].inqueue == {}
    harness.see(gone(too_large))
    assert harness.state.cluster.queues["default"].inqueue == {"cpu": 1000, "X": 9}
