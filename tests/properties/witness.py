"""Reads the log as it is written, folds and decides it again, and holds every decision to the rules."""

from collections import Counter
from io import BytesIO

import msgspec

from engine.batch import Batch
from events.codec import decode, encode, event_of
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.record import Record
from projections.pod_groups import PodGroup
from projections.queues import Queue
from projections.snapshot import parts_of, take
from projections.state import State
from replay.log_replay import Replay
from tests.properties.reached import reached


class Witness:
    """A second State, made from the log alone."""

    def __init__(self) -> None:
        self.replay = Replay()
        self.log: list[tuple[Record, bytes | None]] = []
        self.reached: Counter[str] = Counter()
        """What of note has happened, and how often."""
        self._contents: dict[str, bytes] = {}

    @property
    def state(self) -> State:
        """State as the log says."""
        return self.replay.state

    def content(self, digest: str) -> bytes:
        """The object of a digest."""
        return self._contents[digest]

    def take(self, batch: Batch | None) -> None:
        """Take in a batch."""
        if batch is None:
            return
        self._contents.update((one.digest, one.content) for one in batch.objects)
        for record in batch.records:
            content = None if record.object is None else self._contents[record.object]
            self.log.append((record, content))
            event = event_of(record)
            assert decode(record.kind, encode(event), position=0) == event
            assert encode(event) == record.body
            divergence = self.replay.take(record, content)
            assert divergence is None, divergence
            self.reached.update(reached(self.state, record, event))
            if isinstance(event, GangBindDecided | PipelineDecided):
                self._judge(event)
        self.state.settle()

    def _judge(self, event: GangBindDecided | PipelineDecided) -> None:
        cluster = self.state.cluster
        group, queue = cluster.groups[event.pod_group], cluster.queues[event.queue]
        for placement in event.placements:
            node = cluster.nodes.nodes[placement.node]
            pod = cluster.pods[placement.uid]
            assert node.facts is not None, f"{placement.node} is not there"
            assert not node.facts.unschedulable, f"{placement.node} is cordoned"
            for name, _ in pod.pod_class.request:
                if isinstance(event, GangBindDecided):
                    assert node.free[name] >= 0, f"{placement.node} has no {name} for {pod.key}"
                assert node.future(name) >= 0, f"{placement.node} will have no {name}"
            charge = pod.charge if isinstance(event, GangBindDecided) else None
            held = group.decided.nominations.get(placement.uid)
            for name, amount in charge or (held.charge if held else ()):
                self._within(queue, name, amount)
        if isinstance(event, GangBindDecided):
            _whole(group)

    def _within(self, queue: Queue, name: str, amount: int) -> None:
        """No queue is above its quota by our doing."""
        facts, rules = queue.facts, self.state.cluster.plugins.quota
        if facts is None or not amount:
            assert facts is not None or queue.name == "default" or not amount
            return
        assert facts.is_open, f"queue {queue.name} is not open"
        most = facts.capability.get(name)
        if rules.limits_card(name):
            most = facts.quota.get(name, 0)
        used = queue.allocated.get(name, 0) + queue.nominated.get(name, 0)
        assert most is None or used <= most, f"queue {queue.name}: {used} of {most} {name}"


def _whole(group: PodGroup) -> None:
    """Half a gang is never bound."""
    assert group.is_ready, (
        f"{group.key} is bound in part: {group.counts} of {group.observed.min_available}"
    )


def same(left: State, right: State) -> None:
    """Two States that are equal in all that can be told of them."""
    assert left.cluster.wakeup_events == right.cluster.wakeup_events
    assert left.is_synced == right.is_synced
    images = take(left), take(right)
    if images[0] == images[1]:
        return
    (one, *rest), (other, *others) = (
        [msgspec.msgpack.decode(part) for part in parts_of(BytesIO(image).read)] for image in images
    )
    assert rest == others
    for image in (one, other):
        # Nodes are kept in the order in which they were first seen, which nothing looks at.
        image["nodes"].sort(key=lambda node: node[0]["name"])
    for field, value in one.items():
        assert value == other[field], f"{field}: {value} is not {other[field]}"
        if isinstance(value, dict):
            assert list(value) == list(other[field]), f"{field} are equal, and in another order"
