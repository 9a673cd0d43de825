"""A node that is not ready counts in shares for a stated time, which is a deadline in State."""

from events.messages import DeletionSeen, ObjectSeen
from features.table import FEATURES
from projections.cluster import Cluster
from projections.policy.policy import parse_policy
from projections.snapshot import restore, take
from tests.scheduling.builders import SECOND, EngineHarness, raw


def node(name: str, status: str = "True", since: str | None = None, uid: str = "") -> bytes:
    """A node of four cpus whose condition `Ready` has this status, and perhaps says since when."""
    condition = {
        "type": "Ready",
        "status": status,
        **({"lastTransitionTime": since} if since else {}),
    }
    shown = {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [condition]}
    return raw("Node", name, uid, spec={}, status=shown)


def started(*nodes: bytes, timeout: str = "") -> EngineHarness:
    """Return an engine that has seen these nodes."""
    arguments = [{"name": "cycle", "arguments": {"notReadyTimeout": timeout}}] if timeout else []
    policy: dict[str, object] = {"actions": "allocate", "tiers": [], "configurations": arguments}
    harness = EngineHarness(policy=policy)
    harness.show_all("Node", *nodes)
    harness.show_the_rest()
    return harness


def cpus(harness: EngineHarness) -> int:
    """Return how much cpu counts, in milli."""
    return harness.state.cluster.resources.allocatable.get("cpu", 0)


def test_the_time_begins_with_the_first_cycle_after_the_node_became_unready() -> None:
    harness = started(node("n1"), node("n2"))
    harness.cycle()
    harness.now_ns += 3600 * SECOND  # Nothing happened in this hour, so there was no cycle.
    harness.see(ObjectSeen(node("n2", "Unknown")))
    assert harness.state.next_deadline_ns == 0, "a cycle is due that gives the time"
    harness.cycle()
    assert harness.state.next_deadline_ns == harness.now_ns + 300 * SECOND
    harness.cycle(299)
    assert cpus(harness) == 8000
    harness.cycle(1)
    assert cpus(harness) == 4000
    assert harness.state.next_deadline_ns is None


def test_a_node_that_is_ready_again_counts_at_once_and_has_the_whole_time_again() -> None:
    harness = started(node("n1"), node("n2"), timeout="60s")
    for _ in range(2):
        harness.see(ObjectSeen(node("n2", "False")))
        harness.cycle()
        harness.cycle(60)
        assert cpus(harness) == 4000
        harness.see(ObjectSeen(node("n2")))
        assert cpus(harness) == 8000
        assert harness.state.next_deadline_ns is None


def test_a_node_seen_unready_at_first_counts_by_the_time_that_it_states() -> None:
    # Virtual time begins with the epoch.
    harness = started(
        node("long-ago", "Unknown"),
        node("shortly-before", "Unknown", "1970-01-01T00:00:10Z"),
        node("in-the-future", "Unknown", "1980-01-01T00:00:00Z"),
    )
    harness.cycle(100)
    assert harness.state.cluster.unready_nodes.uncounted == {"long-ago": None}
    assert harness.state.next_deadline_ns == 310 * SECOND
    harness.cycle(210)
    assert list(harness.state.cluster.unready_nodes.uncounted) == ["long-ago", "shortly-before"]
    assert harness.state.next_deadline_ns == 400 * SECOND


def test_changes_of_an_unready_node_do_not_begin_its_time_again() -> None:
    harness = started(node("n1"))
    harness.see(ObjectSeen(node("n1", "Unknown")))
    harness.cycle()
    harness.cycle(200)
    harness.see(ObjectSeen(node("n1", "False")))
    harness.cycle(100)
    assert cpus(harness) == 0


def test_a_deleted_node_leaves_nothing() -> None:
    harness = started(node("n1", "Unknown"), node("n2"))
    harness.cycle()
    harness.see(DeletionSeen(node("n1", "Unknown")))
    assert not harness.state.cluster.unready_nodes.since_ns
    assert not harness.state.cluster.unready_nodes.uncounted
    assert cpus(harness) == 4000


def test_another_policy_holds_for_nodes_that_are_unready_already() -> None:
    harness = started(node("n1"), timeout="60s")
    harness.see(ObjectSeen(node("n1", "Unknown")))
    harness.cycle()
    harness.cycle(60)
    assert cpus(harness) == 0
    harness.change_policy({"actions": "allocate", "tiers": []})
    harness.see(ObjectSeen(node("n2", "Unknown")))
    harness.cycle()
    assert cpus(harness) == 4000
    assert harness.state.next_deadline_ns == 301 * SECOND


def test_a_snapshot_keeps_which_nodes_count_and_since_when_the_others_do_not() -> None:
    harness = started(node("n1"), node("n2", "Unknown"))
    harness.see(ObjectSeen(node("n1", "Unknown")))
    harness.cycle()
    restored = restore(take(harness.state), FEATURES)
    restored.validate()
    assert restored.cluster.unready_nodes.since_ns == harness.state.cluster.unready_nodes.since_ns
    assert restored.cluster.resources.allocatable == {"cpu": 4000, "pods": 110}
    assert restored.next_deadline_ns == harness.state.next_deadline_ns


def test_the_default_is_five_minutes() -> None:
    cluster = Cluster(FEATURES)
    cluster.set_policy(parse_policy(b"{}", FEATURES.policy_table)[0])
    assert cluster.policy.action_arguments.not_ready_ns == 300 * SECOND
