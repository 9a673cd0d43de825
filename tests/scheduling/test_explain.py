"""What is explained is what was decided: each choice comes out again, and scores are the sum of their parts."""

from collections.abc import Iterator
from typing import Final

from events.codec import event_of
from events.decision import Decision
from events.decisions.gang_bind import GangBindDecided
from features.table import FEATURES
from projections.state import State
from scheduling.decide import Decider
from scheduling.explain.placement import explain_placement
from scheduling.explanation import (
    Choice,
    ExcludedPods,
    Explanation,
    NodeShortfall,
    PlacedPod,
    Subject,
)
from scheduling.session import Session
from tests.builders import recorded
from tests.scheduling.builders import EngineHarness, node, pod

MIXED = """\
cluster:
  - kind: Node
    metadata: {name: "h{i}", labels: {nvidia.com/gpu.product: H200, zone: a}}
    status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 8}}
    count: 3
  - kind: Node
    metadata: {name: "l{i}", labels: {nvidia.com/gpu.product: L40S, zone: b}}
    spec: {taints: [{key: old, value: "yes", effect: PreferNoSchedule}]}
    status: {allocatable: {cpu: 32, memory: 256Gi, pods: 110, nvidia.com/gpu: 4}}
    count: 3
  - kind: Queue
    metadata: {name: q1, annotations: {volcano.sh/card.quota: '{"H200": 20, "L40S": 6}'}}
  - kind: PodGroup
    metadata: {name: g}
    spec: {minMember: 4, queue: q1}
  - kind: Pod
    metadata:
      name: "g-{i}"
      annotations: {scheduling.k8s.io/group-name: g, volcano.sh/card.name: H200}
    spec: {containers: [{resources: {limits: {cpu: 4, memory: 64Gi, nvidia.com/gpu: 3}}}]}
    count: 4
  - kind: Pod
    metadata:
      name: "either-{i}"
      annotations: {scheduling.volcano.sh/queue-name: q1, volcano.sh/card.name: L40S|H200}
      labels: {app: either}
    spec:
      containers: [{resources: {limits: {cpu: 2, memory: 8Gi, nvidia.com/gpu: 1}}}]
      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - {weight: 5, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}
    count: 9
  - kind: Pod
    metadata: {name: "nothing-{i}", annotations: {scheduling.volcano.sh/queue-name: q1}}
    spec: {containers: [{}]}
    count: 3
steps:
  - {at: 3s, delete: [{kind: Pod, namespace: default, name: either-2}]}
  - at: 4s
    apply:
      - kind: Pod
        metadata:
          name: "late-{i}"
          annotations: {scheduling.volcano.sh/queue-name: q1, volcano.sh/card.name: H200}
        spec: {containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 2}}}]}
        count: 6
until: 10s
"""


async def explained(text: str) -> list[Choice]:
    """Every choice of a log, each asked just before its decision."""
    state = State(FEATURES)
    session = Session(state)
    choices: list[Choice] = []
    for one in await recorded(text):
        event = event_of(one.record)
        if isinstance(event, GangBindDecided):
            state.settle()
            choices += _choices(session, event)
        state.apply(one.record, event, one.content)
    return choices


def _choices(session: Session, event: GangBindDecided) -> Iterator[Choice]:
    group = session.cluster.groups[event.pod_group]
    for placement in event.placements:
        made = explain_placement(session, PlacedPod(group, event, placement.uid)).choice
        assert made is not None
        assert (made.pod, made.node, made.cards) == (
            placement.pod,
            placement.node,
            placement.cards,
        )
        yield made


async def test_every_node_that_was_chosen_comes_out_best_again() -> None:
    choices = await explained(MIXED)
    assert len(choices) > 15
    assert [one.pod for one in choices if not one.agrees] == []


async def test_a_score_is_the_sum_of_its_parts() -> None:
    scored = [one for made in await explained(MIXED) for one in made.ranked]
    assert all(sum(one.parts.values()) == one.score for one in scored)
    assert {name for one in scored for name in one.parts} == {
        "least requested",
        "balanced",
        "binpack",
        "preference",
        "whole-cards",
    }


async def test_the_chosen_node_leads_the_others_by_score_and_then_by_name() -> None:
    for made in await explained(MIXED):
        order = [(-one.score, one.node) for one in made.ranked]
        assert order == sorted(order)
        assert made.ranked[0].node == made.node
        assert made.candidates >= min(len(made.ranked), 5)


async def test_a_pod_of_a_gang_is_charged_beside_those_before_it() -> None:
    used = [one.limits[0].used for one in await explained(MIXED) if one.pod.startswith("default/g")]
    assert used == [used[0], used[0] + 3, used[0] + 6, used[0] + 9]


class SilentDecider:
    """The decider of another pool: it never decides, and answers about every subject that its nodes are excluded."""

    EXCLUDED: Final = ExcludedPods(1, "ml/a", NodeShortfall("n1", {}, "closed by its decider"))

    def wakes(self, at_ns: int) -> bool:
        return False

    def decide(self) -> Iterator[Decision]:
        return iter(())

    def deferred(self) -> Iterator[Decision]:
        return iter(())

    def drop_stale(self) -> None:
        pass

    def explain(self, subject: Subject) -> Explanation | None:
        return Explanation(excluded=(self.EXCLUDED,))


class NoDecider(SilentDecider):
    """The decider of a pool without any of the subjects."""

    def explain(self, subject: Subject) -> Explanation | None:
        return None


def test_a_subject_is_explained_by_the_decider_of_its_pool() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    n1 = harness.state.cluster.nodes.nodes["n1"]
    assert Decider(harness.state).explain(n1) == Explanation()
    by_another = Decider(harness.state, pools=(NoDecider(), SilentDecider()))
    assert by_another.explain(n1).excluded == (SilentDecider.EXCLUDED,)
    assert not by_another.wakes(0)


def test_a_node_names_the_waiting_pods_that_it_excludes() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=2))
    harness.show_all("Pod", pod("a", cards=3), pod("b", cards=3), pod("c", cards=1))
    harness.show_the_rest()
    found = harness.engine.decider.explain(harness.state.cluster.nodes.nodes["n1"]).excluded
    assert [(one.pods, one.pod, one.shortfall.lacks) for one in found] == [
        (2, "default/a", {"example.com/card": 1})
    ]
