"""What of labels and annotations about cards cannot be used: one record each time that it changes."""

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.messages import ObjectSeen
from features.table import FEATURES
from projections.snapshot import restore, take
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

TWO = {"nvidia.com/gpu.product": "V100", "example.com/card.product": "X"}
ONE = {"example.com/card.product": "X"}
REQUEST = "volcano.sh/card.request"


def begun(*groups: bytes, labels: dict[str, str]) -> EngineHarness:
    """A step that has seen one node with these labels, these pod groups, and whatever else there is."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1", labels=labels))
    harness.show_all("PodGroup", *groups)
    harness.show_the_rest()
    harness.cycle()
    return harness


def faults(harness: EngineHarness) -> list[tuple[str, str]]:
    """Subject and code of each fault recorded since this was last asked."""
    records, harness.records = harness.records, []
    events = [event_of(one) for one in records]
    return [(one.subject, one.code) for one in events if isinstance(one, ConfigInvalid)]


def group(request: str, *, phase: str = "Inqueue") -> bytes:
    """A pod group that asks for these cards."""
    return raw(
        "PodGroup",
        "g",
        metadata={"annotations": {REQUEST: request}},
        spec={"minMember": 1, "queue": "default", "minResources": {"cpu": "1"}},
        status={"phase": phase},
    )


def test_two_product_labels_are_reported_once_and_again_when_they_return() -> None:
    harness = begun(labels=TWO)
    assert faults(harness) == [("Node//n1", "SeveralProductLabels")]
    harness.see(ObjectSeen(node("n1", cpu=5, labels=TWO)))
    harness.cycle()
    assert faults(harness) == []
    harness.see(ObjectSeen(node("n1", cpu=5, labels=ONE)))
    harness.cycle()
    assert faults(harness) == []
    harness.see(ObjectSeen(node("n1", cpu=5, labels=TWO)))
    harness.cycle()
    assert faults(harness) == [("Node//n1", "SeveralProductLabels")]


def test_an_invalid_quantity_is_reported_and_counts_as_zero() -> None:
    harness = begun(labels=ONE)
    amounts = {"cpu": "4", "pods": "110", "example.com/card": "many"}
    harness.see(ObjectSeen(raw("Node", "n1", spec={}, status={"allocatable": amounts})))
    harness.cycle()
    assert faults(harness) == [("Node//n1", "InvalidQuantity")]
    assert harness.state.cluster.resources.allocatable.get("example.com/card", 0) == 0


def test_the_config_error_of_a_recreated_node_is_reported_again() -> None:
    harness = begun(labels=TWO)
    assert faults(harness) != []
    harness.see(gone(node("n1", labels=TWO)))
    harness.see(ObjectSeen(node("n1", "other", labels=TWO)))
    harness.cycle()
    assert faults(harness) == [("Node//n1", "SeveralProductLabels")]


def test_a_restored_state_does_not_tell_a_fault_twice() -> None:
    harness = begun(labels=TWO)
    book = restore(take(harness.state), FEATURES).cluster.config_errors
    assert book.current == harness.state.cluster.config_errors.current
    assert book.reported == harness.state.cluster.config_errors.reported
    assert book.unreported == {}


def test_a_malformed_card_request_is_reported_and_requests_nothing() -> None:
    harness = begun(group('{"X": "2"}', phase="Pending"), labels=ONE)
    assert faults(harness) == [("PodGroup/default/g", "InvalidCardRequest")]
    assert harness.state.cluster.groups["default/g"].decided.phase == "Inqueue"
    harness.see(ObjectSeen(group('{"X": 2}')))
    harness.cycle()
    assert faults(harness) == []
    harness.see(ObjectSeen(group("[]")))
    harness.cycle()
    assert faults(harness) == [("PodGroup/default/g", "InvalidCardRequest")]


def test_pods_count_where_they_ask_for_other_cards_than_their_group_said() -> None:
    harness = begun(group('{"X": 3}'), labels=ONE)
    metadata = {
        "annotations": {
            "scheduling.k8s.io/group-name": "g",
            "volcano.sh/card.name": "X",
        }
    }
    harness.see(ObjectSeen(pod("p", cards=2, metadata=metadata)))
    harness.cycle()
    assert faults(harness) == [("PodGroup/default/g", "CardRequestDiffers")]
    assert harness.state.cluster.queues["default"].allocated["X"] == 2
    harness.see(ObjectSeen(group('{"X": 3}', phase="Running")))
    harness.cycle()
    assert faults(harness) == []


def test_pods_that_ask_for_the_cards_their_group_said_are_no_fault() -> None:
    harness = begun(group('{"X|Y": 2}'), labels=ONE)
    metadata = {
        "annotations": {
            "scheduling.k8s.io/group-name": "g",
            "volcano.sh/card.name": "X",
        }
    }
    harness.see(ObjectSeen(pod("p", cards=2, metadata=metadata)))
    harness.cycle()
    assert faults(harness) == []
