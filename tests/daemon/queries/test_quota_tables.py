"""Every table of quotas shows what the refusal beside it says: queue, state, metrics, why and fit compute it once."""

import re
from pathlib import Path
from typing import Final

import pytest

from daemon.metrics import gauges
from daemon.metrics.closed import OTHER, QueueLabels
from daemon.queries.state import state_document
from projections.state import State
from replay.queue_answer import Resource, queue_answers
from scheduling.decide import Decider
from scheduling.explanation import Limit, Waiting
from scheduling.shortage import amount_text
from simulator.fit import FitSimulation
from simulator.scenario import parse_scenario
from tests.engine.test_questions import POD
from tests.scenarios.play import HERE, name_of, play, scenario_of

REFUSAL: Final = re.compile(
    r"Queue <(\S+)> has insufficient (\S+) quota: requested <([^>]+)>, total would be <([^>]+)>,"
    r" but capability is <([^>]+)>"
)
SHOWN: Final = {"CPU": "cpu", "memory": "memory"}

PRODUCTS: Final = """
scenario: queues on nodes with labels of products
policy:
  actions: "enqueue, allocate"
  tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}, %s]}]
cycles: 2
cluster:
  - {kind: Node, metadata: {name: "h{i}", labels: {nvidia.com/gpu.product: H100}}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}, count: 2}
  - {kind: Node, metadata: {name: "a{i}", labels: {nvidia.com/gpu.product: A100}}, status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}, count: 2}
  - {kind: Queue, metadata: {name: root}, spec: {}}
  - {kind: Queue, metadata: {name: eng, annotations: {volcano.sh/card.quota: '{"H100": 8, "A100": 8}'}}, spec: {capability: {nvidia.com/gpu: 16}}}
  - {kind: Queue, metadata: {name: dev, annotations: {volcano.sh/card.quota: '{"H100": 8, "A100": 8}'}}, spec: {parent: eng, capability: {nvidia.com/gpu: 16}, deserved: {nvidia.com/gpu: 8}}}
  - {kind: Queue, metadata: {name: test, annotations: {volcano.sh/card.quota: '{"H100": 8}'}}, spec: {parent: eng, capability: {nvidia.com/gpu: 8}}}
  - {kind: PodGroup, metadata: {name: runs}, spec: {queue: dev, minMember: 1, minResources: {nvidia.com/gpu: 8}}}
  - {kind: PodGroup, metadata: {name: wants, annotations: {volcano.sh/card.request: '{"A100|H100": 16}'}}, spec: {queue: dev, minMember: 2, minResources: {nvidia.com/gpu: 16}}}
  - {kind: PodGroup, metadata: {name: grows}, spec: {queue: test, minMember: 1}, status: {phase: Inqueue}}
  - {kind: Pod, metadata: {name: runs-0, annotations: {scheduling.k8s.io/group-name: runs, volcano.sh/card.name: H100}}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}
  - {kind: Pod, metadata: {name: "wants-{i}", annotations: {scheduling.k8s.io/group-name: wants, volcano.sh/card.name: A100|H100}}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}, count: 2}
  - {kind: Pod, metadata: {name: "grows-{i}", annotations: {scheduling.k8s.io/group-name: grows, volcano.sh/card.name: H100}}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4}}}]}, count: 5}
"""

PLUGINS: Final = (
    "{name: capacity}",
    "{name: capacity, enableHierarchy: true}",
    "{name: proportion}",
    "{name: capacity-card}",
)


@pytest.mark.parametrize("plugin", PLUGINS)
async def test_tables_agree_with_refusals_on_nodes_with_labels_of_products(plugin: str) -> None:
    played = await play(parse_scenario(PRODUCTS % plugin, "products.yaml"))
    compared = check_tables(played.end.state)
    assert compared >= {"default/wants", "default/grows"}


SOME: Final = [
    one
    for folder in ("capacity", "cards", "proportion", "queues", "reservations")
    for one in sorted((HERE / folder).glob("*.yaml"))
]


@pytest.mark.parametrize("path", SOME, ids=name_of)
async def test_tables_agree_with_refusals_at_the_end_of_scenarios(path: Path) -> None:
    check_tables((await play(scenario_of(path))).end.state)


def check_tables(state: State) -> set[str]:
    """Compare all tables of quotas; return the pod groups whose refusal by a quota was compared with them."""
    answers = {
        one.queue: {each.resource: each for each in one.resources}
        for one in queue_answers(state.cluster)
    }
    _check_rows(state, answers)
    _check_metrics(state, answers)
    compared: set[str] = set()
    fork = state.fork()
    explained = [Decider(fork).explain(group).waiting for group in fork.cluster.groups.values()]
    fitted = FitSimulation(state, [POD]).answer().pod_groups
    for waiting in (*explained, *(one.waiting for one in fitted)):
        if waiting is None or waiting.pod_group not in state.cluster.groups:
            continue
        queue = state.cluster.groups[waiting.pod_group].queue
        _check_limits(state, answers, queue, waiting)
        if _check_refusal(state, queue, waiting):
            compared.add(waiting.pod_group)
        for held in waiting.held:
            used = [one.allocated.get(held.name, 0) for one in state.cluster.queues.values()]
            assert held.allocated == sum(used), held
    return compared


