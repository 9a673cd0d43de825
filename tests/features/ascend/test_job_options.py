"""Annotations and labels of a PodGroup count as those of its pods do."""

import msgspec
import pytest

from events.messages import AnnotateRequest, ObjectSeen
from features.table import FEATURES
from projections import snapshot
from scheduling.conditions import condition_of
from tests.features.ascend.builders import (
    T,
    chips,
    npu_node,
    npu_pod,
    placed,
    placed_numbers,
    started,
)
from tests.scheduling.builders import EngineHarness, gone, raw

POLICY = "huawei.com/schedule_policy"
LEAST = "huawei.com/schedule_minAvailable"
R310P = "huawei.com/Ascend310P"


def group(least: int = 1, **metadata: dict[str, str]) -> bytes:
    """The PodGroup g."""
    return raw("PodGroup", "g", metadata=metadata, spec={"minMember": least})


def refusal(harness: EngineHarness) -> tuple[str, str]:
    """Code and message of why the group is not placed."""
    found = harness.state.cluster.groups["default/g"].main_refusal
    return ("", "") if found is None else (found.code, found.message)


def test_an_annotation_of_the_pod_group_chooses_the_product() -> None:
    harness = started(npu_node("n", 4, kind="half"))
    harness.show_all("PodGroup", group(annotations={POLICY: "chip4-node4"}))
    harness.show_all("Pod", npu_pod("p", 2, group="g"))
    harness.cycle()
    assert placed_numbers(harness, "p") == (0, 1)


def test_a_label_of_the_pod_group_chooses_the_product_and_a_change_is_seen() -> None:
    node = npu_node("n", 8, resource=R310P, labels={"infer-card-type": "card-300i-duo"})
    harness = started(node)
    labels = {"duo": "true", "npu-310-strategy": "card"}
    harness.show_all("PodGroup", group(labels=labels))
    harness.show_all("Pod", npu_pod("p", 3, resource=R310P, group="g"))
    harness.cycle()
    code, message = refusal(harness)
    assert code == "InvalidResourceRequest"
    assert "req npu num should small than 2" in message
    harness.see(ObjectSeen(group(labels={"duo": "true"})))
    harness.cycle()
    assert placed_numbers(harness, "p") == (0, 1, 2)


def test_groups_of_equal_pods_with_unlike_pod_groups_are_not_decided_alike() -> None:
    harness = started(npu_node("n", 4, kind="half"))
    groups = [
        raw("PodGroup", name, metadata={"annotations": {POLICY: policy}}, spec={"minMember": 1})
        for name, policy in (("a", "chip1-node2"), ("b", "chip4-node4"))
    ]
    harness.show_all("PodGroup", *groups)
    harness.show_all("Pod", *(npu_pod(f"p-{name}", 1, group=name) for name in "ab"))
    harness.cycle()
    assert placed(harness) == {"p-b": ("n", "Ascend910-0")}


def test_a_pod_that_contradicts_its_pod_group_is_refused() -> None:
    harness = started(npu_node("n"))
    harness.show_all("PodGroup", group(annotations={"sp-block": "16"}))
    harness.show_all("Pod", npu_pod("p", 16, group="g", annotations={"sp-block": "32"}))
    harness.cycle()
    text = "sp-block: the PodGroup has '16', and a pod of it '32'"
    assert refusal(harness) == ("InvalidArgument", text)


def test_a_long_value_of_a_pod_group_is_an_error_of_the_pod_group() -> None:
    harness = started(npu_node("n"))
    harness.show_all("PodGroup", group(annotations={POLICY: "x" * 5000}))
    harness.show_all("Pod", npu_pod("p", 1, group="g"))
    harness.cycle()
    code, message = refusal(harness)
    assert code == "InvalidPodGroup"
    assert message.startswith(f"metadata: {POLICY}: 'xxx")
    assert len(message) < 300


@pytest.mark.parametrize("on_group", [True, False])
@pytest.mark.parametrize("group_first", [True, False])
def test_a_minimum_in_an_annotation_makes_a_gang_of_a_group_of_one(
    on_group: bool, group_first: bool
) -> None:
    harness = started(npu_node("n"))
    stated = {LEAST: "2"}
    pods = [
        npu_pod(name, 4, group="g", annotations={} if on_group else stated) for name in ("p", "q")
    ]
    shown = [("PodGroup", group(annotations=stated if on_group else {})), ("Pod", pods[0])]
    for kind, one in shown if group_first else reversed(shown):
        harness.show_all(kind, one)
    harness.cycle()
    assert placed(harness) == {}
    assert refusal(harness)[0] == "NotEnoughPods"
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert restored.cluster.groups["default/g"].observed.min_available == 2
    harness.see(ObjectSeen(pods[1]))
    harness.cycle()
    assert sorted(placed(harness)) == ["p", "q"]


def test_a_minimum_of_the_object_above_one_counts_before_the_annotation() -> None:
    harness = started(npu_node("n"))
    harness.show_all("PodGroup", group(2, annotations={LEAST: "3"}))
    harness.show_all("Pod", *(npu_pod(name, 4, group="g") for name in ("p", "q")))
    harness.cycle()
    assert sorted(placed(harness)) == ["p", "q"]


