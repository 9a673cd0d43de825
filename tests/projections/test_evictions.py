"""An evicted pod: its room can be nominated at once, and is free only when the pod is gone (K9.6)."""

from hashlib import sha256

import pytest
from msgspec import structs

from engine.pending_requests import bindings_and_evictions
from events.cluster import ObjectObserved
from events.codec import encode
from events.decision import Eviction
from events.decisions.eviction import EvictionDecided
from events.messages import Answer, EvictRequest, ObjectSeen, Rejected
from events.outcome import EvictionFailed, EvictionOutcomeUnknown, PodEvicted
from events.record import Record
from events.union import Event
from events.watch import WENT_BACK, WatchClosed
from features.table import FEATURES
from projections.apply_outcome import EVICTION_BACKOFF_NS
from projections.pods import RELEASING, RUNNING
from projections.snapshot import restore, take
from projections.state import State
from tests.scheduling.builders import EngineHarness, node, pod

DECIDED = EvictionDecided(
    pod_group="default/podgroup-uid-a",
    queue="default",
    evictions=(Eviction("default/a", "uid-a", "n1"),),
    action="preempt",
)
EVICTED = PodEvicted(pod="default/a", uid="uid-a", node="n1")
FAILED = EvictionFailed(
    pod="default/a", uid="uid-a", node="n1", code="DisruptionBudget", message=""
)
UNKNOWN = EvictionOutcomeUnknown(pod="default/a", uid="uid-a", node="n1", message="")


def take_in(state: State, *events: Event, shown: bytes | None = None) -> None:
    """Let State apply what happens, as if it stood in the log, with the object that is shown."""
    for event in events:
        record = Record(
            position=state.position + 1,
            batch=state.position + 1,
            epoch=1,
            recorded_at_ns=0,
            cycle=None,
            cause=None,
            kind=event.kind,
            subject="Pod/default/a",
            body=encode(event),
            object=None if shown is None else sha256(shown).hexdigest(),
            digest="",
        )
        state.apply(record, event, shown)
        state.settle()
        state.validate()


