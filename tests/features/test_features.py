"""Features come and go with the policy that names them, and cost nothing else."""

import sys
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec
import pytest

from engine.engine import Engine
from events.codec import event_of
from events.messages import ObjectSeen
from events.record import Head
from features.leaf_switches.index import LeafSwitches
from features.super_pods.index import SuperPods
from features.table import FEATURES
from projections.feature import always
from projections.index import Index
from projections.policy.policy import BUILT_IN, parse_policy
from projections.snapshot import restore, take
from projections.state import State
from projections.views.project import Views
from projections.views.rows import Cell, Row
from replay.log_replay import Replay
from tests.checkout import ROOT
from tests.features.ascend.builders import POLICY, T, base, npu_node, npu_pod
from tests.features.leaf_switches.builders import switch_map
from tests.projections.bases import base_of, differences, folded
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

WITHOUT: dict[str, object] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "predicates"}]}],
}
"""A policy that names no feature."""


JOBS: Final = {f"default/podgroup-uid-p-n{number}": {number // 2: 1} for number in range(3)}
"""Pod group to leaf switch to pods there, of `shown`."""


class CalledFeatures:
    """Notes the modules of features of which something is called."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """For `sys.setprofile`."""
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "features"):
            self.files[path.relative_to(ROOT).as_posix()] = None


def lived(policy: dict[str, object] | None) -> dict[str, None]:
    """The modules of features that are called while pods come, are bound, run and go."""
    harness = EngineHarness(policy=policy)
    harness.engine = Engine(harness.state, harness.engine.head, views=Views(harness.state))
    harness.show_all("Node", node("n1"), node("n2", cpu=8))
    harness.show_the_rest()
    called = CalledFeatures()
    sys.setprofile(called)
    try:
        group = raw("PodGroup", "g", spec={"minMember": 2})
        in_group = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
        pods = [pod("a"), *(pod(name, metadata=in_group) for name in ("b", "c"))]
        harness.see(ObjectSeen(node("n3")), ObjectSeen(group), *map(ObjectSeen, pods))
        harness.cycle()
        bound = {one.facts.name: one.node for one in harness.state.cluster.pods.values()}
        assert all(bound.values())
        for phase in ("Pending", "Running", "Succeeded"):
            harness.see(*(ObjectSeen(pod(name, on=at, phase=phase)) for name, at in bound.items()))
            harness.cycle()
        harness.see(*(gone(pod(name)) for name in bound), gone(node("n3")))
        harness.cycle()
    finally:
        sys.setprofile(None)
    return called.files


def test_nothing_of_a_feature_is_called_that_the_policy_does_not_name() -> None:
    assert lived(None) == {}


def test_a_feature_is_called_that_the_policy_names() -> None:
    assert "features/leaf_switches/index.py" in lived(POLICY)


def test_the_built_in_policy_names_only_what_objects_name_as_well() -> None:
    policy, _ = parse_policy(BUILT_IN, FEATURES.policy_table)
    named = FEATURES.named_by(policy)
    assert [one.name for one in named if one.is_named is not always] == []
    assert named.indexes == ()


def switch_node(name: str, number: int) -> bytes:
    """A node with 8 chips and an address."""
    notes = {"superPodID": str(number // 2), "baseDeviceInfos": base(T, 8)}
    made: dict[str, dict[str, object]] = msgspec.json.decode(npu_node(name, annotations=notes))
    made["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{number}"}]
    return msgspec.json.encode(made)


def shown(policy: dict[str, object]) -> EngineHarness:
    """Nodes under switches and in SuperPoDs, and pods of a job on them."""
    harness = EngineHarness(policy=policy)
    harness.engine = Engine(harness.state, harness.engine.head, views=Views(harness.state))
    names = [f"n{number}" for number in range(4)]
    harness.show_all("Node", *map(switch_node, names, range(4)))
    label = {"tor-affinity": "large-model-schema"}
    pods = [npu_pod(f"p-{name}", 8, on=name, phase="Running", labels=label) for name in names[:3]]
    under = [["10.0.0.0", "10.0.0.1"], ["10.0.0.2", "10.0.0.3"]]
    harness.see(ObjectSeen(switch_map(under, 2)))
    harness.show_all("Pod", *pods)
    harness.show_the_rest()
    harness.cycle()
    return harness


def kept(state: State) -> dict[str, object]:
    """What the indexes of features hold."""
    return {
        f"{index.name}: {name}": getattr(index, name)
        for index in state.cluster.indexes.of_features
        for name in index.COMPARED
    }


def rows(harness: EngineHarness, view: str) -> list[Row]:
    """The current rows of a view, by all batches; the first column is the key."""
    current: dict[Cell, Row] = {}
    for batch in harness.batches:
        if (change := batch.views.get(view)) is None:
            continue
        for key in (*(row[0] for row in change.removed), *(row[1] for row in change.closed)):
            current.pop(key, None)
        for row in (*change.upserted, *(one[:-1] for one in change.opened)):
            current[row[0]] = row
    return sorted(current.values(), key=str)


def test_a_later_policy_finds_what_one_from_the_start_has() -> None:
    first, later = shown(POLICY), shown(WITHOUT)
    assert kept(later.state) == {}
    later.change_policy(POLICY)
    later.cycle()
    assert kept(later.state) == kept(first.state)
    assert kept(later.state)["SuperPoDs: of"] == {"n0": 0, "n1": 0, "n2": 1, "n3": 1}
    jobs = later.state.cluster.indexes.of(LeafSwitches).switches_of
    assert {key: dict(counts) for key, counts in jobs.items()} == JOBS
    for view in ("switch_state", "topology_node"):
        assert rows(later, view) == rows(first, view)
    assert rows(later, "topology_node")[2][:4] == ("n2", "switch-1", "0", "1")
    restored = restore(take(later.state), FEATURES)
    assert kept(restored) == kept(later.state.fork()) == kept(first.state)


ALL: dict[str, object] = {
    **POLICY,
    "actions": "reschedule, enqueue, allocate",
    "pools": [
        {"name": "fast", "decider": "fair_share", "nodeSelector": {"disk": "fast"}},
        {"name": "default"},
    ],
}
"""A policy that names all features."""


def test_an_archive_a_cache_and_the_whole_log_give_a_later_policy_the_same() -> None:
    harness = shown(WITHOUT)
    contents = {one.digest: one.content for batch in harness.batches for one in batch.objects}
    archive = folded(base_of(harness.state, contents), contents, harness.state.position)
    cache = restore(take(harness.state), FEATURES)
    harness.change_policy(ALL)
    named = FEATURES.named_by(harness.state.cluster.policy)
    assert [one.name for one in named] == [one.name for one in FEATURES]
    change = harness.batches[-1].records[-1]
    for state in (archive, cache):
        state.apply(change, event_of(change), None)
        state.settle()
        assert kept(state) == kept(harness.state)
        assert differences(harness.state, state) == []
        state.validate()
    harness.see(ObjectSeen(npu_pod("q", 8)))
    harness.cycle()
    records = [record for batch in harness.batches for record in batch.records]
    contents |= {one.digest: one.content for batch in harness.batches for one in batch.objects}
    head = Head(change.position, change.digest, change.epoch)
    for replay in (Replay(head, state=archive), Replay(head, state=cache)):
        for record in records[change.position :]:
            assert replay.take(record, contents.get(record.object or "")) is None
    assert any(record.kind.startswith("gang_bind") for record in records[change.position :])


def test_a_policy_that_no_longer_names_a_feature_ends_its_rows() -> None:
    harness, without = shown(POLICY), shown(WITHOUT)
    assert [row[0] for row in rows(harness, "switch_state")] == ["switch-0", "switch-1"]
    harness.change_policy(WITHOUT)
    harness.cycle()
    assert kept(harness.state) == {}
    for view in ("switch_state", "topology_node"):
        assert rows(harness, view) == rows(without, view)


def test_a_policy_that_still_names_a_feature_leaves_its_indexes_as_they_are() -> None:
    harness = shown(POLICY)
    before = harness.state.cluster.indexes.of(LeafSwitches)
    harness.change_policy({**POLICY, "actions": "allocate"})
    assert harness.state.cluster.indexes.of(LeafSwitches) is before


@pytest.mark.parametrize("kind", [LeafSwitches, SuperPods])
def test_an_index_of_a_feature_is_absent_without_it(kind: type[Index]) -> None:
    assert shown(WITHOUT).state.cluster.indexes.find(kind) is None
    with pytest.raises(KeyError):
        shown(WITHOUT).state.cluster.indexes.of(kind)
