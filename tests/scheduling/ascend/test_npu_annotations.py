"""Annotations of pods with Ascend devices: what is written before the binding, and what is read back."""

import pytest

from events.messages import Accepted, AnnotateRequest, Answer
from tests.scheduling.ascend.builders import T, npu_node, npu_pod, placed, placed_numbers, started
from tests.scheduling.ascend.test_chips_of_nodes import obstacle, show
from tests.scheduling.ascend.test_virtual_npus import core_node, core_pod
from tests.scheduling.builders import EngineHarness

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
