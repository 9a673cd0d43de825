"""A question changes nothing: whatever is asked of a State, it holds the same afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from daemon.metrics import gauges
from daemon.queries.state import state_document
from engine.pending_requests import StatusUpdates, bindings_and_evictions, phase_updates
from projections.state import State
from projections.views import now
from replay.queue_answer import queue_answers
from scheduling.wake import is_cycle_due
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
    "state": state_document,
    "queues": lambda state: queue_answers(state.cluster),
    "views": view_rows,
    "metrics": lambda state: (gauges.cards(state.cluster), list(gauges.waiting(state.cluster))),
}

FILES: Final = sorted(HERE.rglob("*.yaml"))[::6]
"""Every sixth scenario: all folders, and each kind of decision."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_asking_everything_leaves_state_as_it_was(path: Path) -> None:
    state = (await play(scenario_of(path))).end.state
    before = structure_of(state)
    for what, ask in QUESTIONS.items():
        ask(state)
        check_same(before, structure_of(state), what)
