"""The step: what of an object enters the log."""

from msgspec import structs

from engine.engine import Engine
from events.daemon import DaemonStarted
from events.messages import ListCompleted, ObjectSeen
from events.record import GENESIS, Head
from features.table import FEATURES
from projections.state import State

POD = b"""{"kind": "Pod", "metadata": {"name": "a", "uid": "u1", "namespace": "default",
 "annotations": {"example.com/token": "s3cret", "example.com/team": "blue"}},
 "spec": {"containers": [{"name": "m", "env": [{"name": "K", "value": "s3cret"}]}]}}"""


def test_annotations_named_as_secret_never_enter_the_log() -> None:
    engine = Engine(
        State(FEATURES), Head(position=0, digest="0" * 64, epoch=1), secret=["example.com/token"]
    )
    started = DaemonStarted(
        holder="test", version="0", period_ns=1_000_000_000, scheduler_names=("muster",)
    )
    engine.start(started, None, 1, 0)
    batch = engine.observe([ObjectSeen(POD), ListCompleted("Pod", "1", 1)], 0)
    assert batch is not None
    [stored] = batch.objects
    assert b"s3cret" not in stored.content
    assert b"blue" in stored.content


def test_a_batch_has_the_events_of_its_records() -> None:
    """Listeners of durable batches need not decode them again."""
    engine = Engine(State(FEATURES), GENESIS)
    batch = engine.observe([ObjectSeen(POD), ListCompleted("Pod", "1", 1)], 0)
    assert batch is not None
    kinds = {record.kind for record in batch.records}
    at_hand = list(batch.events_of(kinds))
    assert at_hand == list(structs.replace(batch, events=[]).events_of(kinds))
    assert [record for record, _ in at_hand] == batch.records
    assert list(batch.events_of(())) == []
