"""Pods that are placed without a trial, and equal pods of a gang that are placed in runs, get the nodes that they would get one by
one on trial."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from events.normalize import JsonObject
from scheduling.gang_attempt import GangAttempt
from scheduling.single_pods import SinglePods
from tests.scheduling.builders import EngineHarness, raw

GPU: Final = "nvidia.com/gpu"
CARDS: Final = ("A", "B", "A|B", "B|A", "")


class Asking(Struct, frozen=True):
    """A pod group, and what each of its pods asks for."""

    pods: int
    least: int
    queue: int
    card: str
    cards: int
    cpu: int
    nominated: str


groups = st.builds(
    Asking,
    pods=st.integers(1, 6),
    least=st.integers(1, 5),
    queue=st.integers(0, 1),
    card=st.sampled_from(CARDS),
    cards=st.integers(0, 2),
    cpu=st.integers(1, 4),
    nominated=st.sampled_from(["", "", "", "n01", "gone"]),
)
nodes = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 5), st.integers(1, 12)), min_size=1, max_size=6
)
quotas = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(4, 40)), min_size=2, max_size=2
)


def machine(at: int, model: str, cards: int, cpu: int) -> bytes:
    """A node with cards of one model."""
    amounts: JsonObject = {"cpu": str(cpu), "pods": "5", **({GPU: str(cards)} if cards else {})}
    metadata: JsonObject = {"labels": {"nvidia.com/gpu.product": model}}
    return raw("Node", f"n{at:02}", metadata=metadata, spec={}, status={"allocatable": amounts})


def queue(at: int, a: int, b: int, cpu: int) -> bytes:
    """A queue with quotas of both models, and of cpu."""
    metadata: JsonObject = {"annotations": {"volcano.sh/card.quota": f'{{"A": {a}, "B": {b}}}'}}
    return raw("Queue", f"q{at}", metadata=metadata, spec={"capability": {"cpu": str(cpu)}})


def members(at: int, one: Asking) -> list[bytes]:
    """The pods of a group; without a PodGroup each is for itself."""
    notes: JsonObject = {"scheduling.volcano.sh/queue-name": f"q{one.queue}"}
    if one.cards and one.card:
        notes["volcano.sh/card.name"] = one.card
    if one.pods > 1:
        notes["scheduling.k8s.io/group-name"] = f"g{at}"
    requests: JsonObject = {"cpu": str(one.cpu), **({GPU: str(one.cards)} if one.cards else {})}
    container: JsonObject = {"name": "main", "resources": {"requests": requests}}
    body: JsonObject = {"schedulerName": "muster", "containers": [container]}
    status: JsonObject = {"phase": "Pending"}
    if one.nominated:
        status["nominatedNodeName"] = one.nominated
    return [
        raw("Pod", f"p{at}-{index}", metadata={"annotations": notes}, spec=body, status=status)
        for index in range(one.pods)
    ]


def decided(
    there: list[tuple[str, int, int]], limits: list[tuple[int, int, int]], asking: list[Asking]
) -> tuple[list[bytes], list[int], int]:
    """All that three cycles record, the work that each counts, and how many groups they tried."""
    harness = EngineHarness()
    harness.show_all("Node", *[machine(at, *one) for at, one in enumerate(there)])
    harness.show_all("Queue", *[queue(at, *one) for at, one in enumerate(limits)])
    gangs = [
        raw("PodGroup", f"g{at}", spec={"minMember": one.least, "queue": f"q{one.queue}"})
        for at, one in enumerate(asking)
        if one.pods > 1
    ]
    harness.show_all("PodGroup", *gangs)
    harness.show_all("Pod", *[pod for at, one in enumerate(asking) for pod in members(at, one)])
    harness.show_the_rest()
    session, work = harness.engine.decider.session, []
    for _ in range(3):
        harness.cycle()
        work.append(session.work.done)
    return [bytes(one.body) for one in harness.records], work, session.groups_examined


@given(nodes, quotas, st.lists(groups, min_size=1, max_size=8))
def test_each_pod_gets_the_node_that_it_gets_on_trial(
    there: list[tuple[str, int, int]], limits: list[tuple[int, int, int]], asking: list[Asking]
) -> None:
    short = decided(there, limits, asking)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SinglePods, "placement", lambda *_: None)
        patch.setattr(GangAttempt, "_place_equal", lambda *_: 0)
        assert short == decided(there, limits, asking)
