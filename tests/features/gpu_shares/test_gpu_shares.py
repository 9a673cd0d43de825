"""Shares of GPUs in a cluster: nodes in each form, pods in each form, whole GPUs beside them."""

import pytest

from events.normalize import Json, JsonObject
from features.table import FEATURES
from projections import snapshot
from tests.scheduling.builders import EngineHarness, gone, raw

REGISTER = "hami.io/node-nvidia-register"


def node(
    name: str, gpus: int, *, memory: str = "16000", sharing: str = "true", register: str = ""
) -> bytes:
    """A node with GPUs that are shared."""
    amounts = {"cpu": "64", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {
        "nvidia.com/gpu.product": "T4",
        "nvidia.com/gpu.memory": memory,
        "muster.sh/gpu-sharing": sharing,
    }
    metadata: JsonObject = {"labels": dict(labels)}
    if register:
        metadata["annotations"] = {REGISTER: register}
    return raw("Node", name, metadata=metadata, spec={}, status={"allocatable": amounts})


def pod(
    name: str,
    options: dict[str, str],
    *others: dict[str, str],
    init: dict[str, str] | None = None,
    on: str = "",
    phase: str = "Pending",
) -> bytes:
    """A pod that states its request in annotations (with a value) and resources (`nvidia.com/gpu...`) of its first
    container; those of other containers, and of an init container, follow."""
    resources = {key: value for key, value in options.items() if key.startswith("nvidia.com/gpu")}
    annotations = {key: value for key, value in options.items() if key not in resources}
    requests: JsonObject = {"cpu": "1", **resources}
    containers: list[Json] = [{"name": "main", "resources": {"requests": requests}}]
    containers += [
        {"name": f"c{index}", "resources": {"requests": dict(one)}}
        for index, one in enumerate(others, 1)
    ]
    first: list[Json] = [{"name": "init", "resources": {"requests": dict(init)}}] if init else []
    spec: JsonObject = {
        "schedulerName": "muster",
        "initContainers": first,
        "containers": containers,
        **({"nodeName": on} if on else {}),
    }
    metadata: JsonObject = {"annotations": dict(annotations)}
    return raw("Pod", name, metadata=metadata, spec=spec, status={"phase": phase})


def begun(*nodes: bytes) -> EngineHarness:
    """A cluster with these nodes and without pods or quotas."""
    named = [{"name": one} for one in ("priority", "gang", "predicates")]
    policy: dict[str, object] = {"actions": "enqueue, allocate", "tiers": [{"plugins": named}]}
    harness = EngineHarness(policy=policy)
    harness.show_all("Node", *nodes)
    harness.show_all("Pod")
    harness.show_the_rest()
    harness.cycle()
    return harness


def given(harness: EngineHarness) -> dict[str, tuple[str, ...]]:
    """Name of each pod that is placed to its node and GPUs."""
    pods = harness.state.cluster.pods.values()
    return {one.facts.name: (one.node, *one.devices) for one in pods if one.node}


def refusal(harness: EngineHarness, name: str) -> tuple[str, str]:
    """Code and message of why a pod waits."""
    found = harness.state.cluster.pods[f"uid-{name}"]
    [reason] = harness.state.cluster.groups[found.group_key].decided.refusals.values()
    return reason.code, reason.message


def milli(thousandths: int, count: int = 1) -> dict[str, str]:
    """A request in the form of openb."""
    return {
        "alibabacloud.com/gpu-milli": str(thousandths),
        "alibabacloud.com/gpu-count": str(count),
    }


def test_shares_go_where_the_least_remains_and_whole_gpus_get_unused_ones() -> None:
    harness = begun(node("n1", 3))
    first = [pod("a", milli(600)), pod("b", milli(500)), pod("c", milli(400))]
    harness.show_all("Pod", *first, pod("w", {"nvidia.com/gpu": "1"}), pod("x", milli(1000)))
    harness.cycle()
    assert given(harness) == {
        "a": ("n1", "gpu-0"),
        "b": ("n1", "gpu-1"),
        "c": ("n1", "gpu-0"),
        "w": ("n1", "gpu-2"),
    }
    assert refusal(harness, "x") == (
        "NotEnoughResources",
        "0/1 nodes are unavailable: 1 node(s) did not have 1 whole GPU free.",
    )
    harness.see(gone(pod("w", {"nvidia.com/gpu": "1"})))
    harness.cycle()
    assert given(harness)["x"] == ("n1", "gpu-2")
    harness.state.validate()


@pytest.mark.parametrize(
    "options",
    [
        {"gpu-fraction": "0.5"},
        {"gpu-memory": "8000"},
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"},
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50"},
        {"nvidia.com/gpumem": "8000"},
        milli(500),
    ],
)
def test_two_halves_in_any_form_fill_a_gpu(options: dict[str, str]) -> None:
    harness = begun(node("n1", 1))
    harness.show_all("Pod", *(pod(name, options) for name in "abc"))
    harness.cycle()
    assert given(harness) == {"a": ("n1", "gpu-0"), "b": ("n1", "gpu-0")}
    assert refusal(harness, "c")[0] == "NotEnoughResources"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (milli(0), "alibabacloud.com/gpu-milli: '0' is not a whole number from 1 to 1000"),
        (milli(1001), "alibabacloud.com/gpu-milli: '1001' is not a whole number from 1 to 1000"),
        ({"gpu-fraction": "1.001"}, "gpu-fraction: '1.001' is not a decimal number"),
        ({"gpu-fraction": "0.5", "gpu-memory": "10"}, "gpu-fraction and gpu-memory are different"),
        ({"gpu-fraction": "0.5", "nvidia.com/gpu": "1"}, "gpu-fraction and nvidia.com/gpu are"),
        ({"nvidia.com/gpumem": "0"}, "nvidia.com/gpumem: '0' is not a whole number"),
    ],
)
def test_a_request_that_is_not_valid_is_refused_and_disturbs_no_other_pod(
    options: dict[str, str], text: str
) -> None:
    harness = begun(node("n1", 1))
    harness.show_all("Pod", pod("bad", options), pod("good", milli(500)))
    harness.cycle()
    assert given(harness) == {"good": ("n1", "gpu-0")}
    code, message = refusal(harness, "bad")
    assert code == "InvalidResourceRequest"
    assert text in message


