"""A pause between two lives of a daemon is not a cycle missed."""

from engine.batch import Batch
from engine.engine import Engine
from events.daemon import DaemonStarted
from events.duration import SECOND
from events.messages import ListCompleted, ObjectSeen, WatchMessage
from events.record import Head, Record
from features.table import FEATURES
from projections.kind_table import REQUIRED
from projections.state import State
from replay.log_replay import Replay

STARTED = DaemonStarted(
    holder="test", version="test", period_ns=SECOND, scheduler_names=("muster",)
)
POD = b"""{"apiVersion": "v1", "kind": "Pod", "spec": {"schedulerName": "muster", "containers": []},
 "metadata": {"name": "a", "uid": "uid-1", "namespace": "default", "resourceVersion": "1"}}"""


def test_a_daemon_that_died_with_a_cycle_due_and_returned_late_missed_none() -> None:
    shown: list[WatchMessage] = [ObjectSeen(POD)]
    shown += [ListCompleted(resource=kind, resource_version="1", count=0) for kind in REQUIRED]
    engine = Engine(State(FEATURES), Head(position=0, digest="0" * 64, epoch=1))
    batches: list[Batch | None] = [
        engine.start(STARTED, None, 1, SECOND),
        engine.observe(shown, 2 * SECOND),
        engine.start(STARTED, None, 2, 60 * SECOND),
    ]
    records: list[Record] = [record for one in batches if one is not None for record in one.records]
    replay = Replay()
    content = {stored.digest: stored.content for one in batches if one for stored in one.objects}
    for record in records:
        assert replay.take(record, content.get(record.object or "")) is None
    assert replay.finish() is None
