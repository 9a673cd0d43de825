"""What is read of a pod: its place among the pods of its group, and whether it may be evicted (volcano A.5)."""

import pytest

from projections.objects import Metadata, PodObject, PodSpec
from projections.pods import PodFacts, pod_facts
from tests.scheduling.builders import ALL_FAMILIES


def facts_of(
    key: str, text: str | None, name: str = "g-7", priority: int | None = None
) -> PodFacts:
    """The facts of a pod with an annotation, if there is a text for it."""
    meta = Metadata(name=name, annotations={} if text is None else {f"volcano.sh/{key}": text})
    return pod_facts(PodObject(metadata=meta, spec=PodSpec(priority=priority)), ALL_FAMILIES)[0]


@pytest.mark.parametrize(
    ("priority", "annotation", "counts"),
    [
        (None, None, 1),
        (0, None, 0),
        (9, None, 9),
        (9, "5", 5),
        (9, "-5", -5),
        (None, "0", 0),
        (9, "high", 9),
        (None, "high", 1),
    ],
)
def test_a_priority_is_that_of_the_annotation_else_of_the_pod_else_one(
    priority: int | None, annotation: str | None, counts: int
) -> None:
    assert facts_of("task-priority", annotation, priority=priority).task_priority == counts


@pytest.mark.parametrize(
    ("name", "annotation", "counts"),
    [
        ("g-7", None, 7),
        ("g-07", None, 7),
        ("g", None, 0),
        ("g-7-x", None, 0),
        ("g-7", "3", 3),
        ("g-7", "three", 7),
    ],
)
def test_an_index_is_that_of_the_annotation_else_the_number_that_ends_the_name(
    name: str, annotation: str | None, counts: int
) -> None:
    assert facts_of("task-index", annotation, name).index == counts


@pytest.mark.parametrize(
    ("said", "may"),
    [
        (None, True),
        ("true", True),
        ("T", True),
        ("1", True),
        ("false", False),
        ("0", False),
        ("", False),
        ("yes", False),
    ],
)
def test_a_pod_may_be_evicted_unless_it_says_anything_but_true(said: str | None, may: bool) -> None:
    assert facts_of("preemptable", said).is_evictable is may
