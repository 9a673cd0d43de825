"""Pods that the device plugin of virtual NPUs rejected are deleted, so that their controllers create them again."""

from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.messages import Accepted, Answer, EvictRequest, ObjectSeen, Rejected
from events.normalize import JsonObject
from features.table import FEATURES
from projections import snapshot
from projections.rejected_pods import RejectedPods
from tests.features.ascend.builders import policy
from tests.features.ascend.test_virtual_npus import core_node
from tests.scheduling.builders import EngineHarness, gone, raw

MESSAGE = "Pod was rejected: Allocate failed due to rpc error: desc = {}, which is unexpected"


def pod(
    name: str,
    *,
    text: str = "NPUSegmentFailed",
    reason: str = "UnexpectedAdmissionError",
    resource: str = "huawei.com/npu-core",
    is_owned: bool = True,
    scheduler: str = "muster",
) -> bytes:
    """A pod that its kubelet did not admit."""
    owner: JsonObject = {"kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
    metadata: JsonObject = {"ownerReferences": [owner]} if is_owned else {}
    spec: JsonObject = {
        "schedulerName": scheduler,
        "nodeName": "n",
        "containers": [{"name": "main", "resources": {"requests": {resource: "4"}}}],
    }
    status: JsonObject = {
        "phase": "Failed",
        "reason": reason,
        "message": MESSAGE.format(text),
    }
    return raw("Pod", name, metadata=metadata, spec=spec, status=status)


def begun(*pods: bytes) -> EngineHarness:
    """A node with virtual NPUs, and pods."""
    harness = EngineHarness(policy=policy())
    harness.show_all("Node", core_node("n", 2))
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    harness.cycle()
    return harness


def evictions(harness: EngineHarness) -> list[EvictRequest]:
    """What is to be evicted."""
    return [one for one in harness.engine.requests() if isinstance(one, EvictRequest)]


def decided(harness: EngineHarness) -> list[EvictionDecided]:
    """The decisions to evict."""
    events = map(event_of, harness.records)
    return [one for one in events if isinstance(one, EvictionDecided)]


def test_a_pod_that_the_device_plugin_rejected_is_deleted_once() -> None:
    harness = begun(pod("a"), pod("b", text="NoNPUResource"))
    assert [(one.code, one.action, one.evictions[0].pod) for one in decided(harness)] == [
        ("NPUSegmentFailed", "recreate", "default/a"),
        ("NoNPUResource", "recreate", "default/b"),
    ]
    assert [(one.name, one.uid) for one in evictions(harness)] == [("a", "uid-a"), ("b", "uid-b")]
    harness.engine.report([Answer(one, Accepted()) for one in evictions(harness)], harness.now_ns)
    harness.cycle()
    assert evictions(harness) == []
    harness.see(gone(pod("a")))
    harness.cycle()
    assert len(decided(harness)) == 2
    harness.state.validate()


def test_other_pods_that_failed_are_left_as_they_are() -> None:
    harness = begun(
        pod("without-controller", is_owned=False),
        pod("other-text", text="no such device"),
        pod("other-reason", reason="OutOfcpu"),
        pod("other-devices", resource="nvidia.com/gpu"),
        pod("other-scheduler", scheduler="default-scheduler"),
    )
    assert decided(harness) == []
    assert harness.state.cluster.indexes.of(RejectedPods).uids == {}


def test_a_deletion_that_is_refused_is_tried_again_after_a_delay() -> None:
    harness = begun(pod("a"))
    [request] = evictions(harness)
    refusal = Rejected(code="EvictionBudget", message="the limit is reached")
    harness.engine.report([Answer(request, refusal)], harness.now_ns)
    harness.cycle(1)
    assert evictions(harness) == []
    harness.cycle(31)
    assert [one.name for one in evictions(harness)] == ["a"]


def test_a_rejected_pod_is_known_after_a_start_from_a_snapshot() -> None:
    harness = EngineHarness(policy=policy())
    harness.show_all("Node", core_node("n", 2))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert restored.cluster.indexes.of(RejectedPods).uids == {"uid-a": None}
    restored.validate()


def test_a_pod_that_runs_is_added_when_it_is_rejected() -> None:
    harness = begun(raw("Pod", "a"))
    harness.see(ObjectSeen(pod("a")))
    harness.cycle()
    assert [one.name for one in evictions(harness)] == ["a"]
