"""Nodes where preemption failed are left out of searches, without any other effect on decisions."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import manifests
from benchmarks.driving import SECOND, WHOLE, begin, nothing_of, take_in
from benchmarks.manifests import MODELS, PodLife, PodShape
from engine.engine import Engine
from events.messages import Accepted, Answer, BindRequest, EvictRequest, WatchMessage
from events.record import Head
from scheduling.failed_preemption_cache import FailedPreemptionCache
from tests.example_count import examples

Arrival: TypeAlias = tuple[int, int, tuple[str, ...], int, int]
"""Queue, cards, models and priority of a pod; or of so many pods, of which one is enough."""
Step: TypeAlias = tuple[list[Arrival], int]
"""Pods that come, and how many of those that run end."""

NODES = 8

arrivals = st.tuples(
    st.integers(0, 1),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([MODELS[:1], MODELS[1:2], MODELS[:2]]),
    st.sampled_from([0, 0, 5]),
    st.sampled_from([1, 1, 3]),
)
turns = st.lists(st.tuples(st.lists(arrivals, max_size=5), st.integers(0, 3)), max_size=12)


class PreemptionSim:
    """A small cluster that does what it is asked, and the pods that live in it."""

    def __init__(self) -> None:
        self.engine, _ = begin(with_views=False, rules=WHOLE)
        self.living: dict[str, tuple[PodShape, PodLife]] = {}
        self.turn = self.made = 0
        there = [*manifests.nodes(NODES), *nothing_of("PriorityClass", "Namespace", "PodGroup")]
        for _ in take_in(
            self.engine,
            [*there, *manifests.queues(2 * NODES, share=1, count=2), *nothing_of("Pod")],
        ):
            pass

    def show(self, *shapes: PodShape, groups: Iterable[str] = ()) -> list[str]:
        """Pods come, and groups of which one pod is enough; the names of those who are evicted for anybody."""
        self.living |= {one.name: (one, PodLife()) for one in shapes}
        before = dict.fromkeys(self.living)
        self.turn += 1
        seen = [manifests.pod_group(name, 0, 1) for name in groups]
        self.engine.observe([*seen, *map(manifests.pod, shapes)], self.turn * SECOND)
        self.engine.cycle(self.turn * SECOND)
        self._carry_out(self.engine)
        return [name for name in before if name not in self.living]

    def live(self, came: list[Arrival], ending: int) -> None:
        """Pods come, the longest running ones end, a cycle is held and carried out."""
        self.turn += 1
        seen = [seen for one in came for seen in self._come(*one)]
        running = [name for name, (_, life) in self.living.items() if life.node]
        seen += [self._end(name, "Succeeded") for name in running[:ending]]
        self.engine.observe(seen, self.turn * SECOND)
        self.engine.cycle(self.turn * SECOND)
        self._carry_out(self.engine)

    def _come(
        self, queue: int, cards: int, models: tuple[str, ...], priority: int, count: int
    ) -> Iterator[WatchMessage]:
        self.made += 1
        name = f"pod-{self.made:04}"
        if count > 1:
            yield manifests.pod_group(name, queue, 1)
        for index in range(count):
            shape = PodShape(
                name=f"{name}-{index}",
                queue=queue,
                cards=cards,
                models=models,
                priority=priority,
                group=name if count > 1 else "",
            )
            self.living[shape.name] = (shape, PodLife())
            yield manifests.pod(shape)

    def _end(self, name: str, phase: str) -> WatchMessage:
        shape, life = self.living.pop(name)
        return manifests.pod(shape, PodLife(life.node, phase, 9))

    def _carry_out(self, engine: Engine) -> None:
        requests = list(engine.requests())
        answers = [Answer(request=one, reply=Accepted(), latency_ns=1) for one in requests]
        shown: list[WatchMessage] = []
        for one in requests:
            if isinstance(one, BindRequest):
                shape = self.living[one.name][0]
                self.living[one.name] = (shape, PodLife(one.node, "Running", 4))
                shown.append(manifests.pod(*self.living[one.name]))
            elif isinstance(one, EvictRequest) and one.name in self.living:
                shown.append(self._end(one.name, "Failed"))
        engine.report(answers, self.turn * SECOND)
        engine.observe(shown, self.turn * SECOND)


def _head(history: list[Step]) -> Head:
    sim = PreemptionSim()
    for came, ending in history:
        sim.live(came, ending)
    sim.engine.state.validate()
    return sim.engine.head


@settings(max_examples=examples(100))
@given(turns)
def test_the_failed_preemption_cache_changes_no_decision(
    history: list[Step],
) -> None:
    remembered = _head(history)

    def forgetful(self: FailedPreemptionCache, preemptor_class: tuple[object, ...]) -> object:
        self._known.clear()
        return real(self, preemptor_class)

    real = FailedPreemptionCache.of
    with patch.object(FailedPreemptionCache, "of", forgetful):
        assert _head(history) == remembered


def test_a_node_is_tried_again_when_its_pods_have_arrived() -> None:
    """Pods that are on their way are not evicted; once they are there, they may be."""
    first, either = MODELS[:1], MODELS[:2]
    there: list[Arrival] = [(0, 1, first, 0, 1), (0, 8, first, 0, 1)]
    more: list[Arrival] = [(0, 1, first, 0, 1)] * 3 + [(0, 1, either, 0, 3), (0, 4, first, 0, 3)]
    sim = PreemptionSim()
    for came in (there, more, []):
        sim.live(came, 0)
    assert "pod-0006-0" not in sim.living, "it made room for the pod that found none"


def test_a_node_is_tried_again_when_a_group_there_has_more_elsewhere() -> None:
    sim, mine, other = PreemptionSim(), MODELS[:1], MODELS[1:2]
    first, small, second = (
        PodShape(name=f"gang-{index}", cards=cards, models=models, group="gang")
        for index, (cards, models) in enumerate(((8, mine), (1, other), (8, other)))
    )
    whole = [PodShape(name=f"whole-{index}", cards=8, models=mine) for index in range(2)]
    assert sim.show(first, small, whole[0], groups=["gang"]) == []
    assert sim.show(whole[1]) == [], "no eviction would leave as much as it requests"
    assert sim.show(second) + sim.show() == ["gang-0"], "the gang has so much elsewhere"
