"""Objects that cannot be read, whatever the cause: recorded, and all other objects are scheduled."""

from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest

from engine import ingest
from engine.outcomes import outcome_of
from events.cluster import ObjectUnreadable
from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.limits import CUT, ITEMS_MAX
from events.messages import (
    Answer,
    BindRequest,
    DeletionSeen,
    ObjectSeen,
    PodConditionRequest,
    Rejected,
)
from events.normalize import JsonObject
from events.outcome import BindFailed
from events.record import PodParts
from features.table import FEATURES
from projections import snapshot
from projections.internal_error import InternalError, OnError, ignore
from projections.kinds import (
    disruption_budget,
    hyper_node,
    namespace,
    pod_group,
    priority_class,
    volcano_queue,
    workload,
)
from projections.kinds import node as node_kind
from projections.objects import QueueObject
from projections.observed_kind import LEFT_OUT, LONG_FIELD, UNREADABLE
from projections.pod_reading import PodReader
from projections.queues import QueueFacts, queue_facts
from replay.log_replay import Replay
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

ATTACK: JsonObject = {"annotations": {"attack": "yes"}}
NUL, LONG = "a\x00b", "n" * 9_000


def begun(on_error: OnError = ignore) -> EngineHarness:
    """A daemon with two nodes, to which everything has been shown."""
    harness = EngineHarness(on_error=on_error)
    harness.show_all("Node", node("n1"), node("n2"))
    for kind in ("HyperNode", "Namespace", "PodDisruptionBudget", "ReplicaSet"):
        harness.show_all(kind)
    harness.show_the_rest()
    return harness


def assert_serves(harness: EngineHarness, name: str) -> None:
    """A pod of others is bound in the next cycle."""
    harness.see(ObjectSeen(pod(name)))
    harness.cycle()
    found = harness.state.cluster.pods[f"uid-{name}"]
    assert found.node


def faults(harness: EngineHarness) -> list[tuple[str, str]]:
    """Subject and code of each fault of an object recorded since this was last asked."""
    records, harness.records = harness.records, []
    events = [event_of(one) for one in records]
    invalid = [one for one in events if isinstance(one, ConfigInvalid)]
    return [(one.subject, one.code) for one in invalid if one.code != "InvalidQueue"]


def assert_replays(harness: EngineHarness) -> None:
    """The records are decided again as they were, and a snapshot is State."""
    replay = Replay()
    contents: dict[str, bytes] = {}
    for batch in harness.batches:
        contents.update((one.digest, one.content) for one in batch.objects)
        for record in batch.records:
            content = contents.get(record.object) if record.object else None
            assert replay.take(record, content) is None
    assert replay.finish() is None
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert snapshot.take(restored) == snapshot.take(harness.state)


READERS: dict[str, tuple[str, Callable[[JsonObject], bytes]]] = {
    "Pod": ("read_facts", lambda meta: pod("attack", metadata=meta)),
    "Node": ("node_facts", lambda meta: raw("Node", "attack", metadata=meta, status={})),
    "Queue": ("queue_facts", lambda meta: raw("Queue", "attack", metadata=meta, spec={})),
    "PodGroup": ("group_facts", lambda meta: raw("PodGroup", "attack", metadata=meta, spec={})),
    "HyperNode": ("hyper_node_facts", lambda meta: raw("HyperNode", "attack", metadata=meta)),
    "ReplicaSet": ("schedulers_of", lambda meta: raw("ReplicaSet", "attack", metadata=meta)),
    "PodDisruptionBudget": (
        "budget_facts",
        lambda meta: raw("PodDisruptionBudget", "attack", metadata=meta, spec={}),
    ),
    "Namespace": ("read", lambda meta: raw("Namespace", "attack", metadata=meta)),
    "PriorityClass": ("read", lambda meta: raw("PriorityClass", "attack", metadata=meta)),
}

MODULES = {
    "Pod": PodReader,
    "Node": node_kind,
    "Queue": volcano_queue,
    "PodGroup": pod_group,
    "HyperNode": hyper_node,
    "ReplicaSet": workload,
    "PodDisruptionBudget": disruption_budget,
    "Namespace": namespace,
    "PriorityClass": priority_class,
}
"""Kind to the module whose reader raises."""


