"""A feature in a folder of its own is one line elsewhere: that of the table (`WITH_LICENCES`)."""

from collections.abc import Iterator

from events.codec import event_of
from events.messages import ObjectSeen
from events.normalize import JsonObject
from events.record import Head
from features.table import FEATURES
from projections.feature import FeatureTable
from projections.kind_table import kinds_with
from projections.snapshot import restore, take
from projections.state import State
from replay.log_replay import Replay
from scheduling.decide import Decider
from scheduling.device_family_table import FAMILIES
from scheduling.plugin_table import PLUGINS
from tests.features.licences.feature import (
    KIND,
    LABEL,
    LICENCES,
    SELECTION,
    LicencesInUse,
    counts_of,
)
from tests.projections.bases import base_of, differences, folded
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

WITH_LICENCES = FeatureTable((*FEATURES, LICENCES), PLUGINS, FAMILIES)


def policy(*more: str) -> dict[str, object]:
    """The policy, which names these plugins, too."""
    tiers = (("priority", "gang"), ("predicates", *more))
    named = [{"plugins": [{"name": one} for one in tier]} for tier in tiers]
    return {"actions": "enqueue, allocate, backfill", "tiers": named}


def licences(**counts: str) -> bytes:
    """The ConfigMap."""
    metadata: JsonObject = {"namespace": SELECTION.namespace}
    return raw("ConfigMap", SELECTION.only, metadata=metadata, data={**counts, "other": "x"})


def job(name: str, licence: str, pods: int = 1) -> Iterator[bytes]:
    """A gang whose pods need a licence each."""
    yield raw("PodGroup", name, spec={"minMember": pods})
    for index in range(pods):
        group = {"scheduling.k8s.io/group-name": name}
        yield pod(f"{name}-{index}", metadata={"labels": {LABEL: licence}, "annotations": group})


def begun(*more: str) -> EngineHarness:
    """Two licences, and three jobs that need them; one needs another licence."""
    harness = EngineHarness(policy=policy(*more), features=WITH_LICENCES)
    harness.show_all("Node", node("n1", cpu=16))
    harness.show_the_rest()
    harness.see(ObjectSeen(licences(matlab="2", abaqus="1")))
    jobs = (*job("a", "matlab"), *job("b", "matlab", 2), *job("c", "matlab"), *job("d", "abaqus"))
    harness.see(*map(ObjectSeen, jobs))
    harness.cycle()
    harness.cycle()
    return harness


def placed(harness: EngineHarness) -> str:
    """The jobs that have pods on nodes."""
    return "".join(
        sorted({one.facts.name[0] for one in harness.state.cluster.pods.values() if one.node})
    )


def in_use(state: State) -> dict[str, int]:
    """What the index counts; it is what the audit counts."""
    state.validate()
    return state.cluster.indexes.of(LicencesInUse).total


def contents_of(harness: EngineHarness) -> dict[str, bytes]:
    """All objects of the log by digest."""
    return {one.digest: one.content for batch in harness.batches for one in batch.objects}


def archived(harness: EngineHarness) -> State:
    """State as an archive begins with it: folded from records that say what stands."""
    contents, state = contents_of(harness), harness.state
    return folded(base_of(state, contents), contents, state.position, WITH_LICENCES)


def check_decisions(harness: EngineHarness, state: State) -> None:
    """What follows the position of a State in the log is decided alike from it."""
    records = [record for batch in harness.batches for record in batch.records]
    last = records[state.position - 1]
    contents = contents_of(harness)
    replay = Replay(Head(last.position, last.digest, last.epoch), state=state)
    for record in records[state.position :]:
        assert replay.take(record, contents.get(record.object or "")) is None
    assert in_use(replay.state) == in_use(harness.state)


def test_pods_get_no_more_licences_than_there_are() -> None:
    harness = begun("licences")
    assert placed(harness) == "acd"
    assert in_use(harness.state) == {"matlab": 2, "abaqus": 1}
    refusal = harness.state.cluster.groups["default/b"].decided.refusals["enqueue"]
    assert refusal.message == "2 licences of matlab requested, 1 of 2 are free"


def test_a_group_waits_until_its_licences_are_free() -> None:
    harness = begun("licences")
    for name in ("a-0", "c-0"):
        harness.see(gone(pod(name)))
    harness.cycle()
    harness.cycle()
    assert placed(harness) == "bd"
    harness.see(*map(ObjectSeen, job("e", "matlab")))
    harness.cycle()
    assert placed(harness) == "bd"
    harness.see(ObjectSeen(licences(matlab="3")))
    harness.cycle()
    harness.cycle()
    assert placed(harness) == "bde"


def test_without_the_plugin_licences_limit_nothing_and_are_not_counted() -> None:
    harness = begun()
    assert placed(harness) == "abcd"
    assert harness.state.cluster.indexes.find(LicencesInUse) is None


def test_a_later_policy_finds_the_licences_in_use() -> None:
    """From the whole log, an archive, a snapshot and a fork: what stands at that position says it, not older records."""
    harness = begun()
    kept, archive = take(harness.state), archived(harness)
    harness.change_policy(policy("licences"))
    assert in_use(harness.state) == {"matlab": 4, "abaqus": 1}
    assert counts_of(harness.state.cluster) == {"matlab": 2, "abaqus": 1}
    change = [record for record in harness.records if record.kind.startswith("policy_changed")][-1]
    restored = restore(kept, WITH_LICENCES)
    restored.apply(change, event_of(change), None)
    assert in_use(restored) == in_use(harness.state)
    archive.apply(change, event_of(change), None)
    assert in_use(archive) == in_use(harness.state)
    assert counts_of(archive.cluster) == {"matlab": 2, "abaqus": 1}
    assert differences(harness.state, archive) == []
    harness.see(*map(ObjectSeen, job("e", "matlab")))
    harness.cycle()
    assert placed(harness) == "abcd"
    message = harness.state.cluster.groups["default/e"].decided.refusals["enqueue"].message
    assert message == "1 licences of matlab requested, -2 of 2 are free"
    assert in_use(harness.state.fork()) == {"matlab": 4, "abaqus": 1}
    check_decisions(harness, archive)
    check_decisions(harness, restored)


def test_the_log_is_decided_again_with_the_table_that_wrote_it() -> None:
    harness = begun("licences")
    objects = {one.digest: one.content for batch in harness.batches for one in batch.objects}
    replay = Replay(state=State(WITH_LICENCES))
    for record in [one for batch in harness.batches for one in batch.records]:
        assert replay.take(record, objects.get(record.object or "")) is None
    assert in_use(replay.state) == in_use(harness.state)


def test_its_kind_is_observed_with_all_others() -> None:
    assert kinds_with(WITH_LICENCES)[SELECTION.kind] is KIND
    assert SELECTION.kind not in kinds_with(FEATURES)


def test_explanations_are_those_of_the_plugin() -> None:
    harness = begun("licences")
    group = harness.state.cluster.groups["default/b"]
    explained = Decider(harness.state.fork()).explain(group)
    assert explained.waiting is not None
    assert "2 licences of matlab requested, 0 of 2 are free" in explained.waiting.message
