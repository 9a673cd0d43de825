"""What is kept of pods that are gone: nothing that grows with how many there ever were."""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest

from engine.engine import Engine
from events.messages import DeletionSeen, ObjectSeen
from events.normalize import Json, JsonObject
from events.sized_cache import ENTRY_BYTES, SHARE, length, sized_cache
from features.table import FEATURES
from projections.pod_class import PodClass
from projections.snapshot import restore, take
from tests.checkout import ROOT
from tests.properties.witness import same
from tests.scheduling.builders import EngineHarness, node, pod

GROWTH_MAX = 1.2
"""How much more memory may be used once what was created is deleted than before."""


def unlike(turn: int, number: int, tolerations: int = 3) -> bytes:
    """A pod that is like no other and finds no node."""
    named: list[Json] = [
        {"key": f"k-{turn}-{number}-{one}", "operator": "Exists"} for one in range(tolerations)
    ]
    spec: JsonObject = {"tolerations": named, "nodeSelector": {"nowhere": "to be found"}}
    return pod(f"p{number}", f"u-{turn}-{number}", spec=spec)


def begun() -> EngineHarness:
    """A step with nodes."""
    harness = EngineHarness()
    harness.show_all("Node", node("n0"), node("n1"))
    harness.show_the_rest()
    return harness


def one_turn(harness: EngineHarness, turn: int, count: int, tolerations: int = 3) -> Iterator[None]:
    """Pods come, are refused, and (once this is asked for more) go."""
    shown = [unlike(turn, number, tolerations) for number in range(count)]
    harness.see(*map(ObjectSeen, shown))
    harness.cycle()
    yield
    harness.see(*map(DeletionSeen, shown))
    harness.cycle()
    harness.records.clear()
    harness.batches.clear()


def test_a_class_goes_with_its_last_pod_and_its_index_is_not_used_again() -> None:
    harness = begun()
    classes = harness.state.cluster.inter_pod_affinity.classes
    harness.see(ObjectSeen(unlike(0, 0)), ObjectSeen(unlike(0, 1)))
    harness.cycle()
    twin = unlike(0, 0).replace(b'"p0"', b'"p9"').replace(b'"u-0-0"', b'"u-9"')
    harness.see(ObjectSeen(twin))
    assert list(classes.by_index) == [0, 1]
    harness.see(DeletionSeen(unlike(0, 0)), DeletionSeen(unlike(0, 1)))
    assert list(classes.by_index) == [0]
    harness.see(DeletionSeen(twin))
    harness.see(ObjectSeen(unlike(0, 0)))
    assert list(classes.by_index) == [2]
    assert list(harness.state.cluster.charges) == [2]


def test_a_state_from_a_snapshot_gives_classes_the_same_indexes() -> None:
    harness, again = begun(), begun()
    for turn in range(3):
        for _ in one_turn(harness, turn, 5):
            pass
    keeps = unlike(9, 9)
    harness.see(ObjectSeen(keeps))
    again.engine = Engine(restore(take(harness.state), FEATURES), harness.engine.head)
    for one in (harness, again):
        one.show_all("Pod", keeps, unlike(10, 0))
        assert list(one.state.cluster.inter_pod_affinity.classes.by_index) == [15, 16]
    same(harness.state, again.state)


def test_a_group_does_not_remember_the_classes_of_pods_that_are_gone() -> None:
    harness = begun()
    grouped = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    keeps = pod("keeps", metadata=grouped, spec={"nodeSelector": {"no": "where"}})
    harness.see(ObjectSeen(keeps))
    for number in range(5):
        one = pod(f"p{number}", metadata=grouped, spec={"nodeSelector": {"no": f"{number}"}})
        harness.see(ObjectSeen(one))
        harness.cycle()
        harness.see(DeletionSeen(one))
    group = harness.state.cluster.groups["default/g"]
    assert [*group.classes] == [*group.live_classes] == [0]


def test_nothing_of_pods_that_are_gone_is_kept_for_deciding() -> None:
    harness = begun()
    for turn in range(4):
        for _ in one_turn(harness, turn, 30):
            assert len(harness.state.cluster.inter_pod_affinity.classes.by_index) == 30
    gc.collect()
    there = [one for one in gc.get_objects() if isinstance(one, PodClass) and one.tolerations]
    assert len(there) == 0
    assert harness.state.cluster.charges == {}


def test_memory_returns_to_where_it_was() -> None:
    harness = begun()
    tracemalloc.start()
    try:
        used: list[int] = []
        full = 0
        for turn in range(6):
            for _ in one_turn(harness, turn, 10, 900):
                full = tracemalloc.get_traced_memory()[0]
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
        assert full - used[-1] > 1_000_000
        # What is left after six turns is little of what is taken in one.
        assert used[-1] - used[0] < (full - used[-1]) // 10
    finally:
        tracemalloc.stop()


def test_a_cache_of_text_is_bounded_in_bytes_and_forgets_what_is_not_asked() -> None:
    asked: list[str] = []

    @sized_cache(SHARE * (ENTRY_BYTES + 1000), length)
    def half(text: str) -> str:
        asked.append(text)
        return text[: len(text) // 2]

    large = "x" * 1001
    for _ in range(2):
        assert half(large) == "x" * 500
    assert asked == [large, large]
    for number in range(SHARE * 10):
        half("always")
        half(f"{number:01000}")
    assert asked.count("always") == 1
    half(f"{0:01000}")
    assert asked.count(f"{0:01000}") == 2
    half(f"{0:01000}")
    assert asked.count(f"{0:01000}") == 2


@pytest.mark.soak
@pytest.mark.parametrize("tolerations", [10_000, 990])
def test_the_memory_of_a_process_returns(tolerations: int) -> None:
    """240 pods that are like no other, created and deleted, 12 times over, in a process of its own."""
    command = [sys.executable, "-m", "tests.projections.churn", "12", "240", str(tolerations)]
    harness = subprocess.run(  # noqa: S603  # our own interpreter
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    after = [int(line) for line in harness.stdout.split()]
    sys.stdout.write(f"{tolerations} tolerations, resident MiB, before and after turns: {after}\n")
    assert after[-1] <= GROWTH_MAX * after[1]
