"""The document that `simulate` prints: the decisions, and State at the end.

Gangs are listed pod by pod. Amounts are whole numbers: cpu in milli, memory in bytes, cards as cards; amounts of
0 are left out.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from events.cycle import CycleOpened
from events.decision import Decision, DecisionItem
from events.normalize import Json, JsonObject
from events.record import Head, Record
from events.union import Event
from projections.feature_documents import ResultSection
from projections.pods import DECISION, Pod
from projections.state import State
from projections.views.now import queue_rows
from scheduling.conditions import waiting_reason
from scheduling.gang_attempt import missing_pods
from simulator.cluster import SimulatedCluster
from simulator.expectation import Difference, differences
from simulator.manifest_fields import section
from simulator.scenario import EXPERIMENTS, Scenario
from simulator.workload_status import workload_statuses

_SECOND: Final = 1_000_000_000
_LEDGERS: Final = ("capability", "allocated", "inqueue", "request", "elastic")


class DecisionEntries:
    """The decisions of a run, in order, as entries of the document."""

    def __init__(self, origin_ns: int = 0) -> None:
        self._origin_ns = origin_ns
        self._at_ns = origin_ns
        self.entries: list[JsonObject] = []

    def add(self, record: Record, event: Event) -> None:
        """Add the entries of a record, if it is a decision about a pod group."""
        if isinstance(event, CycleOpened):
            self._at_ns = event.at_ns
        elif isinstance(event, Decision) and event.is_in_document:
            self.entries += [self._entry(record, event.word, item) for item in event.items()]

    def _entry(self, record: Record, kind: str, item: DecisionItem) -> JsonObject:
        return {
            "position": record.position,
            "cycle": record.cycle,
            "at_seconds": (self._at_ns - self._origin_ns) / _SECOND,
            "kind": kind,
            "pod": item.pod or None,
            "pod_group": item.pod_group,
            "queue": item.queue,
            "node": item.node or None,
            "devices": list(item.devices),
            "cards": dict(item.cards),
            "in_favour_of": item.in_favour_of or None,
            "code": item.code,
            "message": item.message,
        }


class ScenarioResult(Struct, frozen=True):
    """The document of a finished run, and its differences from what was expected."""

    document: JsonObject
    differences: tuple[Difference, ...]

    @property
    def is_expected(self) -> bool:
        """Return True if nothing differs, or nothing was expected."""
        return not self.differences


def scenario_result(
    *,
    scenario: Scenario,
    simulated: SimulatedCluster,
    head: Head,
    decisions: DecisionEntries,
    state: State,
    account: "JsonObject | None" = None,
) -> ScenarioResult:
    """Return the document of a run, compared with what its scenario expects."""
    entries: list[Json] = list(decisions.entries)
    document: JsonObject = {
        "scenario": scenario.name,
        "at_seconds": simulated.now_ns / _SECOND,
        "log": {"position": head.position, "digest": head.digest},
        "decisions": entries,
        "pods": _pods(state, simulated),
        "pod_groups": _pod_groups(state),
        "queues": _queues(state),
        **{one.name: one.section(state.cluster) for one in state.features.of(ResultSection)},
        "workloads": workload_statuses(simulated.store),
        "account": account or {},
        "expected": True,
    }
    if experiments := simulated.experiments:
        document[EXPERIMENTS] = experiments
    expect = scenario.expect
    found = () if expect is None else tuple(differences(expect, document))
    return ScenarioResult({**document, "expected": not found}, found)


def _pods(state: State, simulated: SimulatedCluster) -> JsonObject:
    """All pods; a pod has its node from the decision on, before the server has answered. Annotations are those that the
    server has."""
    pods: dict[str, JsonObject] = {}
    for pod in state.cluster.pods.values():
        facts = pod.facts
        there = simulated.find("Pod", facts.namespace, facts.name)
        given = {} if there is None else section(there, "metadata", "annotations")
        pods[f"{facts.namespace}/{facts.name}"] = {
            "phase": facts.phase,
            "node": pod.node or None,
            "devices": [*pod.devices],
            "reason": "" if pod.node else _waiting_reason(state, pod),
            "annotations": {key: value for key, value in given.items() if key != DECISION},
        }
    return dict(sorted(pods.items()))


def _waiting_reason(state: State, pod: Pod) -> str:
    """Return the reason of the condition PodScheduled that a pod without a node should have: a simulation writes no
    conditions. Empty for a pod of another scheduler, and before the first answer."""
    group = state.cluster.groups.get(pod.group_key)
    return "" if group is None or group.is_foreign else waiting_reason(group, pod)


def _pod_groups(state: State) -> JsonObject:
    groups: JsonObject = {}
    for key, group in sorted(state.cluster.groups.items()):
        refusal = group.main_refusal
        short = missing_pods(group) if refusal is None and group.is_broken else None
        reason = refusal or short
        groups[key] = {
            "phase": group.decided.phase,
            "queue": group.queue,
            "code": reason.code if reason else "",
            "message": reason.message if reason else "",
        }
    return groups


def _queues(state: State) -> JsonObject:
    queues: JsonObject = {}
    for name in sorted(state.cluster.queues):
        ledgers: dict[str, dict[str, Json]] = {ledger: {} for ledger in _LEDGERS}
        for row in queue_rows(state.cluster, name):
            _, resource, capability, _, _, allocated, inqueue, request, elastic = row
            resource = str(resource)
            if capability is not None:
                ledgers["capability"][resource] = capability
            amounts = {
                "allocated": allocated,
                "inqueue": inqueue,
                "request": request,
                "elastic": elastic,
            }
            _enter(ledgers, resource, amounts)
        queues[name] = dict(ledgers)
    return queues


def _enter(
    ledgers: Mapping[str, dict[str, Json]], resource: str, amounts: Mapping[str, Json]
) -> None:
    for ledger, amount in amounts.items():
        if amount:
            ledgers[ledger][resource] = amount
