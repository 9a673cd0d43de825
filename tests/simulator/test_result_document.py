"""The document of a run: decisions spread out, State at the end, compared with what was expected."""

import msgspec

from engine.batch import Batch
from engine.engine import Engine
from events.codec import event_of
from events.daemon import DaemonStarted, PolicyChanged
from events.messages import Answer, BindRequest
from events.normalize import JsonObject
from events.record import GENESIS
from features.table import FEATURES
from projections.state import State
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import list_at
from simulator.result_document import DecisionEntries, ScenarioResult, scenario_result
from simulator.scenario import RESULT, parse_scenario

SCENARIO = """\
scenario: a quota of three cards
cluster:
  - kind: Node
    metadata: {name: n1, labels: {nvidia.com/gpu.product: H200}}
    status: {allocatable: {cpu: 64, memory: 1Ti, pods: 110, nvidia.com/gpu: 8}}
  - kind: Queue
    metadata: {name: q1, annotations: {volcano.sh/card.quota: '{"H200": 3}'}}
    spec: {capability: {cpu: 4}}
  - kind: Pod
    metadata:
      name: "a-{i}"
      annotations: {scheduling.volcano.sh/queue-name: q1, volcano.sh/card.name: H200}
    spec: {containers: [{resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]}
    count: 4
expect:
"""


class Run:
    """A scenario played without a loop: one cycle, with what comes before and after it."""

    def __init__(self, expect: str) -> None:
        self.scenario = parse_scenario(SCENARIO + expect, "quota.yaml")
        self.simulated = SimulatedCluster(self.scenario)
        self.step = Engine(State(FEATURES), GENESIS)
        self.decisions = DecisionEntries()

    def play(self) -> ScenarioResult:
        """Observe, decide, act, observe again."""
        policy = PolicyChanged(
            source="test", policy=msgspec.Raw(b'{"actions":"enqueue, allocate",' + TIERS)
        )
        started = DaemonStarted(
            holder="test", version="0", period_ns=10**9, scheduler_names=("muster",)
        )
        self.keep(self.step.start(started, policy, 1, 0))
        for _ in range(3):
            self.keep(self.step.observe(self.simulated.poll_watch(), 0))
            self.keep(self.step.cycle(0))
            answers = [
                Answer(request, self.simulated.bind(request))
                for request in self.step.requests()
                if isinstance(request, BindRequest)
            ]
            self.keep(self.step.report(answers, 0))
        self.simulated.advance(3 * 10**9)
        return scenario_result(
            scenario=self.scenario,
            simulated=self.simulated,
            head=self.step.head,
            decisions=self.decisions,
            state=self.step.state,
        )

    def keep(self, batch: Batch | None) -> None:
        """Note every record of a batch."""
        for record in batch.records if batch is not None else ():
            self.decisions.add(record, event_of(record))


TIERS = b'"tiers":[{"plugins":[{"name":"gang"},{"name":"predicates"},{"name":"capacity-card"}]}]}'


def test_a_run_as_expected_says_so() -> None:
    result = Run(
        """\
      pods:
        default/a-1: {phase: Running, node: n1}
        default/a-4: {phase: Pending, node: null}
      queues:
        q1: {capability: {H200: 3, cpu: 4000}, allocated: {H200: 3, cpu: 3000}, inqueue: {H200: 0}}
      decisions:
        - {kind: refuse, pod_group: default/podgroup-uid-000006, code: InsufficientScalarQuota}
        - {kind: bind, pod: default/a-2, node: n1, cards: {H200: 1}}
    """
    ).play()
    assert [str(one) for one in result.differences] == []
    assert result.is_expected
    assert result.document["expected"] is True
    assert (result.document["scenario"], result.document["at_seconds"]) == (
        "a quota of three cards",
        3.0,
    )


def test_a_run_that_is_not_as_expected_names_what_differs() -> None:
    result = Run("  pods: {default/a-4: {phase: Running}}\n").play()
    assert not result.is_expected
    assert result.document["expected"] is False
    assert [str(one) for one in result.differences] == [
        'pods.default/a-4.phase: expected "Running", found "Pending"'
    ]


def test_what_may_be_expected_are_the_keys_of_the_document() -> None:
    assert tuple(Run("  {}\n").play().document) == RESULT


def test_every_decision_has_the_same_keys() -> None:
    document: JsonObject = Run("  {}\n").play().document
    entries = list_at(document, "decisions")
    assert len({tuple(entry) for entry in entries}) == 1
    assert [entry["kind"] for entry in entries].count("bind") == 3
    refusals = [entry for entry in entries if entry["kind"] == "refuse"]
    assert {entry["code"] for entry in refusals} == {"InsufficientScalarQuota"}
