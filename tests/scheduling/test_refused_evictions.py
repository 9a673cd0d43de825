"""Evictions that the API server refuses: the pod is left alone for a while, and others are looked at."""

import msgspec

from events.codec import event_of
from events.decisions.eviction import EvictionDecided
from events.decisions.pipeline_withdrawn import PipelineWithdrawn
from events.messages import Accepted, EvictRequest, Rejected, Reply
from events.normalize import JsonObject
from projections.apply_outcome import EVICTION_BACKOFF_NS
from tests.properties.cluster_sim import ClusterSim

POLICY = msgspec.json.encode(
    {
        "actions": "allocate, preempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]},
            {"plugins": [{"name": "predicates"}, {"name": "capacity"}]},
        ],
    }
)


def put_pod(sim: ClusterSim, name: str, group: str) -> None:
    """A pod of one core."""
    requests: JsonObject = {"cpu": "1"}
    spec: JsonObject = {
        "schedulerName": "muster",
        "containers": [{"name": "m", "resources": {"requests": requests}}],
    }
    meta: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": group}, "labels": {}}
    sim.api.put("Pod", name, {"spec": spec, "status": {"phase": "Pending"}}, meta)


def played(nodes: int) -> tuple[ClusterSim, list[str]]:
    """Nodes of one core, each with a pod, and one that is more urgent. The first eviction is refused."""
    asked: list[str] = []

    def evict(request: EvictRequest) -> Reply:
        asked.append(request.name)
        if len(asked) == 1:
            return Rejected("DisruptionBudget", "not now")
        sim.api.evict(request)
        return Accepted()

    sim = ClusterSim(POLICY, evict)
    sim.api.put("PriorityClass", "high", {"value": 9})
    for index in range(nodes):
        status: JsonObject = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}
        sim.api.put("Node", f"n{index}", {"status": status})
    sim.api.put("PodGroup", "low", {"spec": {"minMember": 1}, "status": {"phase": "Inqueue"}})
    for index in range(nodes):
        put_pod(sim, f"low-{index}", "low")
    sim.play()
    hi: JsonObject = {"minMember": 1, "priorityClassName": "high"}
    sim.api.put("PodGroup", "hi", {"spec": hi, "status": {"phase": "Inqueue"}})
    put_pod(sim, "hi-0", "hi")
    sim.play()
    return sim, asked


def test_another_victim_is_evicted_when_an_eviction_is_rejected() -> None:
    sim, asked = played(2)
    assert len(asked) == 2
    assert asked[0] != asked[1]
    events = [event_of(record) for record, _ in sim.witness.log]
    withdrawn = [one for one in events if isinstance(one, PipelineWithdrawn)]
    assert [one.pod_group for one in withdrawn] == ["default/hi"]
    [hi] = [one for one in sim.engine.state.cluster.pods.values() if one.facts.name == "hi-0"]
    assert hi.facts.node


def test_a_pod_that_could_not_be_evicted_is_asked_again_after_a_while() -> None:
    sim, asked = played(1)
    assert asked == ["low-0", "low-0"]
    evictions = [
        record for record, _ in sim.witness.log if isinstance(event_of(record), EvictionDecided)
    ]
    first, second = (one.recorded_at_ns for one in evictions)
    assert second - first >= EVICTION_BACKOFF_NS
