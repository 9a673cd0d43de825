"""A question changes nothing: whatever is asked of a State, it holds the same afterwards."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.metrics import gauges
from daemon.queries.state import state_document
from daemon.simulation import simulate
from engine.pending_requests import StatusUpdates, bindings_and_evictions, phase_updates
from events.errors import UsageError
from projections.state import State
from projections.views import now
from replay.queue_answer import queue_answers
from replay.why import Inquiry
from replay.why_answer import Answer
from scheduling.decide import Decider
from scheduling.requeue import is_cycle_due
from simulator.fit import FitSimulation
from simulator.manifest import LocatedManifest, kind_of
from tests.scenarios.play import HERE, play, scenario_of
from tests.structure import check_same, structure_of

FAR_NS: Final = 1 << 62


def view_rows(state: State) -> list[object]:
    """The current rows of all views."""
    cluster = state.cluster
    return [
        *(now.queue_rows(cluster, name) for name in (*cluster.queues, "unknown")),
        *(now.card_rows(cluster, name) for name in (*cluster.nodes.nodes, "unknown")),
        *(now.topology_rows(cluster, name) for name in (*cluster.nodes.nodes, "unknown")),
        *(now.group_rows(cluster, key) for key in (*cluster.groups, "unknown")),
        *(now.cards_of(cluster, pod) for pod in cluster.pods.values()),
    ]


POD: Final = LocatedManifest(
    kind_of({"apiVersion": "v1", "kind": "Pod"}),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asked", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
    },
    "a test",
)


def waits(state: State) -> list[object]:
    """Why pod groups wait, asked of a fork as `muster why` does."""
    fork = state.fork()
    return [Decider(fork).explain(group).waiting for group in fork.cluster.groups.values()]


QUESTIONS: Final[dict[str, Callable[[State], object]]] = {
    "audit": lambda state: state.validate(),
    "is a cycle due": lambda state: [is_cycle_due(state, at) for at in (state.now_ns, FAR_NS)],
    "next deadline": lambda state: state.next_deadline_ns,
    "progress": lambda state: (state.progress, state.is_synced),
    "requests": lambda state: [*bindings_and_evictions(state), *phase_updates(state)],
    "status updates": lambda state: (
        StatusUpdates(state).are_left(updates_status=True),
        list(StatusUpdates(state).requests()),
    ),
    "fit": lambda state: FitSimulation(state, [POD]).answer(),
    "why": waits,
    "state": state_document,
    "queues": lambda state: queue_answers(state.cluster),
    "views": view_rows,
    "metrics": lambda state: (
        list(gauges.cards(state.cluster)),
        list(gauges.waiting(state.cluster)),
    ),
}

FILES: Final = sorted(HERE.rglob("*.yaml"))[::8]
"""Every sixth scenario: all folders, and each kind of decision."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_asking_everything_leaves_state_as_it_was(path: Path) -> None:
    state = (await play(scenario_of(path))).end.state
    before = structure_of(state)
    for what, ask in QUESTIONS.items():
        ask(state)
        check_same(before, structure_of(state), what)


@pytest.mark.parametrize("path", FILES[::6], ids=lambda path: path.stem)
async def test_an_inquiry_takes_more_records_after_its_answer(path: Path) -> None:
    log = MemoryLog()
    state = (await simulate(scenario_of(path), log, with_views=False)).state
    entries = [entry async for found in log.read() for entry in found]
    subjects = [
        *(f"PodGroup/{key}" for key in list(state.cluster.groups)[:2]),
        *(f"Node/{name}" for name in list(state.cluster.nodes.nodes)[:1]),
        *(f"Queue/{name}" for name in list(state.cluster.queues)[:1]),
    ]
    for subject in subjects:
        inquiry = Inquiry(subject)
        for number, entry in enumerate(entries):
            inquiry.take(entry.record, entry.content)
            if number % 16 == 0:
                before = structure_of(inquiry.state)
                with suppress(UsageError):
                    inquiry.answer()
                check_same(before, structure_of(inquiry.state), f"why {subject}")
        assert inquiry.answer() == asked_once(subject, entries)


def asked_once(subject: str, entries: list[Entry]) -> Answer:
    """The answer of an inquiry that is asked at the end only."""
    inquiry = Inquiry(subject)
    for entry in entries:
        inquiry.take(entry.record, entry.content)
    return inquiry.answer()
