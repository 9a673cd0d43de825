"""What is read of a Queue."""

import pytest

from projections.objects import Guarantee, Metadata, QueueObject, QueueSpec
from projections.queues import QueueFacts, queue_facts


def facts_with(**annotations: str) -> QueueFacts:
    """The facts of a queue with annotations of `volcano.sh`."""
    given = {f"volcano.sh/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return queue_facts(QueueObject(metadata=Metadata(name="q", annotations=given)))


def test_a_path_has_a_weight_at_each_step() -> None:
    facts = facts_with(hierarchy="root/eng/dev", hierarchy_weights="100/2.5/0")
    assert facts.path == (("root", 100_000), ("eng", 2_500), ("dev", 1_000))
    assert facts.faults == ()
    assert facts_with(hierarchy_weights="1").path == ()


@pytest.mark.parametrize("weights", ["", "1/2", "1/x/3", "1/-2/3"])
def test_weights_that_do_not_fit_the_path_are_a_fault_and_count_as_one(weights: str) -> None:
    facts = facts_with(hierarchy="root/eng/dev", hierarchy_weights=weights)
    assert [name for name, _ in facts.path] == ["root", "eng", "dev"]
    assert all(weight >= 1_000 for _, weight in facts.path)
    assert [code for code, _ in facts.faults] == ["InvalidHierarchy"]


def test_a_name_of_a_quota_is_no_limit_of_a_queue_and_is_reported() -> None:
    spec = QueueSpec(capability={"cpu": "4", "requests.cpu": "1500m", "count/pods": "5"})
    facts = queue_facts(QueueObject(metadata=Metadata(name="q"), spec=spec))
    assert facts.capability == {"cpu": 4000}
    assert facts.faults == tuple(
        (
            "InvalidQuantity",
            f"spec.capability: '{name}' is a name of a ResourceQuota and no resource; it counts as absent",
        )
        for name in ("requests.cpu", "count/pods")
    )


def test_a_guarantee_is_cut_to_the_capability_and_a_negative_one_counts_as_nothing() -> None:
    spec = QueueSpec(
        capability={"cpu": "4", "memory": "0", "example.com/card": "0"},
        guarantee=Guarantee(
            resource={"cpu": "5", "memory": "1Gi", "example.com/card": "1", "pods": "-1"}
        ),
    )
    facts = queue_facts(QueueObject(metadata=Metadata(name="q"), spec=spec))
    assert facts.guarantee == {"cpu": 4000, "memory": 1 << 30, "example.com/card": 0, "pods": 0}
    assert [text.partition(":")[0].partition(" ")[0] for _, text in facts.faults] == [
        "spec.guarantee.pods",
        "spec.guarantee.cpu",
        "spec.guarantee.example.com/card",
    ]
