"""The pods that the minimum of a group is made of, counted by class, against the plain definition."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from projections.gang_minimum import MinMemberSet
from projections.index_audit import check_same
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pods import FAILED, GONE, RELEASING, SUCCEEDED, ObservedPod, Pod, PodFacts, pod_of
from projections.quota_charging import min_member_classes

CLASSES = [
    PodClass(index=0, request=(("cpu", 1), ("pods", 1))),
    PodClass(index=1, request=(("cpu", 2), ("pods", 1))),
    PodClass(index=2, request=(("cpu", 2), ("pods", 1)), unsupported="something"),
]
PHASES = ("Pending", "Running", "Succeeded", "Failed")

shapes = st.tuples(
    st.integers(0, 2), st.sampled_from(["", "a", "b"]), st.sampled_from(PHASES), st.integers(0, 3)
)


def pod(uid: str, shape: tuple[int, str, str, int]) -> Pod:
    """A pod of a class, with a role, a phase and an index."""
    of_class, role, phase, index = shape
    facts = PodFacts(
        namespace="default",
        name=uid,
        uid=uid,
        node="n1" if phase != "Pending" else "",
        phase=phase,
        scheduler="muster",
        priority=None,
        priority_class="",
        is_gated=False,
        is_releasing=False,
        created_ns=0,
        group_name="g",
        needs_group_object=True,
        min_member=1,
        queue="",
        role=role,
        index=index,
        task_priority=1,
        owner=None,
    )
    return pod_of(ObservedPod(facts, CLASSES[of_class], ""))


def expected(pods: list[Pod], wanted: int, roles: dict[str, int]) -> dict[tuple[object, ...], int]:
    """Request to how many of the first pods make it: of each role its least, then all by their heading."""
    live = sorted(
        (one for one in pods if one.status not in (SUCCEEDED, FAILED, RELEASING)),
        key=lambda one: one.sort_key,
    )
    first = [
        one
        for role, least in roles.items()
        for one in [each for each in live if each.facts.role == role][:least]
    ]
    chosen = [*first, *(one for one in live if one not in first)][:wanted]
    found: dict[tuple[object, ...], int] = {}
    for one in chosen:
        found[one.pod_class.request] = found.get(one.pod_class.request, 0) + 1
    return found


@given(
    made=st.lists(shapes, max_size=8),
    wanted=st.integers(0, 8),
    roles=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3)),
)
def test_the_first_pods_are_counted_by_what_they_ask_for(
    made: list[tuple[int, str, str, int]], wanted: int, roles: dict[str, int]
) -> None:
    group = PodGroup("default/g")
    group.observed = structs.replace(group.observed, min_available=wanted, min_tasks=roles)
    pods = [pod(f"p-{number}", shape) for number, shape in enumerate(made)]
    for one in pods:
        group.add_pod(one)
    found: dict[tuple[object, ...], int] = {}
    for of_class, count in min_member_classes(group):
        found[of_class.request] = found.get(of_class.request, 0) + count
    found = {request: count for request, count in found.items() if count}
    assert found == expected(pods, wanted, group.enforced_roles)


@given(
    made=st.lists(st.tuples(st.integers(0, 7), shapes), max_size=20),
    wanted=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    roles=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3)),
)
def test_the_first_pods_stay_in_line_as_pods_come_change_and_go(
    made: list[tuple[int, tuple[int, str, str, int]]], wanted: list[int], roles: dict[str, int]
) -> None:
    group = PodGroup("default/g")
    for turn, (number, shape) in enumerate(made):
        least = wanted[turn % len(wanted)]
        group.observed = structs.replace(group.observed, min_available=least, min_tasks=roles)
        known, came = group.pods.get(f"p-{number}"), pod(f"p-{number}", shape)
        if known is not None:
            group.remove_pod(known)
        if known is None or shape[3]:
            group.add_pod(came)
        live = [one for one in group.pods.values() if one.status not in GONE]
        group.keep_min_members()
        assert group.min_member_set.wanted == group.observed.min_available
        found = group.min_member_set
        assert found.classes() == sorted_classes(found, live)
        check_same("the gang's first pods", found, found.rebuilt(live))


def sorted_classes(found: MinMemberSet, pods: list[Pod]) -> list[tuple[int, int]]:
    """Class index and number of the first pods, by sorting all of them."""
    missing = dict(found.roles)
    first: list[int] = []
    others: list[int] = []
    for one in sorted(pods, key=lambda pod: pod.sort_key):
        least = missing.get(one.facts.role, 0)
        missing[one.facts.role] = least - 1
        (first if least > 0 else others).append(one.pod_class.index)
    return list(Counter([*first, *others][: found.wanted]).items())