Answers = dict[str, dict[str, Resource]]


def _check_rows(state: State, answers: Answers) -> None:
    rows = state_document(state)["queues"]
    assert isinstance(rows, list)
    shown = {(row["queue"], row["resource"]): row for row in rows}
    assert set(shown) == {(queue, name) for queue, one in answers.items() for name in one}
    for (queue, name), row in shown.items():
        answer = answers[queue][name]
        assert all(row[column] == getattr(answer, column) for column in row if column != "queue")


def _check_metrics(state: State, answers: Answers) -> None:
    labels = QueueLabels()
    labels.update(state.cluster.queues)
    exported = {
        (one.name, sample.labels["queue"], sample.labels["resource"]): sample.value
        for one in gauges.queues(state.cluster, labels)
        for sample in one.samples
        if "resource" in sample.labels
    }
    for queue in answers:
        # A queue that is called as the label of all others together has no series of its own.
        for name, answer in answers[queue].items() if queue != OTHER else ():
            if ("muster_queue_allocated_cards", queue, name) not in exported:
                continue  # A name that no node has, or a choice of cards, is summed up with others.
            assert exported["muster_queue_allocated_cards", queue, name] == answer.allocated
            limit = exported.get(("muster_queue_limit_cards", queue, name))
            assert limit == answer.limit, (queue, name)


def _check_limits(state: State, answers: Answers, queue: str, waiting: Waiting) -> None:
    for limit in waiting.quota:
        answer = answers[limit.queue or queue].get(limit.name)
        if answer is None:
            assert (limit.used, limit.reserved) == (0, 0), limit
        else:
            assert (limit.used, limit.limit) == (answer.allocated + answer.nominated, answer.limit)
    for limit in waiting.admission:
        answer = answers[limit.queue].get(limit.name) if limit.queue else None
        if answer is not None and not state.cluster.policy.evicting:
            assert limit.used == answer.allocated + answer.nominated
            assert limit.reserved == answer.inqueue - answer.elastic


def _check_refusal(state: State, queue: str, waiting: Waiting) -> bool:
    """Compare each quota that a refusal names with the table beside it."""
    found = REFUSAL.findall(waiting.message)
    for named, shown, *numbers in found:
        name = SHOWN.get(shown, shown.strip("<>"))
        tables = (*waiting.admission, *waiting.quota)
        rows = [
            _numbers(one) for one in tables if one.name == name and (one.queue or queue) == named
        ]
        assert tuple(numbers) in rows, (waiting.message, tables)
    return bool(found)


def _numbers(one: Limit) -> tuple[str, ...]:
    total = one.used + one.reserved + one.requested
    amounts = (one.requested, total, one.limit)
    return tuple("none" if each is None else amount_text(one.name, each) for each in amounts)


UNLABELLED: Final = """
scenario: a GPU of a node without a label of its product is no card
cycles: 2
policy:
  actions: "enqueue, allocate"
  tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity-card}]}]
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110, nvidia.com/gpu: 8}}}
  - {kind: Queue, metadata: {name: default}, spec: {capability: {cpu: 8, memory: 8Gi, nvidia.com/gpu: 4}}}
  - {kind: Pod, metadata: {name: runs}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 6}}}]}}
  - {kind: Pod, metadata: {name: waits}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 6}}}]}}
  - kind: Pod
    metadata: {name: without-claim}
    spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: nowhere}}]}
"""


async def test_tables_say_nothing_of_a_resource_that_is_charged_to_no_queue() -> None:
    state = (await play(parse_scenario(UNLABELLED, "unlabelled.yaml"))).end.state
    check_tables(state)
    [queue] = [one for one in queue_answers(state.cluster) if one.queue == "default"]
    limits = {one.resource: one.limit for one in queue.resources}
    assert limits == {"cpu": 8_000, "memory": 8 << 30, "nvidia.com/gpu": None}
    fork = state.fork()
    waiting = [Decider(fork).explain(group).waiting for group in fork.cluster.groups.values()]
    assert [one.held for one in waiting if one is not None] == [(), ()]


async def test_the_check_of_admission_names_the_refusal_that_ends_the_reservation() -> None:
    state = (await play(parse_scenario(UNLABELLED, "unlabelled.yaml"))).end.state
    fork = state.fork()
    waiting = [Decider(fork).explain(group).waiting for group in fork.cluster.groups.values()]
    texts = [
        one.text
        for each in waiting
        if each is not None
        for one in each.hurdles
        if one.level == "admission"
    ]
    assert [text for text in texts if "ClaimMissing" in text] == [
        "admitted to queue default: phase Inqueue; nothing is reserved for it: it is refused with ClaimMissing"
    ]
