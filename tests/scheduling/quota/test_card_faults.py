"""What of labels and annotations about cards cannot be used: one record each time that it changes."""

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.messages import ObjectSeen
from projections.snapshot import restore, take
from tests.scheduling.given import Told, gone, node, pod, raw

TWO = {"nvidia.com/gpu.product": "V100", "example.com/card.product": "X"}
ONE = {"example.com/card.product": "X"}
REQUEST = "volcano.sh/card.request"


def begun(*groups: bytes, labels: dict[str, str]) -> Told:
    """A step that has seen one node with these labels, these pod groups, and whatever else there is."""
    told = Told()
    told.show_all("Node", node("n1", labels=labels))
    told.show_all("PodGroup", *groups)
    told.show_the_rest()
    told.cycle()
    return told


def faults(told: Told) -> list[tuple[str, str]]:
    """Subject and code of each fault recorded since this was last asked."""
    records, told.records = told.records, []
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
    told = begun(labels=TWO)
    assert faults(told) == [("Node//n1", "SeveralProductLabels")]
    told.see(ObjectSeen(node("n1", cpu=5, labels=TWO)))
    told.cycle()
    assert faults(told) == []
    told.see(ObjectSeen(node("n1", cpu=5, labels=ONE)))
    told.cycle()
    assert faults(told) == []
    told.see(ObjectSeen(node("n1", cpu=5, labels=TWO)))
    told.cycle()
    assert faults(told) == [("Node//n1", "SeveralProductLabels")]


def test_an_invalid_quantity_is_reported_and_counts_as_zero() -> None:
    told = begun(labels=ONE)
    amounts = {"cpu": "4", "pods": "110", "example.com/card": "many"}
    told.see(ObjectSeen(raw("Node", "n1", spec={}, status={"allocatable": amounts})))
    told.cycle()
    assert faults(told) == [("Node//n1", "InvalidQuantity")]
    assert told.state.cluster.totals.get("example.com/card", 0) == 0


def test_the_config_error_of_a_recreated_node_is_reported_again() -> None:
    told = begun(labels=TWO)
    assert faults(told) != []
    told.see(gone(node("n1", labels=TWO)))
    told.see(ObjectSeen(node("n1", "other", labels=TWO)))
    told.cycle()
    assert faults(told) == [("Node//n1", "SeveralProductLabels")]


def test_a_restored_state_does_not_tell_a_fault_twice() -> None:
    told = begun(labels=TWO)
    book = restore(take(told.state)).cluster.config_errors
    assert book.current == told.state.cluster.config_errors.current
    assert book.reported == told.state.cluster.config_errors.reported
    assert book.unreported == {}


def test_a_malformed_card_request_is_reported_and_requests_nothing() -> None:
    told = begun(group('{"X": "2"}', phase="Pending"), labels=ONE)
    assert faults(told) == [("PodGroup/default/g", "InvalidCardRequest")]
    assert told.state.cluster.groups["default/g"].phase == "Inqueue"
    told.see(ObjectSeen(group('{"X": 2}')))
    told.cycle()
    assert faults(told) == []
    told.see(ObjectSeen(group("[]")))
    told.cycle()
    assert faults(told) == [("PodGroup/default/g", "InvalidCardRequest")]


def test_pods_count_where_they_ask_for_other_cards_than_their_group_said() -> None:
    told = begun(group('{"X": 3}'), labels=ONE)
    metadata = {
        "annotations": {
            "scheduling.k8s.io/group-name": "g",
            "volcano.sh/card.name": "X",
        }
    }
    told.see(ObjectSeen(pod("p", cards=2, metadata=metadata)))
    told.cycle()
    assert faults(told) == [("PodGroup/default/g", "CardRequestDiffers")]
    assert told.state.cluster.queues["default"].allocated["X"] == 2
    told.see(ObjectSeen(group('{"X": 3}', phase="Running")))
    told.cycle()
    assert faults(told) == []


def test_pods_that_ask_for_the_cards_their_group_said_are_no_fault() -> None:
    told = begun(group('{"X|Y": 2}'), labels=ONE)
    metadata = {
        "annotations": {
            "scheduling.k8s.io/group-name": "g",
            "volcano.sh/card.name": "X",
        }
    }
    told.see(ObjectSeen(pod("p", cards=2, metadata=metadata)))
    told.cycle()
    assert faults(told) == []
