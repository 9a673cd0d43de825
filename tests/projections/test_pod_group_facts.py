"""What is read of a PodGroup."""

import pytest

from projections.group_facts import GroupFacts, group_facts
from projections.objects import Metadata, PodGroupObject, PodGroupSpec, Quantities
from tests.scheduling.builders import ALL_FAMILIES


def facts_with(**annotations: str) -> GroupFacts:
    """The facts of a group with annotations of `volcano.sh`."""
    given = {f"volcano.sh/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return group_facts(PodGroupObject(metadata=Metadata(name="g", annotations=given)), ALL_FAMILIES)


def test_a_group_says_how_long_it_may_wait() -> None:
    facts = facts_with(sla_waiting_time="1m30s")
    assert (facts.waiting_ns, facts.faults) == (90_000_000_000, ())
    assert facts_with().waiting_ns is None


@pytest.mark.parametrize("text", ["soon", "", "-5s"])
def test_a_waiting_time_that_is_none_is_a_fault_and_counts_for_nothing(text: str) -> None:
    facts = facts_with(sla_waiting_time=text)
    assert facts.waiting_ns is None
    assert [code for code, _ in facts.faults] == ["InvalidWaitingTime"]


WRITTEN_BY_CONTROLLERS: Quantities = {
    "count/pods": "2",
    "pods": "2",
    "cpu": "200m",
    "requests.cpu": "200m",
    "limits.cpu": "500m",
    "memory": "1Gi",
    "requests.memory": "1Gi",
    "limits.memory": "1Gi",
    "ephemeral-storage": "1Gi",
    "requests.ephemeral-storage": "1Gi",
    "hugepages-2Mi": "4Mi",
    "requests.hugepages-2Mi": "4Mi",
    "nvidia.com/gpu": "2",
    "requests.nvidia.com/gpu": "2",
    "attachable-volumes-aws-ebs": "3",
    "kubernetes.io/batch": "1",
    "services": "5",
    "count/jobs.batch": "1",
    "requests.storage": "many",
}


def test_names_of_quotas_in_the_minimum_count_for_nothing_whatever_their_values() -> None:
    spec = PodGroupSpec(minResources=WRITTEN_BY_CONTROLLERS)
    facts = group_facts(PodGroupObject(metadata=Metadata(name="g"), spec=spec), ALL_FAMILIES)
    assert facts.problem == ""
    assert facts.min_resources == {
        "pods": 2,
        "cpu": 200,
        "memory": 1 << 30,
        "ephemeral-storage": 1 << 30,
        "hugepages-2Mi": 4 << 20,
        "nvidia.com/gpu": 2,
        "attachable-volumes-aws-ebs": 3,
        "kubernetes.io/batch": 1,
    }


def test_a_minimum_of_names_of_quotas_alone_is_stated_and_empty() -> None:
    spec = PodGroupSpec(minResources={"count/pods": "1", "limits.cpu": "100m"})
    facts = group_facts(PodGroupObject(metadata=Metadata(name="g"), spec=spec), ALL_FAMILIES)
    assert (facts.min_resources, facts.problem) == ({}, "")
