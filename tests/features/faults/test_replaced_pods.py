"""Which pod of a job that is restarted replaces which one of before."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from events.decisions.reschedule import RestartedPod
from projections.objects import PodObject
from projections.pod_class import PodClass
from projections.pods import ObservedPod, Pod, pod_facts, pod_of
from projections.previous_nodes import match_members
from tests.scheduling.builders import ALL_FAMILIES


def pod(name: str, rank: int | None = None) -> Pod:
    """Return a pending pod."""
    annotations = {} if rank is None else {"hccl/rankIndex": str(rank)}
    content = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"new-{name}",
            "annotations": annotations,
        },
        "spec": {"schedulerName": "muster"},
    }
    found = msgspec.convert(content, PodObject)
    return pod_of(ObservedPod(pod_facts(found, ALL_FAMILIES)[0], PodClass(index=0, request=()), ""))


def member(name: str, rank: int = -1, fault: str = "") -> RestartedPod:
    """Return a pod that the job had."""
    return RestartedPod(
        pod=f"default/{name}", uid=f"old-{name}", node=f"n-{name}", rank=rank, fault=fault
    )


def names(found: dict[str, RestartedPod]) -> dict[str, str]:
    """Return new pods with the ones that they replace."""
    return {uid: one.uid for uid, one in found.items()}


def test_a_pod_of_the_same_name_replaces_the_one_of_before() -> None:
    members = [member("a", 0), member("b", 1)]
    assert names(match_members(members, [pod("b"), pod("a")])) == {
        "new-b": "old-b",
        "new-a": "old-a",
    }


def test_a_pod_of_the_same_rank_replaces_the_one_of_before() -> None:
    members = [member("a", 0), member("b", 1)]
    assert names(match_members(members, [pod("x", 1), pod("y", 0)])) == {
        "new-x": "old-b",
        "new-y": "old-a",
    }


def test_others_replace_healthy_pods_first_in_the_order_of_their_ranks() -> None:
    members = [member("a", 2), member("b", 1, "NodeUnhealthy"), member("c", 0)]
    assert names(match_members(members, [pod("x"), pod("y"), pod("z")])) == {
        "new-x": "old-c",
        "new-y": "old-a",
        "new-z": "old-b",
    }


def test_pods_beyond_those_of_before_replace_none() -> None:
    assert names(match_members([member("a", 0)], [pod("a"), pod("b")])) == {"new-a": "old-a"}


@given(
    members=st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.integers(-1, 3), st.sampled_from(["", "pod-failed"])
        ),
        unique_by=lambda one: one[0],
    ),
    pods=st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.none() | st.integers(0, 3)),
        unique_by=lambda one: one[0],
    ),
)
def test_each_pod_replaces_one_at_most_and_none_is_left_while_there_are_both(
    members: list[tuple[str, int, str]], pods: list[tuple[str, int | None]]
) -> None:
    before = [member(*one) for one in members]
    after = [pod(*one) for one in pods]
    found = match_members(before, after)
    replaced = [one.uid for one in found.values()]
    assert len(set(replaced)) == len(replaced) == min(len(before), len(after))
    assert set(found) <= {one.facts.uid for one in after}
