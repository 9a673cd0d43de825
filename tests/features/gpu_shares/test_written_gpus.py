"""The GPUs of a pod are written on it for the node, and read from pods of other schedulers and of a lost log."""

import pytest

from events.messages import Accepted, AnnotateRequest, Answer, BindRequest, ObjectSeen, Request
from tests.features.gpu_shares.test_gpu_shares import begun, given, milli, node, pod, refusal
from tests.scheduling.builders import SECOND, EngineHarness

INDEX = "alibabacloud.com/gpu-index"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"
HALF = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"}


def hami_node(name: str = "n1", gpus: int = 2) -> bytes:
    """A node whose GPUs the device plugin of HAMi lists, with 8,000 MiB each."""
    listed = [f"GPU-{one},10,8000,100,NVIDIA-T4,0,true,{one},hami-core:" for one in range(gpus)]
    return node(name, 10 * gpus, sharing="", register="".join(listed))


def requests(harness: EngineHarness) -> list[Request]:
    """The bindings and annotations that are asked for."""
    return [
        one for one in harness.engine.requests() if isinstance(one, AnnotateRequest | BindRequest)
    ]


def written(harness: EngineHarness, name: str) -> dict[str, str]:
    """What is to be written on a pod."""
    [found] = [one for one in requests(harness) if one.name == name]
    assert isinstance(found, AnnotateRequest)
    return dict(found.annotations)


def accept(harness: EngineHarness, name: str) -> None:
    """The API server does what is asked for a pod."""
    [request] = [one for one in requests(harness) if one.name == name]
    harness.engine.report([Answer(request, Accepted())], harness.now_ns)
    harness.state.validate()