@pytest.fixture
def state() -> State:
    """A pod runs on the only node."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=4))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    harness.cycle()
    harness.see(ObjectSeen(pod("a", on="n1", phase="Running")))
    take_in(harness.state)
    return harness.state


def test_what_is_evicted_is_leaving_before_it_is_gone(state: State) -> None:
    take_in(state, DECIDED)
    on = state.cluster.nodes.nodes["n1"]
    assert state.cluster.pods["uid-a"].status == RELEASING
    assert (on.free["cpu"], on.future("cpu")) == (3000, 4000)
    assert state.cluster.queues["default"].allocated == {}


def test_an_eviction_is_asked_for_until_it_is_answered(state: State) -> None:
    take_in(state, DECIDED)
    [request] = [one for one in bindings_and_evictions(state) if isinstance(one, EvictRequest)]
    assert (request.uid, request.node, request.decision) == ("uid-a", "n1", state.position)
    take_in(state, UNKNOWN)
    again = [one for one in bindings_and_evictions(state) if isinstance(one, EvictRequest)]
    assert again == [structs.replace(request, is_in_doubt=True)]
    take_in(state, EVICTED)
    assert not any(isinstance(one, EvictRequest) for one in bindings_and_evictions(state))
    assert state.cluster.pods["uid-a"].status == RELEASING


def test_a_pod_that_could_not_be_evicted_stays_and_is_spared_for_a_while(state: State) -> None:
    take_in(state, DECIDED, FAILED)
    assert state.cluster.pods["uid-a"].status == RUNNING
    assert state.cluster.queues["default"].allocated == {"cpu": 1000}
    assert state.cluster.eviction_backoff == {"uid-a": state.now_ns + EVICTION_BACKOFF_NS}
    assert state.next_deadline_ns == state.now_ns + EVICTION_BACKOFF_NS


def test_what_is_evicted_and_seen_once_more_is_leaving_still(state: State) -> None:
    """An API server shows the condition DisruptionTarget before it shows that the pod is being deleted."""
    take_in(state, DECIDED)
    status = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    shown = pod("a", on="n1", phase="Running", status=status)
    take_in(state, ObjectObserved(uid="uid-a", resource_version="9", heartbeats={}), shown=shown)
    assert state.cluster.pods["uid-a"].status == RELEASING
    take_in(state, FAILED)
    assert state.cluster.pods["uid-a"].status == RUNNING
    assert state.cluster.eviction_backoff == {"uid-a": state.now_ns + EVICTION_BACKOFF_NS}


def test_a_snapshot_keeps_what_is_leaving(state: State) -> None:
    take_in(state, DECIDED)
    restored = restore(take(state), FEATURES)
    restored.validate()
    assert restored.evictions == state.evictions
    assert restored.cluster.pods["uid-a"].status == RELEASING


def test_an_eviction_outcome_from_before_a_server_rollback_is_ignored(
    state: State,
) -> None:
    take_in(state, DECIDED)
    take_in(state, WatchClosed(resource="Pod", resource_version="9", cause="expired", has_gap=True))
    assert state.cluster.pods["uid-a"].status == RELEASING
    gap = WatchClosed(resource="Pod", resource_version="9", cause=WENT_BACK, has_gap=True)
    take_in(state, EVICTED, gap)
    assert state.cluster.pods["uid-a"].status == RUNNING
    assert state.cluster.nodes.nodes["n1"].future("cpu") == 3000
    take_in(state, DECIDED, gap)
    assert state.evictions == {}


@pytest.fixture
def harness() -> EngineHarness:
    """A full node, on which pods of a higher priority wait in two namespaces."""
    policy: dict[str, object] = {
        "actions": "allocate, preempt",
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "predicates"}]}],
    }
    found = EngineHarness(policy=policy)
    found.show_all("Node", node("n1", cpu=1))
    found.show_all("Pod", pod("v1", on="n1", phase="Running"), urgent("b", "default"))
    found.show_the_rest()
    found.cycle()
    return found


def urgent(name: str, namespace: str) -> bytes:
    """A pod of a high priority that waits."""
    return pod(
        name, f"uid-{namespace}-{name}", metadata={"namespace": namespace}, spec={"priority": 9}
    )


def test_a_tenant_that_used_up_its_share_evicts_no_more_for_a_while_and_others_take_the_same_victim(
    harness: EngineHarness,
) -> None:
    first = next(iter(harness.state.evictions.values()))
    refuse(harness, first.uid)
    assert first.uid not in harness.state.cluster.eviction_backoff
    harness.cycle(1)
    assert not harness.state.evictions
    harness.see(ObjectSeen(urgent("c", "other")))
    harness.cycle(1)
    assert [one.in_favour_of for one in harness.state.evictions.values()] == [
        "other/podgroup-uid-other-c"
    ]
    restored = restore(take(harness.state), FEATURES)
    restored.validate()
    assert restored.cluster.eviction_pauses == harness.state.cluster.eviction_pauses != {}
    assert restored.next_deadline_ns == harness.state.next_deadline_ns


def test_the_tenant_evicts_again_after_its_pause(harness: EngineHarness) -> None:
    first = next(iter(harness.state.evictions.values()))
    refuse(harness, first.uid)
    harness.cycle(14)
    assert not harness.state.evictions
    assert harness.engine.is_due(harness.now_ns + 1_000_000_000)
    harness.cycle(1)
    assert [one.in_favour_of for one in harness.state.evictions.values()] == [first.in_favour_of]
    assert not harness.state.cluster.eviction_pauses


def refuse(harness: EngineHarness, uid: str) -> None:
    """Refuse the eviction of a pod because its share is used up."""
    requests = [one for one in harness.engine.requests() if isinstance(one, EvictRequest)]
    answers = [Answer(one, Rejected("EvictionShare", "used up")) for one in requests]
    assert [one.request.uid for one in answers] == [uid]
    batch = harness.engine.report(answers, harness.now_ns)
    assert batch is not None
    harness.state.validate()
