"""The view of all pods: its rows, when they change, and that a resumed view goes on as one that was never left."""

import asyncio

from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from engine.engine import Engine
from events.codec import event_of
from events.decisions.release import ReleaseDecided
from events.messages import ObjectSeen
from features.table import FEATURES
from projections.state import State
from projections.views.catalogue import POD
from projections.views.checksum import checksum_of
from projections.views.project import Views
from projections.views.rows import Cell, Row
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

PREEMPTING: dict[str, object] = {
    "actions": "enqueue, allocate, preempt",
    "tiers": [{"plugins": [{"name": "priority"}, {"name": "conformance"}, {"name": "predicates"}]}],
}
TEAM = {"team": "vision", "app": "x"}
OWNER = {"kind": "Job", "name": "train", "uid": "uid-train", "controller": True}


class Recorded:
    """The rows of the view `pod` that a database would hold."""

    def __init__(self, harness: EngineHarness) -> None:
        self._harness = harness
        self._seen = 0
        self.closed: list[tuple[str, str]] = []
        """UID and `evicted_for` of rows that ended."""
        self.current: dict[tuple[object, object], Row] = {}
        self.checksum = 0

    def rows(self) -> list[dict[str, Cell]]:
        """The current rows, by name of the pod."""
        batches = self._harness.batches
        for batch in batches[self._seen :]:
            if (change := batch.views.get("pod")) is None:
                continue
            for row in change.opened:
                self.current[row[0], row[-1]] = row
            for _, uid, since in change.closed:
                ended = self.current.pop((uid, since))
                self.closed.append((str(uid), str(ended[8])))
            self.checksum = change.checksum
        self._seen = len(batches)
        assert checksum_of(row[:-1] for row in self.current.values()) == self.checksum
        rows = [dict(zip(POD.column_names, row, strict=False)) for row in self.current.values()]
        return sorted(rows, key=lambda row: str(row["pod"]))


def with_views(policy: dict[str, object] | None = None) -> EngineHarness:
    harness = EngineHarness(policy=policy)
    harness.engine = Engine(harness.state, harness.engine.head, views=Views(harness.state))
    return harness


def resume(harness: EngineHarness, recorded: Recorded) -> None:
    """Go on with views that were loaded from the stored rows, as a daemon that starts does."""
    recorded.rows()
    views = Views(harness.state)
    views.resume("pod", recorded.current.values(), recorded.checksum)
    harness.engine = Engine(harness.state, harness.engine.head, views=views)


def test_a_pod_has_a_row_from_its_creation_to_its_deletion() -> None:
    harness = with_views()
    recorded = Recorded(harness)
    harness.start(pod_labels=("team", "absent"))
    mine = pod("train-0", cards=2, metadata={"labels": TEAM, "ownerReferences": [OWNER]})
    other = pod("web", spec={"schedulerName": "default-scheduler"})
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", mine, other)
    harness.show_the_rest()
    assert recorded.rows() == [
        {
            "uid": "uid-train-0",
            "pod": "default/train-0",
            "namespace": "default",
            "owner": "Job/default/train",
            "labels": '{"team":"vision"}',
            "pod_group": "default/podgroup-uid-train",
            "queue": "default",
            "cards": "{}",
            "evicted_for": "",
        },
        {
            **dict.fromkeys(POD.column_names, ""),
            "uid": "uid-web",
            "pod": "default/web",
            "namespace": "default",
            "labels": "{}",
            "cards": "{}",
        },
    ]
    harness.cycle()
    running = pod(
        "train-0",
        on="n1",
        phase="Running",
        cards=2,
        metadata={"labels": TEAM, "ownerReferences": [OWNER]},
    )
    harness.see(ObjectSeen(running))
    assert len(recorded.rows()) == 2
    assert recorded.closed == []  # A node is in the view `placement`.
    harness.see(gone(running))
    assert [row["pod"] for row in recorded.rows()] == ["default/web"]
    assert recorded.closed == [("uid-train-0", "")]