def test_memory_beyond_the_gpu_is_refused_with_the_amount() -> None:
    harness = begun(node("n1", 4))
    harness.show_all("Pod", pod("large", {"gpu-memory": "16001"}))
    harness.cycle()
    assert refusal(harness, "large")[1] == (
        "0/1 nodes are unavailable: 1 node(s) did not have 16001 MiB of a GPU free."
    )


def test_nothing_is_given_while_it_is_unknown_which_gpu_a_pod_uses() -> None:
    harness = begun(node("n1", 2))
    foreign = pod("foreign", {"nvidia.com/gpu": "1"}, on="n1", phase="Running")
    harness.show_all("Pod", foreign, pod("a", milli(500)))
    harness.cycle()
    assert given(harness) == {"foreign": ("n1",)}
    harness.see(gone(foreign))
    harness.cycle()
    assert given(harness) == {"a": ("n1", "gpu-0")}


def test_pods_for_whole_gpus_are_placed_without_names_on_nodes_that_do_not_share() -> None:
    harness = begun(node("n1", 2, sharing="false"))
    harness.show_all("Pod", pod("w", {"nvidia.com/gpu": "2"}), pod("a", milli(500)))
    harness.cycle()
    assert given(harness) == {"w": ("n1",)}
    assert refusal(harness, "a")[0] == "NotEnoughResources"


def test_the_gpus_of_hamis_annotation_are_used_as_they_are_listed() -> None:
    listed = "".join(
        f"GPU-{index},2,8000,100,NVIDIA-T4,0,{healthy},{index},hami-core:"
        for index, healthy in enumerate(("true", "false", "true"))
    )
    harness = begun(node("n1", 6, sharing="", register=listed))
    part = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    harness.show_all("Pod", *(pod(f"p{index}", part) for index in range(5)))
    harness.cycle()
    assert given(harness) == {
        "p0": ("n1", "gpu-0"),
        "p1": ("n1", "gpu-0"),
        "p2": ("n1", "gpu-2"),
        "p3": ("n1", "gpu-2"),
    }