@pytest.mark.parametrize("options", [milli(500), {"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "1"}])
def test_the_number_of_the_gpu_is_written_before_the_binding(options: dict[str, str]) -> None:
    harness = begun(node("n1", 2))
    harness.show_all("Pod", pod("a", options), pod("b", milli(1000)))
    harness.cycle()
    at = str(harness.now_ns)
    assert written(harness, "a") == {INDEX: "0", "alibabacloud.com/assume-time": at}
    assert written(harness, "b")[INDEX] == "1"
    accept(harness, "a")
    [request] = [one for one in requests(harness) if one.name == "a"]
    assert isinstance(request, BindRequest)


def test_nothing_is_written_on_pods_of_nodes_that_do_not_share() -> None:
    harness = begun(node("n1", 2, sharing=""))
    harness.show_all("Pod", pod("w", {"nvidia.com/gpu": "1"}))
    harness.cycle()
    [request] = requests(harness)
    assert isinstance(request, BindRequest)


def test_the_device_plugin_of_hami_gets_the_gpus_of_each_container() -> None:
    harness = begun(hami_node())
    sidecar: dict[str, str] = {}
    two = {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "25"}
    harness.show_all("Pod", pod("a", HALF, sidecar, two))
    harness.cycle()
    assert given(harness) == {"a": ("n1", "gpu-0:0", "gpu-0:2", "gpu-1:2")}
    listed = "GPU-0,NVIDIA,4000,30:;;GPU-0,NVIDIA,2000,0:GPU-1,NVIDIA,2000,0:;"
    seconds = str(harness.now_ns // SECOND)
    assert written(harness, "a") == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": seconds,
        "hami.io/bind-time": seconds,
        PHASE: "allocating",
        TO_ALLOCATE: listed,
        ALLOCATED: listed,
    }


def test_two_containers_with_half_a_gpu_share_one_and_are_not_added() -> None:
    """Added, they would be one share of 8,000 MiB of each of two GPUs."""
    harness = begun(hami_node(gpus=1))
    harness.show_all("Pod", pod("a", HALF, HALF), pod("b", HALF))
    harness.cycle()
    assert given(harness) == {"a": ("n1", "gpu-0:0", "gpu-0:1")}
    message = "0/1 nodes are unavailable: 1 node(s) did not have 0.3 and 4000 MiB of a GPU free."
    assert refusal(harness, "b") == ("NotEnoughResources", message)


def test_a_whole_gpu_on_a_node_of_hami_is_written_with_all_its_memory() -> None:
    harness = begun(hami_node())
    harness.show_all("Pod", pod("w", {"nvidia.com/gpu": "1"}))
    harness.cycle()
    assert written(harness, "w")[TO_ALLOCATE] == "GPU-0,NVIDIA,8000,0:;"


def test_a_list_of_gpus_that_breaks_before_a_pod_is_written_stops_nothing() -> None:
    harness = begun(hami_node())
    harness.show_all("Pod", pod("a", HALF))
    harness.cycle()
    harness.see(ObjectSeen(node("n1", 20, sharing="", register="broken")))
    assert written(harness, "a")[INDEX] == "0"


def test_pods_of_a_node_of_hami_are_bound_one_by_one() -> None:
    """The device plugin looks for the pod of its node that is `allocating`: there may be only one."""
    harness = begun(hami_node())
    harness.show_all("Pod", pod("a", HALF), pod("b", HALF), pod("c", milli(100)))
    harness.cycle()
    assert [one.name for one in requests(harness)] == ["a", "c"]
    accept(harness, "a")
    accept(harness, "a")
    marks = {**written_marks("GPU-0,NVIDIA,4000,30:;"), PHASE: "allocating"}
    harness.see(ObjectSeen(pod("a", {**HALF, **marks}, on="n1")))
    assert [one.name for one in requests(harness)] == ["c"]
    harness.see(ObjectSeen(pod("a", {**HALF, **marks, PHASE: "success"}, on="n1")))
    assert [one.name for one in requests(harness)] == ["b", "c"]


def written_marks(listed: str) -> dict[str, str]:
    """What another scheduler has written on a pod."""
    return {ALLOCATED: listed, "hami.io/vgpu-node": "n1"}


FOREIGN: list[tuple[bytes, dict[str, str], tuple[str, ...]]] = [
    (node("n1", 2), {**milli(500), INDEX: "1"}, ("gpu-1",)),
    (node("n1", 4), {**milli(1000, 2), INDEX: "1-3"}, ("gpu-1", "gpu-3")),
    (node("n1", 2), {"nvidia.com/gpu": "1", INDEX: "1"}, ("gpu-1",)),
    (hami_node(), {**HALF, **written_marks("GPU-1,NVIDIA,4000,30:;")}, ("gpu-1",)),
]


@pytest.mark.parametrize(("there", "options", "expected"), FOREIGN)
def test_the_gpus_of_running_pods_are_read_from_their_annotations(
    there: bytes, options: dict[str, str], expected: tuple[str, ...]
) -> None:
    """Pods of other schedulers, and those of muster after its log was lost."""
    harness = begun(there)
    harness.show_all("Pod", pod("a", options, on="n1", phase="Running"), pod("w", milli(1000)))
    harness.cycle()
    assert given(harness) == {"a": ("n1", *expected), "w": ("n1", "gpu-0")}
    harness.state.validate()


def test_the_gpus_of_two_containers_are_read() -> None:
    harness = begun(hami_node())
    marks = written_marks("GPU-1,NVIDIA,4000,30:;GPU-1,NVIDIA,4000,30:;")
    running = pod("a", {**HALF, **marks}, HALF, on="n1", phase="Running")
    harness.show_all("Pod", running, pod("b", milli(500)), pod("c", milli(500)))
    harness.cycle()
    a = ("n1", "gpu-1:0", "gpu-1:1")
    assert given(harness) == {"a": a, "b": ("n1", "gpu-0"), "c": ("n1", "gpu-0")}


WRONG = ["", "x", "-1", "1e0", "٣", "0-1", "9", "9" * 5000, "0;1"]


@pytest.mark.parametrize("index", WRONG)
def test_an_index_that_cannot_be_true_is_an_error_of_the_pod_and_its_node_gives_nothing(
    index: str,
) -> None:
    harness = begun(node("n1", 2))
    running = pod("a", {**milli(500), INDEX: index}, on="n1", phase="Running")
    harness.show_all("Pod", running, pod("b", milli(100)))
    harness.cycle()
    assert given(harness) == {"a": ("n1",)}
    [(code, message)] = harness.state.cluster.config_errors.current["Pod/default/a"]
    assert code == "InvalidDeviceAnnotation"
    assert INDEX in message or "its annotations name" in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "listed", ["", ";", "GPU-7,NVIDIA,1,1:;", "GPU-0,NVIDIA,1,1:GPU-1,NVIDIA,1,1:;", ":::" * 99]
)
def test_a_list_of_hami_that_cannot_be_true_is_an_error_of_the_pod(listed: str) -> None:
    harness = begun(hami_node())
    running = pod("a", {**HALF, **written_marks(listed)}, on="n1", phase="Running")
    harness.show_all("Pod", running, pod("b", milli(100)))
    harness.cycle()
    assert given(harness) == {"a": ("n1",)}
    [(code, message)] = harness.state.cluster.config_errors.current["Pod/default/a"]
    assert (code, ALLOCATED in message) == ("InvalidDeviceAnnotation", True)


@pytest.mark.parametrize(
    ("models", "expected"),
    [("T4", "n1"), ("P100|T4|T4", "n1"), ("P100", "n2"), ("A10|", ""), ("t4", ""), ("|", "n1")],
)
def test_a_card_model_is_a_constraint(models: str, expected: str) -> None:
    other = node("n2", 1).replace(b"T4", b"P100")
    harness = begun(node("n1", 1), other)
    harness.show_all("Pod", pod("a", {**milli(500), "alibabacloud.com/gpu-card-model": models}))
    harness.cycle()
    assert [one[0] for one in given(harness).values()] == ([expected] if expected else [])
    if not expected:
        model = models.strip("|")
        assert refusal(harness, "a")[1] == (
            f"0/2 nodes are unavailable: 2 node(s) did not have 0.5 of a GPU of model {model} free."
        )


@pytest.mark.parametrize(
    ("options", "others", "text"),
    [
        (
            {"nvidia.com/gpu": "1", "alibabacloud.com/gpu-card-model": "T4"},
            (),
            "alibabacloud.com/gpu-card-model needs alibabacloud.com/gpu-milli",
        ),
        (
            {**milli(1), "alibabacloud.com/gpu-card-model": "|".join(map(str, range(65)))},
            (),
            "65 models are more than 64",
        ),
        (
            {**HALF, "nvidia.com/use-gputype": "A100"},
            (),
            "annotation nvidia.com/use-gputype is not supported: name models by node affinity",
        ),
        ({**HALF, "nvidia.com/numa-bind": "true"}, (), "nvidia.com/numa-bind is not supported"),
        (HALF, (HALF,) * 16, "17 containers that ask for GPUs are more than 16"),
        (HALF, ({"nvidia.com/gpumem": "0"},), "nvidia.com/gpumem: '0' is not a whole number"),
        (
            {"gpu-fraction": "0.5"},
            (HALF,),
            "gpu-fraction and nvidia.com/gpumem and nvidia.com/gpucores",
        ),
    ],
)
def test_what_is_not_supported_is_refused(
    options: dict[str, str], others: tuple[dict[str, str], ...], text: str
) -> None:
    harness = begun(hami_node())
    harness.show_all("Pod", pod("bad", options, *others), pod("good", milli(1000)))
    harness.cycle()
    assert given(harness) == {"good": ("n1", "gpu-0")}
    code, message = refusal(harness, "bad")
    assert code == "InvalidResourceRequest"
    assert text in message


def test_init_containers_do_not_ask_for_shares() -> None:
    harness = begun(hami_node())
    bad = [pod("a", {}, init=HALF), pod("b", HALF, init={"nvidia.com/gpu": "1"})]
    whole = pod("w", {"nvidia.com/gpu": "1"}, init={"nvidia.com/gpu": "2"})
    harness.show_all("Pod", *bad, whole)
    harness.cycle()
    assert given(harness) == {"w": ("n1", "gpu-0", "gpu-1")}
    assert refusal(harness, "a") == refusal(harness, "b")
    assert "init containers cannot ask for GPUs" in refusal(harness, "a")[1]
