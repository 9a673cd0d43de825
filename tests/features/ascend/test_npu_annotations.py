"""Annotations of pods with Ascend devices: what is written before the binding, and what is read back."""

import msgspec
import pytest

from events.messages import Accepted, AnnotateRequest, Answer, BindRequest, ObjectSeen
from features.table import FEATURES
from projections import snapshot
from tests.features.ascend.builders import (
    T,
    chips,
    npu_node,
    npu_pod,
    placed,
    placed_numbers,
    report,
    started,
)
from tests.features.ascend.test_chips_of_nodes import obstacle, show
from tests.features.ascend.test_virtual_npus import core_node, core_pod
from tests.scheduling.builders import EngineHarness, gone

REAL = "huawei.com/AscendReal"
CORE = "huawei.com/npu-core"


def written(harness: EngineHarness) -> dict[str, dict[str, str]]:
    """Name of each pod to the annotations that are asked for."""
    found = [one for one in harness.engine.requests() if isinstance(one, AnnotateRequest)]
    return {one.name: one.annotations for one in found}


def test_the_chips_of_a_pod_are_written_with_its_time_and_whether_the_job_is_distributed() -> None:
    harness = started(npu_node("n"))
    show(harness, npu_pod("a", 2))
    assert written(harness) == {
        "a": {
            T: "Ascend910-0,Ascend910-1",
            "predicate-time": str(harness.now_ns),
            "distributed-job": "false",
        }
    }
    harness = started(npu_node("n"))
    show(harness, *(npu_pod(f"p{one}", 2, group="g") for one in range(2)), members=2)
    # The second pod of the node follows when the device plugin has confirmed the first one.
    [first] = written(harness).values()
    assert first["distributed-job"] == "true"


def test_a_part_of_a_chip_is_written_by_number_and_template() -> None:
    harness = started(core_node("n", 3))
    show(harness, core_pod("a", 4, level="high"))
    assert written(harness)["a"][CORE] == "0-vir04"
    harness = started(core_node("n", 3))
    show(harness, core_pod("a", 16))
    assert written(harness)["a"][CORE] == "0,1"


def test_without_the_plugin_nothing_is_written() -> None:
    harness = started(npu_node("n"), given={"actions": "enqueue, allocate", "tiers": []})
    show(harness, npu_pod("a", 2))
    assert written(harness) == {}


@pytest.mark.parametrize("key", [REAL, T])
def test_the_chips_of_a_running_pod_are_read_from_its_annotations(key: str) -> None:
    harness = started(npu_node("n"))
    notes = {key: "Ascend910-2,Ascend910-3"}
    running = npu_pod("old", 2, on="n", phase="Running", annotations=notes)
    show(harness, running, npu_pod("p", 2))
    assert placed(harness) == {
        "old": ("n", "Ascend910-2", "Ascend910-3"),
        "p": ("n", "Ascend910-0", "Ascend910-1"),
    }


def test_what_the_device_plugin_states_counts_before_what_was_decided() -> None:
    harness = started(npu_node("n"))
    notes = {T: "Ascend910-0,Ascend910-1", REAL: "Ascend910-4,Ascend910-5"}
    show(harness, npu_pod("old", 2, on="n", phase="Running", annotations=notes))
    assert placed_numbers(harness, "old") == (4, 5)


@pytest.mark.parametrize(
    "text", ["", "Ascend910-0", "Ascend910-0,Ascend910-0", "Ascend910-0, Ascend910-1", "x" * 500]
)
def test_an_annotation_that_cannot_be_used_leaves_the_node_unused(text: str) -> None:
    harness = started(npu_node("n"))
    running = npu_pod("old", 2, on="n", phase="Running", annotations={REAL: text})
    show(harness, running, npu_pod("p", 1))
    assert placed(harness) == {"old": ("n",)}
    assert obstacle(harness, "p").startswith("huawei.com/Ascend910 not stable")


def core_running(name: str, cores: int, **annotations: str) -> bytes:
    """A pod with AI cores that runs on node n."""
    return npu_pod(
        name, requests={CORE: str(cores)}, on="n", phase="Running", annotations=annotations
    )


def test_a_confirmed_part_lets_other_templates_start() -> None:
    harness = started(core_node("n"))
    show(harness, core_pod("a", 4))
    show(harness, core_pod("a", 4, on="n"), core_pod("b", 2))
    assert "b" not in placed(harness)
    real = {REAL: "Ascend310P-4c.3cpu-105-0_3"}
    show(harness, core_running("a", 4, **real), core_pod("b", 2))
    assert placed(harness) == {
        "a": ("n", "Ascend310P-0:4c.3cpu@3"),
        "b": ("n", "Ascend310P-0:vir02_1c"),
    }