@pytest.mark.parametrize(
    "listed", ["", ":", "GPU-0,1", "GPU-0,x,8000,100,T4,0,true", "a,1,1,1,t,0,true,0,m:" * 2]
)
def test_an_annotation_that_cannot_be_read_is_a_fault_of_the_node(listed: str) -> None:
    harness = begun(node("n1", 2, register=listed or " "))
    found = harness.state.cluster.nodes.nodes["n1"].facts
    assert found is not None
    assert [code for code, _ in found.faults] == ["InvalidGpuSharing"]
    assert found.devices == {}


def test_queues_are_charged_thousandths_of_a_card_model_for_memory_too() -> None:
    harness = EngineHarness()
    quota = '{"T4": 1, "T4/milli": 700}'
    metadata: JsonObject = {"annotations": {"volcano.sh/card.quota": quota}}
    queue = raw("Queue", "default", metadata=metadata, spec={}, status={"state": "Open"})
    harness.show_all("Node", node("n1", 4))
    harness.show_all("Pod")
    harness.show_all("Queue", queue)
    harness.show_the_rest()
    harness.cycle()
    card = {"volcano.sh/card.name": "T4/milli"}
    harness.show_all(
        "Pod",
        pod("a", {**milli(400), **card}),
        pod("b", {**milli(400), **card}),
        pod("m", {"gpu-memory": "4001", **card}),
        pod("n", {"gpu-memory": "800", **card}),
        pod("w", {"nvidia.com/gpu": "1", "volcano.sh/card.name": "T4"}),
    )
    harness.cycle()
    assert {name: one[0] for name, one in given(harness).items()} == {
        "a": "n1",
        "m": "n1",
        "w": "n1",
    }
    allocated = harness.state.cluster.queues["default"].allocated
    charged = {name: amount for name, amount in allocated.items() if name.startswith("T4")}
    # 251 = 4001 / 16000, rounded up.
    assert charged == {"T4": 1, "T4/milli": 400 + 251}
    code, message = refusal(harness, "n")
    assert code == "InsufficientScalarQuota"
    assert message == (
        "Queue <default> has insufficient <T4/milli> quota: requested <0.05 of a card>, "
        "total would be <0.701 of a card>, but capability is <0.7 of a card>"
    )
    harness.see(gone(node("n1", 4)))
    harness.state.validate()


def test_memory_of_several_models_is_charged_by_the_one_that_a_pod_gets() -> None:
    """While it waits by the one that costs most; GPUs of which the memory is not known serve no such pod."""
    harness = EngineHarness()
    metadata: JsonObject = {
        "annotations": {
            "volcano.sh/card.quota": '{"T4/milli": 0, "A10/milli": 1000, "P4/milli": 9}'
        }
    }
    queue = raw("Queue", "default", metadata=metadata, spec={}, status={"state": "Open"})
    large = node("n2", 1, memory="24000").replace(b"T4", b"A10")
    unknown = node("n3", 1, memory="").replace(b"T4", b"P4")
    harness.show_all("Node", node("n1", 1), large, unknown)
    harness.show_all("Queue", queue)
    choice = {"volcano.sh/card.name": "P4/milli|T4/milli|A10/milli"}
    harness.show_all("Pod", pod("a", {"gpu-memory": "8000", **choice}))
    harness.show_the_rest()
    waiting = harness.state.cluster.queues["default"].pending
    assert [amount for name, amount in waiting.items() if "/milli" in name] == [500]
    harness.cycle()
    assert given(harness) == {"a": ("n2", "gpu-0")}
    assert harness.state.cluster.queues["default"].allocated["A10/milli"] == 334
    harness.see(gone(large), gone(node("n1", 1)))
    harness.state.validate()


def test_shares_are_kept_across_a_snapshot() -> None:
    harness = begun(node("n1", 2))
    harness.show_all("Pod", pod("a", milli(600)))
    harness.cycle()
    harness.show_all("Pod", pod("a", milli(600), on="n1", phase="Running"))
    payload = snapshot.take(harness.state)
    restored = snapshot.restore(payload, FEATURES)
    assert restored.cluster.pods["uid-a"].devices == ("gpu-0",)
    assert snapshot.take(restored) == payload
    restored.validate()
