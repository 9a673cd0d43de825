"""Guarantees that cannot be kept stop no queue."""

from hypothesis import given, settings
from hypothesis import strategies as st

from events.messages import ObjectSeen
from features.table import FEATURES
from projections import snapshot
from scheduling.quota.real_capability import RealCapability
from tests.example_count import examples
from tests.scheduling.builders import EngineHarness, node, raw

POLICY: dict[str, object] = {"actions": "allocate", "tiers": [{"plugins": [{"name": "capacity"}]}]}


def queue(name: str, cpu: int) -> bytes:
    """A queue to which so many cpus are guaranteed."""
    return raw("Queue", name, spec={"guarantee": {"resource": {"cpu": str(cpu)}}})


def cluster(cpu: int, *guarantees: int) -> EngineHarness:
    """A cluster of one node in which queues have guarantees, and one has none."""
    harness = EngineHarness(policy=POLICY)
    harness.show_all("Node", node("n1", cpu=cpu))
    named = [queue(f"q{index}", one) for index, one in enumerate(guarantees)]
    harness.show_all("Queue", raw("Queue", "free", spec={}), *named)
    harness.show_the_rest()
    harness.cycle()
    return harness


def limit(harness: EngineHarness, name: str) -> int | None:
    """Return the cpus that a queue may use."""
    most = RealCapability(harness.state.cluster).of(harness.state.cluster.queues[name], "cpu")
    return None if most is None else most // 1000


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 20), max_size=6), st.integers(0, 16), st.integers(0, 16))
def test_queues_share_what_guarantees_that_can_be_kept_leave(
    guarantees: list[int], cpu: int, later: int
) -> None:
    harness = cluster(cpu, *guarantees)
    for total in (cpu, later):
        harness.see(ObjectSeen(node("n1", cpu=total)))
        harness.cycle()
        fitting = [one for one in guarantees if one <= total]
        are_kept = sum(fitting) <= total
        assert limit(harness, "free") == (total - sum(fitting) if are_kept else total)
        unkept = RealCapability(harness.state.cluster).unkept_guarantees()
        for index, one in enumerate(guarantees):
            is_kept = one <= total and are_kept
            assert (f"q{index}" in unkept) == (one > 0 and not is_kept)
            own = one if is_kept else 0
            beside = total - sum(fitting) if are_kept else total
            assert limit(harness, f"q{index}") == beside + own
        restored = snapshot.restore(snapshot.take(harness.state), FEATURES).cluster
        assert RealCapability(restored).unkept_guarantees() == unkept
        assert restored.config_errors.unreported == {}


def test_the_error_is_recorded_once_and_gone_when_it_can_be_kept() -> None:
    harness = cluster(4, 8)
    assert harness.kinds().count("config_invalid Queue//q0") == 1
    for cpu in (5, 6):
        harness.see(ObjectSeen(node("n1", cpu=cpu)))
        harness.cycle()
    assert "config_invalid Queue//q0" not in harness.kinds()
    harness.see(ObjectSeen(node("n1", cpu=8)))
    harness.cycle()
    assert not RealCapability(harness.state.cluster).unkept_guarantees()
    assert not harness.state.cluster.config_errors.current


def test_a_queue_that_gets_such_a_guarantee_makes_a_cycle_due_that_names_it() -> None:
    harness = cluster(4)
    harness.see(ObjectSeen(queue("q0", 8)))
    assert harness.engine.is_due(harness.now_ns)
    harness.cycle()
    assert "config_invalid Queue//q0" in harness.kinds()


def test_a_policy_without_guarantees_has_no_such_error() -> None:
    harness = cluster(4, 8)
    harness.change_policy({"actions": "allocate", "tiers": [{"plugins": [{"name": "priority"}]}]})
    assert not harness.state.cluster.config_errors.current
    harness.change_policy(POLICY)
    harness.cycle()
    assert list(RealCapability(harness.state.cluster).unkept_guarantees()) == ["q0"]