@pytest.mark.parametrize("kind", READERS)
def test_an_object_whose_reader_raises_is_named_and_others_are_served(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, make = READERS[kind]
    where = MODULES[kind]
    genuine = getattr(where, reader)

    def raising(*given: object) -> object:
        if "attack" in str(given) and "yes" in str(given):
            raise IndexError("pop from an empty list")
        return genuine(*given)

    monkeypatch.setattr(where, reader, raising)
    if hasattr(ingest, reader):
        monkeypatch.setattr(ingest, reader, raising)
    errors: list[InternalError] = []
    harness = begun(errors.append)
    shown = make(ATTACK)
    harness.see(ObjectSeen(shown))
    assert_serves(harness, "canary")
    [(subject, code)] = faults(harness)
    assert (subject.partition("/")[0], code) == (kind, UNREADABLE)
    assert {one.activity for one in errors} == {"read"}
    assert_replays(harness)
    harness.see(ObjectSeen(make({})))
    assert_serves(harness, "second")
    assert subject not in harness.state.cluster.config_errors.current
    harness.see(ObjectSeen(shown))
    harness.see(gone(shown))
    assert_serves(harness, "third")
    assert subject not in harness.state.cluster.config_errors.current
    assert_replays(harness)


def test_a_running_pod_that_cannot_be_read_any_more_keeps_its_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = PodReader.read_facts

    def raising(reader: PodReader, content: bytes, parts: PodParts | None = None) -> object:
        if b"attack" in content:
            raise IndexError("a bug")
        return genuine(reader, content, parts)

    monkeypatch.setattr(PodReader, "read_facts", raising)
    harness = begun()
    harness.see(ObjectSeen(pod("p", on="n1", phase="Running")))
    shown = pod("p", on="n1", phase="Running", metadata=ATTACK)
    harness.see(ObjectSeen(shown))
    assert_serves(harness, "canary")
    assert harness.state.cluster.pods["uid-p"].node == "n1"
    assert harness.state.cluster.nodes.nodes["n1"].occupied["cpu"] >= 1000
    assert_replays(harness)
    harness.see(gone(shown))
    assert "uid-p" not in harness.state.cluster.pods


def test_nothing_enters_a_queue_that_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(obj: QueueObject) -> QueueFacts:
        if obj.metadata.annotations:
            raise ValueError("a bug")
        return queue_facts(obj)

    monkeypatch.setattr(volcano_queue, "queue_facts", raising)
    harness = begun()
    harness.see(ObjectSeen(raw("Queue", "q", metadata=ATTACK, spec={"capability": {"cpu": "1"}})))
    named: JsonObject = {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
    harness.see(ObjectSeen(pod("inside", metadata=named)))
    assert_serves(harness, "outside")
    assert harness.state.cluster.pods["uid-inside"].node == ""


@pytest.mark.parametrize(
    ("shown", "reason", "is_kept"),
    [
        (b"not JSON", "is not JSON", False),
        (b"[1]", "not a JSON object", False),
        (b'{"kind":"Pod"}', "without metadata", False),
        (b'{"kind":"Pod","metadata":{"uid":"u"}}', "metadata.name", False),
        (b'{"kind":"Pod","metadata":{"name":["a"],"uid":"u"}}', "metadata.name", False),
        (b'{"kind":"Pod","metadata":{"name":"a\\u0000b","uid":"u"}}', "control", False),
        (b'{"kind":"Pod","metadata":{"name":"%b","uid":"u"}}' % LONG.encode(), "253", False),
        (b'{"kind":"Pod","metadata":{"name":"a"}}', "metadata.uid", True),
    ],
    ids=lambda one: str(one)[:40],
)
@pytest.mark.parametrize("message", [ObjectSeen, DeletionSeen])
def test_what_is_no_object_is_recorded_and_counts_as_absent(
    shown: bytes, reason: str, is_kept: bool, message: type[ObjectSeen | DeletionSeen]
) -> None:
    harness = begun()
    harness.records = []
    harness.see(message(shown))
    [record] = harness.records
    event = event_of(record)
    assert isinstance(event, ObjectUnreadable)
    assert reason in event.reason
    assert (event.shown_digest, event.size_bytes) == (sha256(shown).hexdigest(), len(shown))
    assert (record.object is not None) is is_kept
    assert not harness.state.cluster.pods
    assert_serves(harness, "canary")
    assert_replays(harness)


def test_what_is_nested_too_deep_is_left_out_and_the_rest_is_used() -> None:
    harness = begun()
    group = raw("PodGroup", "g", spec={"minMember": 1, "more": 0})
    deep = group.replace(b'"more":0', b'"more":' + b'{"a":' * 3_000 + b"1" + b"}" * 3_000)
    harness.see(ObjectSeen(deep))
    metadata: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    harness.see(ObjectSeen(pod("g-0", metadata=metadata)))
    assert_serves(harness, "canary")
    assert faults(harness) == [("PodGroup/default/g", LEFT_OUT)]
    assert harness.state.cluster.pods["uid-g-0"].node
    [content] = [o.content for b in harness.batches for o in b.objects if CUT.encode() in o.content]
    assert len(content) < 1_000
    assert_replays(harness)


NAMED: dict[str, Callable[[str], JsonObject]] = {
    "group": lambda text: {"annotations": {"scheduling.k8s.io/group-name": text}},
    "queue": lambda text: {"annotations": {"scheduling.volcano.sh/queue-name": text}},
    "role": lambda text: {"annotations": {"volcano.sh/task-spec": text}},
    "card": lambda text: {"annotations": {"volcano.sh/card.name": text}},
    "owner": lambda text: {
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": text, "controller": True}]
    },
}


@pytest.mark.parametrize("text", [NUL, LONG, "a\x1b[2Jb", "\u00e9" * 600], ids=["nul", "long", "escape", "wide"])  # fmt: skip
@pytest.mark.parametrize("what", NAMED)
def test_a_pod_with_a_text_that_is_no_name_is_refused_with_the_reason(what: str, text: str) -> None:
    harness = begun()
    harness.see(ObjectSeen(pod("attack", metadata=NAMED[what](text))))
    assert_serves(harness, "canary")
    events = [event_of(one) for one in harness.records]
    [refused] = [one for one in events if isinstance(one, PodGroupUnschedulable)]
    assert refused.pod_group == "default/podgroup-uid-attack"
    assert "control characters" in refused.message or "longer than" in refused.message
    assert len(refused.message) < 400
    assert "\x00" not in refused.message
    assert_replays(harness)


def test_a_pod_with_too_many_tolerations_is_refused_and_still_takes_room_where_it_runs() -> None:
    harness = begun()
    many: JsonObject = {"tolerations": [{"key": f"k{n}"} for n in range(ITEMS_MAX + 1)]}
    harness.see(ObjectSeen(pod("waits", spec=many)))
    elsewhere: JsonObject = {**many, "schedulerName": "other"}
    harness.see(ObjectSeen(pod("runs", on="n1", phase="Running", spec=elsewhere)))
    assert_serves(harness, "canary")
    assert harness.state.cluster.pods["uid-waits"].node == ""
    assert "length <= 1000" in harness.state.cluster.pods["uid-waits"].pod_class.unsupported
    assert harness.state.cluster.nodes.nodes["n1"].occupied["cpu"] >= 1000


def test_a_pod_of_very_many_resources_costs_the_node_table_few_columns() -> None:
    harness = begun()
    requests: JsonObject = {"cpu": "1", **{f"example.com/r{n}": "1" for n in range(5_000)}}
    spec: JsonObject = {"containers": [{"resources": {"requests": requests}}]}
    harness.see(
        ObjectSeen(pod("attack", on="n1", phase="Running", spec={**spec, "schedulerName": "x"}))
    )
    assert_serves(harness, "canary")
    assert len(harness.state.cluster.nodes.free) < 10
    assert harness.state.cluster.nodes.nodes["n1"].occupied["cpu"] >= 1000


def test_amounts_saturate_whatever_is_written() -> None:
    harness = begun()
    huge = "9" * 5_000
    harness.see(
        ObjectSeen(raw("Queue", "default", spec={"capability": {"cpu": huge, "memory": huge}}))
    )
    # In a queue of their own: a group that waits for its pods reserves what it asks for.
    harness.see(ObjectSeen(raw("Queue", "theirs", spec={"capability": {"cpu": huge}})))
    spec: JsonObject = {"minMember": 1, "queue": "theirs"}
    harness.see(ObjectSeen(raw("PodGroup", "g", spec=spec | {"minResources": {"cpu": huge}})))
    number = msgspec.json.decode(raw("PodGroup", "h", spec=spec | {"minResources": {}}))
    text = msgspec.json.encode(number).replace(b'"minResources":{}', b'"minResources":{"cpu":%b}' % huge.encode())  # fmt: skip
    harness.see(ObjectSeen(text))
    assert_serves(harness, "canary")
    queue = harness.state.cluster.queues["default"].facts
    assert queue is not None
    assert (queue.capability["cpu"], queue.faults) == (1 << 45, ())
    for name in ("g", "h"):
        facts = harness.state.cluster.groups[f"default/{name}"].observed.facts
        assert facts is not None
        assert facts.min_resources == {"cpu": 1 << 45}
    assert_replays(harness)


@pytest.mark.parametrize(("name", "problem"), [("a/b", "has a slash"), ("a ", "ends with a blank")])
@pytest.mark.parametrize("what", ["group", "queue"])
def test_a_name_that_no_object_has_is_refused_with_the_reason(
    what: str, name: str, problem: str
) -> None:
    harness = begun()
    harness.see(ObjectSeen(pod("attack", metadata=NAMED[what](name))))
    assert_serves(harness, "canary")
    events = [event_of(one) for one in harness.records]
    [refused] = [one for one in events if isinstance(one, PodGroupUnschedulable)]
    assert problem in refused.message
    assert_replays(harness)


def test_texts_of_an_answer_are_valid_in_any_log() -> None:
    """An admission webhook may answer anything; PostgreSQL refuses a NUL in a text."""
    request = BindRequest(decision=1, namespace="d", name="a", uid="u", node="n")
    refused = Rejected(code="Denied\x00", message="\x00\x1b[2J" + "m" * 9_000)
    outcome, _ = outcome_of(Answer(request=request, reply=refused))
    assert isinstance(outcome, BindFailed)
    assert outcome.code == "Denied\ufffd"
    assert outcome.message.startswith("\ufffd\ufffd[2Jmmm")
    assert len(outcome.message) < 1_200


TOLERATIONS: JsonObject = {
    "tolerations": [{"key": f"key-{index}", "operator": "Exists"} for index in range(10_000)]
}


def test_a_pod_with_a_long_field_is_refused_for_it_and_everyone_else_is_served() -> None:
    harness = begun()
    harness.engine.updates_status = True
    harness.see(ObjectSeen(pod("long", spec=TOLERATIONS)))
    harness.cycle()
    refused = [
        one for one in map(event_of, harness.records) if isinstance(one, PodGroupUnschedulable)
    ]
    assert [one.message for one in refused] == ["spec.tolerations is longer than 262144 bytes"]
    assert faults(harness) == [("Pod/default/long", LONG_FIELD)]
    assert max(len(one.content) for batch in harness.batches for one in batch.objects) < 1_000
    assert_serves(harness, "canary")
    assert_replays(harness)


def test_a_pod_with_an_overlong_field_gets_no_status_patch() -> None:
    harness = begun()
    harness.engine.updates_status = True
    harness.see(ObjectSeen(pod("long", spec=TOLERATIONS)), ObjectSeen(pod("big", cards=99)))
    harness.cycle()
    asked = [one.name for one in harness.engine.requests() if isinstance(one, PodConditionRequest)]
    assert asked == ["big"]


def test_a_pod_with_a_long_field_takes_its_request_of_the_node_that_it_is_on() -> None:
    harness = begun()
    requests: JsonObject = {"resources": {"requests": {"cpu": "4"}}}
    spec: JsonObject = {**TOLERATIONS, "containers": [requests]}
    harness.see(ObjectSeen(pod("long", on="n1", spec=spec)), ObjectSeen(pod("next")))
    harness.cycle()
    assert harness.state.cluster.pods["uid-next"].node == "n2"
    assert_replays(harness)