def test_decided_parts_are_read_back_after_a_restart() -> None:
    harness = started(core_node("n", 2))
    show(
        harness,
        core_running("a", 4, **{CORE: "1-vir04"}),
        core_running("b", 8, **{CORE: "0"}),
    )
    assert placed(harness) == {"a": ("n", "Ascend310P-1:vir04"), "b": ("n", "Ascend310P-0")}


@pytest.mark.parametrize(
    "text", ["7-vir04", "x", "0-", "0-../x", ",", "-1", "0-vir04;", "0-vir01", "0,1"]
)
def test_a_part_that_cannot_be_read_leaves_the_node_unused(text: str) -> None:
    harness = started(core_node("n", 2))
    show(harness, core_running("a", 4, **{CORE: text}), core_pod("p", 1))
    assert placed(harness) == {"a": ("n",)}


def test_the_annotations_are_written_before_the_binding() -> None:
    harness = started(npu_node("n"))
    show(harness, npu_pod("a", 2))
    [request] = harness.engine.requests()
    assert isinstance(request, AnnotateRequest)
    answers = [Answer(request, Accepted())]
    assert harness.engine.report(answers, harness.now_ns) is not None
    [then] = harness.engine.follow_up_requests(answers)
    assert type(then).__name__ == "BindRequest"


CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
OPERATOR = {"training.kubeflow.org/operator-name": "pytorchjob-controller"}
RANK = "hccl/rankIndex"
LEAST = "huawei.com/schedule_minAvailable"


def with_addresses(node: bytes, infos: dict[str, object], **annotations: str) -> bytes:
    """The node with an address and what its annotation says of its chips."""
    found = msgspec.json.decode(node)
    text = msgspec.json.encode(infos).decode()
    found["metadata"]["annotations"] = {"baseDeviceInfos": text, **annotations}
    addresses = [("Hostname", "n"), ("InternalIP", "10.0.0.9")]
    found["status"]["addresses"] = [{"type": kind, "address": one} for kind, one in addresses]
    return msgspec.json.encode(found)


def card_node(*, allocatable: int = 2) -> bytes:
    """A host with two cards."""
    infos = {
        "Ascend910-0": {"IP": "10.0.1.0", "SuperDeviceID": 3, "levelList": []},
        "Ascend910-1": {"IP": "1" * 100},
    }
    node = npu_node("n", 2, kind="card", allocatable=allocatable)
    return with_addresses(node, infos, superPodID="4", serverIndex="7")


def test_a_pod_with_all_chips_of_its_node_gets_its_entry_of_the_rank_table() -> None:
    harness = started(card_node())
    show(harness, npu_pod("w-0", 2, kind="card"))
    found = written(harness)["w-0"]
    assert found[REAL] == "Ascend910-0,Ascend910-1"
    assert found[CONFIGURATION] == (
        '{"pod_name":"w-0","server_id":"uid-w-0","server_ip":"10.0.0.9","host_ip":"10.0.0.9",'
        '"super_pod_id":4,"rack_id":-1,"devices":[{"device_id":"0","device_ip":"10.0.1.0",'
        '"super_device_id":"3"},{"device_id":"1","device_ip":"","super_device_id":"0"}],'
        '"server_index":"7"}'
    )


def test_a_node_that_states_no_place_in_a_super_pod_has_none_in_the_rank_table() -> None:
    harness = started(
        with_addresses(npu_node("n", 1, kind="card"), {"Ascend910-0": {"IP": "x" * 64}})
    )
    show(harness, npu_pod("p", 1, kind="card"))
    found = msgspec.json.decode(written(harness)["p"][CONFIGURATION])
    assert (found["super_pod_id"], found["server_index"]) == (-1, "")


@pytest.mark.parametrize(
    ("node", "broken", "count", "labels", "notes", "is_written"),
    [
        (card_node(), "", 1, {}, {}, False),
        (card_node(), "", 1, OPERATOR, {}, True),
        (card_node(), "", 1, {}, {REAL: "Ascend910-1"}, True),
        (card_node(allocatable=1), "Ascend910-1", 1, {}, {}, False),
        (with_addresses(card_node(), {"Ascend910-0": {}, "Ascend910-1": 1}), "", 2, {}, {}, False),
    ],
)
def test_the_device_plugin_writes_the_entry_of_the_rank_table_of_other_pods(
    node: bytes,
    broken: str,
    count: int,
    labels: dict[str, str],
    notes: dict[str, str],
    is_written: bool,
) -> None:
    harness = started(node)
    harness.see(ObjectSeen(report("n", chips(0), lists={"Unhealthy": broken})))
    show(harness, npu_pod("p", count, kind="card", labels=labels, annotations=notes))
    found = written(harness)["p"]
    assert (REAL in found, CONFIGURATION in found) == (is_written, is_written)


