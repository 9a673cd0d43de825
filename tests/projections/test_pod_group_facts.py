"""What is read of a PodGroup."""

import pytest

from projections.group_facts import GroupFacts, group_facts
from projections.objects import Metadata, PodGroupObject


def facts_with(**annotations: str) -> GroupFacts:
    """The facts of a group with annotations of `volcano.sh`."""
    given = {f"volcano.sh/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return group_facts(PodGroupObject(metadata=Metadata(name="g", annotations=given)))


def test_a_group_says_how_long_it_may_wait() -> None:
    facts = facts_with(sla_waiting_time="1m30s")
    assert (facts.waiting_ns, facts.faults) == (90_000_000_000, ())
    assert facts_with().waiting_ns is None


@pytest.mark.parametrize("text", ["soon", "", "-5s"])
def test_a_waiting_time_that_is_none_is_a_fault_and_counts_for_nothing(text: str) -> None:
    facts = facts_with(sla_waiting_time=text)
    assert facts.waiting_ns is None
    assert [code for code, _ in facts.faults] == ["InvalidWaitingTime"]