def test_pods_without_a_pod_group_state_the_minimum_of_their_group() -> None:
    harness = started(npu_node("n"))
    owner = {
        "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    }
    pods = [msgspec.json.decode(npu_pod(one, 4, annotations={LEAST: "2"})) for one in ("p", "q")]
    for one in pods:
        one["metadata"].update(owner)
    harness.show_all("Pod", msgspec.json.encode(pods[0]))
    harness.cycle()
    assert placed(harness) == {}
    harness.see(ObjectSeen(msgspec.json.encode(pods[1])))
    harness.cycle()
    assert sorted(placed(harness)) == ["p", "q"]


@pytest.mark.parametrize("text", ["", "two", "1.5", "9" * 200 + "x"])
def test_a_minimum_that_is_no_number_is_refused(text: str) -> None:
    harness = started(npu_node("n"))
    harness.show_all("PodGroup", group(annotations={LEAST: text}))
    harness.show_all("Pod", npu_pod("p", 4, group="g"))
    harness.cycle()
    code, message = refusal(harness)
    assert code == "InvalidArgument"
    assert message.startswith("job task minAvailable '")
    assert message.endswith(" is invalid")
    assert len(message) < 200


def test_a_gang_below_its_minimum_waits_until_its_terminating_pods_are_gone() -> None:
    harness = started(npu_node("n"), npu_node("m"))
    harness.show_all("PodGroup", group(2))
    old = msgspec.json.decode(npu_pod("old", 8, group="g", on="n", phase="Running"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving = msgspec.json.encode(old)
    harness.show_all("Pod", leaving, *(npu_pod(one, 4, group="g") for one in ("p", "q")))
    harness.cycle()
    text = "job is not ready: 1 of its pods are still terminating"
    assert refusal(harness) == ("NotEnoughPods", text)
    harness.see(gone(leaving))
    harness.cycle()
    assert sorted(placed(harness)) == ["p", "q"]


def test_a_gang_that_has_its_minimum_does_not_wait_for_terminating_pods() -> None:
    harness = started(npu_node("n"))
    harness.show_all("PodGroup", group(1))
    notes = {T: chips(0, 1)}
    running = npu_pod("run", 2, group="g", on="n", phase="Running", annotations=notes)
    old = msgspec.json.decode(
        npu_pod("old", 2, group="g", on="n", phase="Running", annotations={T: chips(2, 3)})
    )
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    harness.show_all("Pod", running, msgspec.json.encode(old), npu_pod("p", 2, group="g"))
    harness.cycle()
    assert placed_numbers(harness, "p") == (4, 5)


@pytest.mark.parametrize(
    ("metadata", "count", "reason"),
    [
        ({}, 3, "InvalidResourceRequest"),
        ({"annotations": {LEAST: "x"}}, 1, "InvalidArgument"),
        ({"annotations": {POLICY: "x"}}, 1, "NotSupportPolicy"),
    ],
)
def test_the_condition_of_a_refused_pod_group_has_the_code_as_its_reason(
    metadata: dict[str, dict[str, str]], count: int, reason: str
) -> None:
    harness = started(npu_node("n"))
    harness.show_all("PodGroup", group(1, **metadata))
    harness.show_all("Pod", npu_pod("p", count, group="g"))
    harness.cycle()
    condition = condition_of(harness.state.cluster.groups["default/g"])
    assert condition is not None
    assert (condition.type, condition.reason) == ("Unschedulable", reason)
    assert condition.message == refusal(harness)[1]


@pytest.mark.parametrize(
    ("kind", "counts", "notes"),
    [
        ("module-a3-16", (1,), {}),
        ("module-a3-16", (16, 16), {}),
        ("module-a3-16-super-pod", (16, 16), {"sp-block": "16"}),
    ],
)
def test_pods_without_chips_do_not_change_what_is_valid_in_a_job(
    kind: str, counts: tuple[int, ...], notes: dict[str, str]
) -> None:
    nodes = [npu_node(one, 16, kind=kind, annotations=None) for one in ("n", "m")]
    whole = [msgspec.json.decode(one) for one in nodes]
    for one in whole:
        one["metadata"]["annotations"]["superPodID"] = "1"
    harness = started(*map(msgspec.json.encode, whole))
    harness.show_all("PodGroup", group(1 + len(counts), annotations=notes))
    workers = [
        npu_pod(f"w{index}", count, group="g", kind=kind, annotations=notes)
        for index, count in enumerate(counts)
    ]
    harness.show_all("Pod", *workers, npu_pod("helper", 0, group="g"))
    harness.cycle()
    assert refusal(harness) == ("", "")
    assert len(placed(harness)) == 1 + len(counts)
    written = [one for one in harness.engine.requests() if isinstance(one, AnnotateRequest)]
    expected = str(len(counts) > 1).lower()
    assert {one.annotations["distributed-job"] for one in written} == {expected}