def test_labels_follow_the_pod_and_the_setting() -> None:
    harness = with_views()
    recorded = Recorded(harness)
    harness.start(pod_labels=("team",))
    harness.show_all("Pod", pod("a", metadata={"labels": TEAM}))
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("a", metadata={"labels": {**TEAM, "app": "y"}})))
    assert recorded.rows()[0]["labels"] == '{"team":"vision"}'
    assert recorded.closed == []
    harness.see(ObjectSeen(pod("a", metadata={"labels": {"team": "speech"}})))
    assert recorded.rows()[0]["labels"] == '{"team":"speech"}'
    resume(harness, recorded)
    harness.start(pod_labels=("team", "app"))
    harness.show_all("Pod", pod("a", metadata={"labels": TEAM}))
    assert recorded.rows()[0]["labels"] == '{"app":"x","team":"vision"}'
    harness.start()
    assert recorded.rows()[0]["labels"] == "{}"


def test_the_queue_is_that_of_the_pod_group() -> None:
    harness = with_views()
    recorded = Recorded(harness)
    member = pod("a", metadata={"annotations": {"scheduling.k8s.io/group-name": "g"}})
    for queue in ("q1", "q2"):
        group = raw("PodGroup", "g", spec={"minMember": 1, "queue": queue})
        harness.show_all("PodGroup", group)
        harness.show_all("Pod", member)
        row = recorded.rows()[0]
        assert (row["pod_group"], row["queue"]) == ("default/g", queue)


def test_cards_are_those_that_the_pod_accepts() -> None:
    harness = with_views()
    recorded = Recorded(harness)

    def asks(name: str, cards: str) -> bytes:
        amounts = {"cpu": "1", "nvidia.com/gpu": "4"}
        spec = {"containers": [{"name": "main", "resources": {"requests": amounts}}]}
        annotations = {"volcano.sh/card.name": cards} if cards else {}
        return pod(name, spec=spec, metadata={"annotations": annotations})

    harness.show_all("Pod", asks("a", ""), asks("b", "NVIDIA-H200"), asks("c", "H100|H200"))
    assert [row["cards"] for row in recorded.rows()] == [
        '{"nvidia.com/gpu":4}',
        '{"NVIDIA-H200":4}',
        '{"H100|H200":4}',
    ]


def test_a_pod_that_is_asked_to_release_its_cards_names_the_pod_group_for_which() -> None:
    path = ROOT / "tests/scenarios/pools/a_gang_preempts_as_a_whole.yaml"
    log = MemoryLog()
    scenario = parse_scenario(path.read_text(encoding="utf-8"), path.name)
    asyncio.run(simulate(scenario, log, with_views=False))
    state, evicted_for = State(FEATURES), dict[str, set[object]]()
    views = Views(state)
    for record in log.memory.records:
        event = event_of(record)
        state.apply(record, event, log.memory.contents.get(record.object or ""))
        views.note(record, event)
        state.settle()
        changes = views.rows(record.position, record.recorded_at_ns).get("pod")
        for row in () if changes is None else changes.opened:
            evicted_for.setdefault(str(row[1]), set()).add(row[8])
        if isinstance(event, ReleaseDecided):
            assert all(event.in_favour_of in evicted_for[one.pod] for one in event.evictions)
    assert any("default/g" in groups for groups in evicted_for.values()), evicted_for


def test_a_pod_that_is_evicted_names_the_pod_group_for_which() -> None:
    harness = with_views(PREEMPTING)
    recorded = Recorded(harness)
    low = pod("low", on="n1", phase="Running", spec={"priority": 1})
    high = pod("high", spec={"priority": 9})
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("Pod", low, high)
    harness.show_the_rest()
    harness.cycle()
    evicted_for = {row["pod"]: row["evicted_for"] for row in recorded.rows()}
    assert evicted_for == {"default/low": "default/podgroup-uid-high", "default/high": ""}
    resume(harness, recorded)
    leaving = pod(
        "low",
        on="n1",
        phase="Running",
        spec={"priority": 1},
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}},
    )
    harness.see(ObjectSeen(leaving))
    assert {row["pod"]: row["evicted_for"] for row in recorded.rows()} == evicted_for
    harness.see(gone(leaving))
    recorded.rows()
    assert recorded.closed[-1] == ("uid-low", "default/podgroup-uid-high")
