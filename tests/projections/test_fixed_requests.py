"""What a pod asks for is fixed when it gets its node."""

import pytest

from engine.pending_requests import bindings_and_evictions
from events.messages import Answer, BindRequest, ObjectSeen, Rejected
from features.table import FEATURES
from projections import snapshot
from tests.scheduling.builders import EngineHarness, node, pod

CODE = "FixedWhenBound"
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"


def began() -> EngineHarness:
    """A node with room for two pods."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    return harness


def seen(harness: EngineHarness, on: str = "", **annotations: str) -> None:
    """The pod is seen with these annotations."""
    harness.see(ObjectSeen(pod("a", on=on, metadata={"annotations": annotations})))


def check(harness: EngineHarness) -> None:
    """Sums add up, and a snapshot holds all of State."""
    harness.state.validate()
    payload = snapshot.take(harness.state)
    restored = snapshot.restore(payload, FEATURES)
    restored.validate()
    assert snapshot.take(restored) == payload


def errors(harness: EngineHarness) -> list[str]:
    """The messages of the pod about changes."""
    found = harness.state.cluster.config_errors.current.get("Pod/default/a", ())
    return [message for code, message in found if code == CODE]


@pytest.mark.parametrize("on", ["", "n1"])
def test_a_changed_group_or_card_of_a_pod_with_a_node_has_no_effect(on: str) -> None:
    """`on` is empty while the binding is under way."""
    harness = began()
    seen(harness)
    harness.cycle()
    before = harness.state.cluster.pods["uid-a"]
    assert before.node == "n1"
    changes = {
        GROUP: "other",
        QUEUE: "other",
        "volcano.sh/card.name": "A",
        "volcano.sh/task-spec": "x",
        "volcano.sh/task-index": "7",
        "volcano.sh/task-priority": "9",
        "volcano.sh/preemptable": "false",
    }
    seen(harness, on, **changes)
    found = harness.state.cluster.pods["uid-a"]
    assert (found.group_key, found.pod_class, found.charge, found.sort_key) == (
        before.group_key,
        before.pod_class,
        before.charge,
        before.sort_key,
    )
    assert found.facts.is_evictable
    assert list(harness.state.cluster.groups) == [before.group_key]
    [message] = errors(harness)
    assert all(key in message for key in changes)
    check(harness)
    seen(harness, "n1")
    assert errors(harness) == []


def test_a_name_that_is_not_valid_takes_nothing_from_a_pod_with_a_node() -> None:
    harness = began()
    seen(harness, **{GROUP: "g"})
    harness.see(ObjectSeen(pod("a", on="n1", metadata={"annotations": {GROUP: "g"}})))
    before = harness.state.cluster.pods["uid-a"]
    seen(harness, "n1", **{GROUP: "G" * 300, "volcano.sh/card.name": "c" * 5000})
    found = harness.state.cluster.pods["uid-a"]
    assert (found.group_key, found.facts.problem) == (before.group_key, "")
    assert found.pod_class.unsupported == ""
    assert errors(harness)[0].startswith(
        f"{GROUP}: without effect, as the pod was not placed by this"
    )
    seen(harness, "n1", **{GROUP: "g", "volcano.sh/card.name": "c" * 5000})
    assert errors(harness)[0].startswith("volcano.sh/card.name: without effect")
    check(harness)


def test_what_the_object_says_counts_again_if_the_binding_fails() -> None:
    harness = began()
    seen(harness)
    harness.cycle()
    [request] = bindings_and_evictions(harness.state)
    assert isinstance(request, BindRequest)
    first = harness.state.cluster.pods["uid-a"]
    seen(harness, **{GROUP: "other", "alibabacloud.com/gpu-milli": "500"})
    assert harness.state.cluster.pods["uid-a"].group_key == first.group_key
    check(harness)
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert (
        restored.cluster.pods["uid-a"].observed.stated
        == harness.state.cluster.pods["uid-a"].observed.stated
    )
    answer = Answer(request, Rejected("Forbidden", "no role allows this"))
    assert harness.engine.report([answer], harness.now_ns) is not None
    found = harness.state.cluster.pods["uid-a"]
    assert (found.node, found.group_key) == ("", "default/other")
    assert dict(found.pod_class.request)["muster.sh/gpu-milli"] == 500
    assert first.group_key not in harness.state.cluster.groups
    assert errors(harness) == []
    check(harness)


def test_a_pod_that_could_be_evicted_stays_so_and_one_that_could_not_can_be_later() -> None:
    harness = began()
    key = "volcano.sh/preemptable"
    for value, expected in (("false", False), ("true", True), ("false", True)):
        seen(harness, "n1", **{key: value})
        assert harness.state.cluster.pods["uid-a"].facts.is_evictable is expected
    check(harness)


def test_another_owner_does_not_move_a_pod_with_a_node_to_another_group() -> None:
    harness = began()

    def owned(uid: str) -> bytes:
        owner = {"kind": "ReplicaSet", "name": uid, "uid": uid, "controller": True}
        return pod("a", on="n1", metadata={"ownerReferences": [owner]})

    harness.see(ObjectSeen(owned("r-1")))
    harness.see(ObjectSeen(owned("r-2")))
    found = harness.state.cluster.pods["uid-a"]
    assert found.group_key == "default/podgroup-r-1"
    assert "ownerReferences" in errors(harness)[0]
    check(harness)
    harness.see(ObjectSeen(owned("r-1")))
    assert errors(harness) == []
