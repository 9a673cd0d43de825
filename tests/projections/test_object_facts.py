"""Facts of a kind that only its own module and the table know."""

import pytest
from msgspec import Struct

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.messages import ObjectSeen
from events.normalize import Json
from features.table import FEATURES, KINDS
from projections import snapshot
from projections.api_resource import Resource
from projections.objects import Metadata, read
from projections.observed_kind import INVALID, ObservedKind
from replay.log_replay import Replay
from tests.scheduling.builders import EngineHarness, gone, node, raw


class _Spec(Struct):
    pods: int = 0


class _TeamLimit(Struct):
    metadata: Metadata
    spec: _Spec


class TeamLimitFacts(Struct, frozen=True):
    """The most pods of a team."""

    pods: int


def _facts_of(content: bytes) -> TeamLimitFacts | str:
    obj = read(_TeamLimit, content)
    return obj if isinstance(obj, str) else TeamLimitFacts(obj.spec.pods)


TEAM_LIMIT = ObservedKind(
    resource=Resource("TeamLimit", "teamlimits", is_namespaced=False),
    why="limits of teams",
    facts=TeamLimitFacts,
    facts_of=_facts_of,
)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> EngineHarness:
    """A daemon whose table of kinds has one more."""
    monkeypatch.setitem(KINDS, "TeamLimit", TEAM_LIMIT)
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("TeamLimit")
    harness.show_the_rest()
    return harness


def limit(pods: Json) -> bytes:
    """A TeamLimit."""
    return raw("TeamLimit", "a", spec={"pods": pods})


def facts(harness: EngineHarness) -> object:
    """The facts of the kind, in State and in the State of its snapshot."""
    of_kind = harness.state.cluster.object_facts.get("TeamLimit", {})
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert restored.cluster.object_facts.get("TeamLimit", {}) == of_kind
    assert snapshot.take(restored) == snapshot.take(harness.state)
    return of_kind


def test_facts_are_kept_updated_and_dropped_with_their_object(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(limit(3)))
    assert facts(harness) == {"/a": TeamLimitFacts(3)}
    fork = harness.state.fork()
    harness.see(ObjectSeen(limit(4)))
    assert facts(harness) == {"/a": TeamLimitFacts(4)}
    assert fork.cluster.object_facts["TeamLimit"] == {"/a": TeamLimitFacts(3)}
    harness.see(gone(limit(4)))
    assert facts(harness) == {}


def test_an_object_without_readable_facts_counts_as_absent_and_is_named(
    harness: EngineHarness,
) -> None:
    harness.see(ObjectSeen(limit(3)))
    harness.see(ObjectSeen(limit("many")))
    assert facts(harness) == {}
    harness.cycle()
    invalid = [
        one for record in harness.records if isinstance(one := event_of(record), ConfigInvalid)
    ]
    assert [(one.subject, one.code) for one in invalid] == [("TeamLimit//a", INVALID)]
    replay = Replay()
    contents: dict[str, bytes] = {}
    for batch in harness.batches:
        contents.update((one.digest, one.content) for one in batch.objects)
        for record in batch.records:
            content = contents.get(record.object) if record.object else None
            assert replay.take(record, content) is None
    assert replay.finish() is None
    assert replay.state.cluster.object_facts == harness.state.cluster.object_facts