def test_what_muster_writes_itself_does_not_confirm_a_pod_of_the_training_operator() -> None:
    harness = started(npu_node("n"))
    show(harness, npu_pod("a", 2, labels=OPERATOR), npu_pod("b", 2))
    assert list(written(harness)) == ["a"]
    for _ in range(2):
        [request] = [one for one in harness.engine.requests() if getattr(one, "name", "") == "a"]
        harness.engine.report([Answer(request, Accepted())], harness.now_ns)
    notes = {T: chips(0, 1), REAL: chips(0, 1), "predicate-time": "1"}
    bound = msgspec.json.decode(npu_pod("a", 2, on="n", labels=OPERATOR, annotations=notes))
    harness.see(ObjectSeen(msgspec.json.encode(bound)))
    assert written(harness) == {}
    bound["status"]["startTime"] = "2026-01-01T00:00:00Z"
    harness.see(ObjectSeen(msgspec.json.encode(bound)))
    assert list(written(harness)) == ["b"]


def owned(pod: bytes, kind: str) -> bytes:
    """The pod with a controller."""
    found = msgspec.json.decode(pod)
    owner = {"kind": kind, "name": "o", "uid": "o", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    return msgspec.json.encode(found)


def ranks(harness: EngineHarness) -> dict[str, str | None]:
    """Carry all requests out, and return the rank that each pod was given."""
    found: dict[str, str | None] = {}
    while asked := [
        one for one in harness.engine.requests() if isinstance(one, AnnotateRequest | BindRequest)
    ]:
        for one in asked:
            if isinstance(one, AnnotateRequest):
                found[one.name] = one.annotations.get(RANK)
        harness.engine.report([Answer(one, Accepted()) for one in asked], harness.now_ns)
        harness.cycle(61)
    return found


def test_pods_of_a_replica_set_get_the_smallest_ranks_and_keep_them() -> None:
    harness = started(npu_node("n"), npu_node("m"))
    pods = [owned(npu_pod(name, 2), "ReplicaSet") for name in ("p-x7", "p-b2", "p-k0")]
    show(harness, *pods)
    first = ranks(harness)
    assert sorted(first.values(), key=str) == ["0", "1", "2"]
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert {str(one) for one in restored.assignments.ranks.values()} == {"0", "1", "2"}
    # The first one is replaced: its rank is free, although no other pod was seen with its annotation yet.
    gone_rank = first["p-b2"]
    harness.see(gone(pods[1]))
    harness.see(ObjectSeen(owned(npu_pod("p-new", 2), "ReplicaSet")))
    harness.cycle()
    assert ranks(harness) == {"p-new": gone_rank}


def test_a_rank_in_an_annotation_is_kept_and_given_to_no_other_pod() -> None:
    harness = started(npu_node("n"), npu_node("m"))
    old = npu_pod("old", 2, on="m", phase="Running", annotations={T: chips(0, 1), RANK: "0"})
    failed = npu_pod("bad", 2, on="m", phase="Failed", annotations={RANK: "1"})
    kept = npu_pod("kept", 2, annotations={RANK: "5"})
    show(harness, *(owned(one, "ReplicaSet") for one in (old, failed, kept, npu_pod("p", 2))))
    assert ranks(harness) == {"kept": "5", "p": "1"}


@pytest.mark.parametrize(
    ("kind", "notes", "expected"),
    [
        ("StatefulSet", {LEAST: "2"}, ["3", "4"]),
        ("StatefulSet", {}, [None, None]),
        ("Job", {LEAST: "2", "volcano.sh/task-spec": "w"}, ["3", "4"]),
        ("Job", {LEAST: "2"}, ["0", "1"]),
    ],
)
def test_ranks_of_jobs_with_a_minimum_in_an_annotation(
    kind: str, notes: dict[str, str], expected: list[str | None]
) -> None:
    harness = started(npu_node("n"))
    show(harness, *(owned(npu_pod(f"s-{one}", 2, annotations=notes), kind) for one in (3, 4)))
    assert list(ranks(harness).values()) == expected


def test_pods_of_a_super_pod_job_get_their_logical_and_physical_super_pod() -> None:
    kind = "module-a3-16-super-pod"
    nodes = [
        with_addresses(
            npu_node(name, 16, kind=kind),
            {f"Ascend910-{number}": {} for number in range(16)},
            superPodID=number,
        )
        for name, number in (("n", "3"), ("m", "8"))
    ]
    harness = started(*nodes)
    pods = [
        npu_pod(f"w-{one}", 16, kind=kind, group="g", annotations={"sp-block": "16"})
        for one in range(2)
    ]
    show(harness, *pods, members=2)
    found = {
        placed(harness)[name][0]: (one["super-pod-rank"], one["super-pod-id"])
        for name, one in written(harness).items()
    }
    assert {node: number for node, (_, number) in found.items()} == {"n": "3", "m": "8"}
    assert sorted(rank for rank, _ in found.values()) == ["0", "1"]
