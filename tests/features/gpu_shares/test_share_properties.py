"""What holds for shares of GPUs whatever pods come and go, and fragmentation against the formula as it is written."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from features.gpu_shares.fragmentation import (
    NodeState,
    TargetType,
    TargetWorkload,
    fragmentation_of,
)
from features.gpu_shares.free_gpus import (
    FreeGpu,
    FreeGpus,
    best_fit,
    has_place,
    place,
    released,
    share_of,
    take,
)
from features.gpu_shares.share_request import WHOLE, ShareRequest

MEMORIES = (0, 16, 1000, 15109, 81251)

requests = st.one_of(
    st.builds(
        ShareRequest, st.integers(1, 3), st.sampled_from((1, 30, 250, 333, 470, 500, 810, WHOLE))
    ),
    st.builds(
        lambda count, memory: ShareRequest(count, memory=memory),
        st.integers(1, 2),
        st.integers(1, 90000),
    ),
    st.builds(
        lambda milli, part: ShareRequest(1, milli, memory_milli=part),
        st.sampled_from((0, 100, 500)),
        st.integers(10, 1000),
    ),
)


def empty(count: int, memory: int, slots: int) -> FreeGpus:
    """GPUs that nothing uses."""
    return tuple(FreeGpu(WHOLE, memory, slots, memory, number) for number in range(count))


class Sharing(RuleBasedStateMachine):
    """Pods come and go on one node."""

    def __init__(self) -> None:
        super().__init__()
        self.gpus: FreeGpus = ()
        self.start: FreeGpus = ()
        self.held: list[tuple[ShareRequest, tuple[int, ...]]] = []

    @initialize(
        count=st.integers(1, 8),
        memory=st.sampled_from(MEMORIES),
        slots=st.sampled_from((1, 3, 1000)),
    )
    def begin(self, count: int, memory: int, slots: int) -> None:
        """Nothing is used yet."""
        self.gpus = self.start = empty(count, memory, slots)

    @rule(request=requests)
    def give(self, request: ShareRequest) -> None:
        """A pod gets GPUs if any set of them serves it, and none of the other sets fits better."""
        numbers = best_fit(request, self.gpus)
        assert numbers == by_brute_force(request, self.gpus)
        if not numbers:
            return
        whole = [gpu for gpu in self.gpus if gpu.number in numbers]
        if request.is_whole:
            assert all(gpu.milli == WHOLE and gpu.memory == gpu.capacity for gpu in whole)
        left = take(self.gpus, request, numbers)
        assert left is not None
        self.gpus = left
        self.held.append((request, numbers))

    @rule(containers=st.lists(requests, min_size=2, max_size=3))
    def give_to_containers(self, containers: list[ShareRequest]) -> None:
        """The containers of a pod get GPUs one after the other: each as many as it asks for, whole ones for itself."""
        found = place(tuple(containers), self.gpus)
        if found is None:
            return
        for request, numbers in zip(containers, found.numbers, strict=True):
            assert len({*numbers}) == request.count
            self.held.append((request, numbers))
        self.gpus = found.left

    @rule(index=st.integers(0, 100))
    def end(self, index: int) -> None:
        """A pod gives back what it has."""
        if not self.held:
            return
        request, numbers = self.held.pop(index % len(self.held))
        left = list(self.gpus)
        for number in numbers:
            share = share_of(request, left[number].capacity)
            assert share is not None
            left[number] = released(left[number], share)
        self.gpus = tuple(left)
        if not self.held:
            assert self.gpus == self.start

    @invariant()
    def no_gpu_is_overcommitted(self) -> None:
        """No GPU gives more thousandths, memory or places than it has, and what is used is what pods hold."""
        for gpu, before in zip(self.gpus, self.start, strict=True):
            assert 0 <= gpu.milli <= WHOLE
            assert 0 <= gpu.memory <= gpu.capacity
            assert 0 <= gpu.slots <= before.slots
            shares = [
                share_of(one, gpu.capacity) for one, numbers in self.held if gpu.number in numbers
            ]
            assert WHOLE - gpu.milli == sum(one.milli for one in shares if one)
            if any(one.milli == WHOLE for one in shares if one):
                assert len(shares) == 1, "a GPU that is given whole has one pod"


def by_brute_force(request: ShareRequest, gpus: FreeGpus) -> tuple[int, ...]:
    """Try all sets of GPUs."""
    best: tuple[list[tuple[int, int, int]], tuple[int, ...]] | None = None
    for picked in combinations(gpus, request.count):
        shares = [share_of(request, gpu.capacity) for gpu in picked]
        pairs = list(zip(picked, shares, strict=True))
        if any(share is None or not has_place(gpu, share) for gpu, share in pairs):
            continue
        left = [
            (gpu.milli - one.milli, gpu.memory - one.memory, gpu.number)
            for gpu, one in pairs
            if one
        ]
        found = sorted(left), tuple(gpu.number for gpu in picked)
        if best is None or found < best:
            best = found
    return () if best is None else best[1]


TestSharing = Sharing.TestCase

types = st.lists(
    st.builds(
        TargetType,
        st.integers(0, 64_000),
        st.integers(0, 1 << 40),
        st.integers(0, 8),
        st.sampled_from((0, 1, 190, 470, 810, WHOLE)),
        st.integers(0, 2000),
    ),
    max_size=12,
)
states = st.lists(
    st.builds(
        NodeState,
        st.integers(-1000, 128_000),
        st.integers(-1000, 1 << 41),
        st.lists(st.integers(0, WHOLE), max_size=8).map(tuple),
    ),
    max_size=6,
)


@given(types, states)
def test_the_fragmentation_of_many_states_is_that_of_the_formula(
    types: list[TargetType], states: list[NodeState]
) -> None:
    found = TargetWorkload(types).fragmentation(states)
    assert found == [fragmentation_of(types, one) for one in states]


@given(types, states)
def test_fragmentation_is_never_more_than_what_is_free(
    types: list[TargetType], states: list[NodeState]
) -> None:
    workload = TargetWorkload(types)
    for state, found in zip(states, workload.fragmentation(states), strict=True):
        assert 0 <= found <= workload.total * sum(state.free)
        assert 0 <= workload.stranded(state) <= workload.total * sum(state.free)


def test_the_fragments_of_a_node_depend_on_the_pod_type() -> None:
    node = NodeState(8000, 1 << 34, (300, 500, 1000))
    half = TargetType(4000, 0, 1, 500, 1)
    assert fragmentation_of([half], node) == 300
    assert fragmentation_of([half._replace(cpu=9000)], node) == 1800
    assert fragmentation_of([half._replace(gpus=0, milli=0)], node) == 1800
    assert fragmentation_of([half._replace(milli=WHOLE)], node) == 800
    assert fragmentation_of([half, half._replace(milli=WHOLE, pods=3)], node) == 300 + 3 * 800


def test_gpus_without_cpu_are_stranded() -> None:
    workload = TargetWorkload([TargetType(10_000, 0, 1, WHOLE, 2)])
    assert workload.cpu_per_gpu == 10_000
    assert workload.stranded(NodeState(25_000, 0, (1000, 1000, 1000))) == 2 * 500
    assert workload.stranded(NodeState(30_000, 0, (1000, 1000, 1000))) == 0
