"""Queues are opened and closed by command."""

from simulator.cluster import SimulatedCluster
from simulator.manifest import COMMAND, Manifest
from simulator.manifest_fields import section
from tests.simulator.builders import SECOND, simulated

QUEUE = "cluster:\n  - {kind: Queue, metadata: {name: q}}\n"
GROUP = "  - {kind: PodGroup, metadata: {name: g%d}, spec: {queue: q}}\n"


def command(action: str, name: str = "q") -> str:
    """A command to a queue, as a scenario has it."""
    target = f"target: {{kind: Queue, name: {name}}}"
    return f"{{kind: Command, metadata: {{name: c}}, action: {action}, {target}}}"


def state(made: SimulatedCluster) -> object:
    """The status of the queue."""
    return section(made.find("Queue", "", "q") or {}, "status").get("state")


def test_a_queue_is_closing_until_its_last_group_is_gone() -> None:
    made = simulated(
        QUEUE
        + GROUP % 1
        + GROUP % 2
        + "steps:\n"
        + f"  - {{at: 1s, apply: [{command('CloseQueue')}]}}\n"
        + "  - {at: 2s, delete: [{kind: PodGroup, name: g1}]}\n"
        + "  - {at: 3s, delete: [{kind: PodGroup, name: g2}]}\n"
        + f"  - {{at: 4s, apply: [{command('OpenQueue')}]}}\n"
    )
    states = []
    for second in range(5):
        made.advance(second * SECOND)
        states.append(state(made))
    assert states == [None, "Closing", "Closing", "Closed", "Open"]
    assert not made.store.objects()["Command"]


def test_an_empty_queue_is_closed_at_once_and_one_that_is_opened_stays_open() -> None:
    made = simulated(
        QUEUE
        + f"steps:\n  - {{at: 1s, apply: [{command('CloseQueue')}]}}\n"
        + "  - {at: 2s, apply: [{kind: PodGroup, metadata: {name: g1}, spec: {queue: q}}]}\n"
        + f"  - {{at: 3s, apply: [{command('CloseQueue')}]}}\n"
        + f"  - {{at: 4s, apply: [{command('OpenQueue')}]}}\n"
        + "  - {at: 5s, delete: [{kind: PodGroup, name: g1}]}\n"
    )
    states = []
    for second in range(1, 6):
        made.advance(second * SECOND)
        states.append(state(made))
    assert states == ["Closed", "Closed", "Closing", "Open", "Open"]


def test_a_queue_that_is_gone_is_not_closed() -> None:
    made = simulated(QUEUE + GROUP % 1)
    order: Manifest = {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {"name": "c", "namespace": "default"},
        "action": "CloseQueue",
        "target": {"kind": "Queue", "name": "q"},
    }
    made.put(COMMAND, order)
    made.remove(("Queue", "", "q"))
    made.remove(("PodGroup", "default", "g1"))
    made.put(COMMAND, order)
    assert state(made) is None
    assert not made.store.objects()["Command"]
