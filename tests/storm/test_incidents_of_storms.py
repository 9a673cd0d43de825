"""Incidents of a storm of faults: each fault and each decision after one is in an incident, and all are over at the end."""

import json

import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from events.decisions.reschedule import RescheduleDecided
from features.table import FEATURES
from projections.state import State
from projections.views.catalogue import FAULT
from projections.views.project import Views
from replay.incident_answer import IncidentReport
from replay.incident_selection import Selection
from replay.incidents import Incidents
from simulator.scenario import parse_scenario
from tests.storm.fault_storm import Storm, storm_scenario

NODES = 12


async def stormy(seed: int) -> list[Entry]:
    """Return the log of a storm."""
    text, _ = storm_scenario(Storm(nodes=NODES, hours=2, seed=seed, times=5000))
    log = MemoryLog()
    await simulate(parse_scenario(json.dumps(text), "storm"), log, with_views=False)
    return [entry async for entries in log.read() for entry in entries]


def reports_of(entries: list[Entry]) -> dict[str, IncidentReport]:
    """Return all incidents in full, by name."""
    found: dict[str, IncidentReport] = {}
    for index in range(NODES):
        incidents = Incidents(Selection(node=f"n{index:03d}"))
        for entry in entries:
            incidents.take(entry.record, entry.content)
        found.update((one.summary.name, one) for one in incidents.answer())
    return found


def faults_of_the_view(entries: list[Entry]) -> set[tuple[object, ...]]:
    """Return key and beginning of each row that the view `fault` ever had."""
    views = Views(State(FEATURES))
    found: set[tuple[object, ...]] = set()
    batch: list[Entry] = []
    for entry in [*entries, None]:
        if batch and (entry is None or entry.record.batch != batch[0].record.batch):
            last = batch[-1].record
            views.state.settle()
            changes = views.rows(last.position, last.recorded_at_ns).get(FAULT.name)
            rows = [] if changes is None else changes.opened
            found |= {(*row[: FAULT.keys], row[9]) for row in rows}
            batch = []
        if entry is not None:
            event = event_of(entry.record)
            views.state.apply(entry.record, event, entry.content)
            views.note(entry.record, event)
            batch.append(entry)
    return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_fault_and_every_decision_after_it_is_in_an_incident(seed: int) -> None:
    entries = await stormy(seed)
    reports = reports_of(entries)
    decided = {
        entry.record.position: event
        for entry in entries
        if isinstance(event := event_of(entry.record), RescheduleDecided)
    }
    assert len(decided) > 5
    named = {
        decision.position: (restart, decision)
        for one in reports.values()
        for restart in one.restarts
        for decision in restart.decisions
    }
    without_fault = [at for at, event in decided.items() if event.code == "Stranded"]
    assert set(decided) - set(named) <= set(without_fault)
    for position, (restart, decision) in named.items():
        event = decided[position]
        assert restart.pod_group == event.pod_group
        deleted = sorted(one.pod for one in event.evictions)
        assert sorted((*decision.faulty, *decision.healthy)) == deleted


@pytest.mark.parametrize("seed", [1, 2])
async def test_all_incidents_of_a_storm_are_over_when_everything_is_repaired(seed: int) -> None:
    entries = await stormy(seed)
    reports = reports_of(entries)
    assert [name for name, one in reports.items() if not one.summary.is_over] == []
    for one in reports.values():
        for restart in one.restarts:
            assert restart.outcome, one.summary.name
            assert 0 <= restart.healthy_card_seconds <= restart.lost_card_seconds
            if restart.seconds_to_running is not None:
                assert restart.seconds_to_decision is not None
                assert restart.seconds_to_bound is not None
                assert restart.seconds_to_decision <= restart.seconds_to_bound
                assert restart.seconds_to_bound <= restart.seconds_to_running
                assert [move.pod for move in restart.moves if not move.to_node] == []
        positions = [step.position for step in one.timeline]
        assert positions == sorted(positions)


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_faults_of_incidents_are_those_of_the_view(seed: int) -> None:
    entries = await stormy(seed)
    at_of = {entry.record.position: entry.record.recorded_at_ns for entry in entries}
    seen = {
        (fault.node, fault.source, fault.device, fault.level, fault.code, at_of[fault.position])
        for one in reports_of(entries).values()
        for fault in one.faults
        if not fault.pod and fault.cleared_position != fault.position
    }
    assert seen
    assert seen == faults_of_the_view(entries)
