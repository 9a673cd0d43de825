"""Rules that change while a daemon runs: what it remembers of the old ones decides nothing under the new."""

import msgspec

from events.codec import event_of
from events.daemon import DaemonStarted, PolicyChanged
from events.decisions.eviction import EvictionDecided
from events.normalize import JsonObject
from tests.properties.cluster_sim import SECOND, ClusterSim

QUIET = b'{"actions":"allocate","tiers":[{"plugins":[{"name":"priority"},{"name":"predicates"}]}]}'
EVICTS = QUIET.replace(b'"allocate"', b'"allocate, preempt"')


def put(sim: ClusterSim, name: str, priority_class: str) -> None:
    """A group of one pod with both cores of the node."""
    spec: JsonObject = {"minMember": 1, "queue": "default", "priorityClassName": priority_class}
    sim.api.put("PodGroup", name, {"spec": spec, "status": {"phase": "Inqueue"}})
    requests: JsonObject = {"cpu": "2"}
    body: JsonObject = {
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "m", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending"},
    }
    meta: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": name}, "labels": {}}
    sim.api.put("Pod", f"{name}-0", body, meta)


def rule(sim: ClusterSim, policy: bytes) -> None:
    """Let other rules hold."""
    started = DaemonStarted(
        holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
    )
    changed = PolicyChanged(source="test", policy=msgspec.Raw(policy))
    sim.take(sim.engine.start(started, changed, sim.engine.head.epoch + 1, sim.now_ns))
    sim.engine.begin_listing()
    sim.take(sim.engine.observe(sim.api.listing(), sim.now_ns))


def evicted(sim: ClusterSim) -> list[str]:
    """Return the pod groups for which pods were evicted."""
    events = [event_of(record) for record, _ in sim.witness.log]
    return [one.in_favour_of for one in events if isinstance(one, EvictionDecided)]


def test_priorities_changed_while_eviction_was_disabled_count_once_enabled() -> None:
    sim = ClusterSim(EVICTS)
    sim.api.put("PriorityClass", "high", {"value": 5})
    sim.api.put("PriorityClass", "other", {"value": 5})
    sim.api.put("Node", "n1", {"status": {"allocatable": {"cpu": "2", "pods": "110"}}})
    put(sim, "there", "other")
    sim.play()
    put(sim, "urgent", "high")
    sim.play()
    assert evicted(sim) == []
    rule(sim, QUIET)
    sim.api.put("PriorityClass", "other", {"value": 1})
    sim.play()
    rule(sim, EVICTS)
    sim.play()
    assert evicted(sim) == ["default/urgent"]
