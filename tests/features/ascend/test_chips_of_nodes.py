"""Ascend chips of nodes: where they are known from, which pods get which, and what is said if none does."""

import pytest

from events.messages import ObjectSeen
from tests.features.ascend.builders import (
    T,
    base,
    chips,
    message,
    node_state,
    npu_node,
    npu_pod,
    placed,
    placed_numbers,
    policy,
    report,
    started,
)
from tests.scheduling.builders import EngineHarness, gone, raw


def test_pods_get_chips_by_name_and_none_twice() -> None:
    harness = started(npu_node("n"))
    harness.show_all("Pod", *(npu_pod(f"p{index}", 2) for index in range(4)))
    harness.cycle()
    given = [name for _, *names in placed(harness).values() for name in names]
    assert sorted(given) == [f"Ascend910-{number}" for number in range(8)]


def test_a_pod_that_ends_gives_its_chips_back() -> None:
    harness = started(npu_node("n"))
    harness.show_all("Pod", npu_pod("a", 4), npu_pod("b", 4))
    harness.cycle()
    first = placed_numbers(harness, "a")
    harness.show_all("Pod", npu_pod("b", 4, on="n", phase="Running"), npu_pod("c", 4))
    harness.cycle()
    assert placed_numbers(harness, "c") == first


def test_without_the_plugin_chips_are_counted_and_have_no_names() -> None:
    given: dict[str, object] = {"actions": "enqueue, allocate", "tiers": []}
    harness = started(npu_node("n"), given=given)
    harness.show_all("Pod", npu_pod("p", 3))
    harness.cycle()
    assert placed(harness) == {"p": ("n",)}


def test_free_chips_are_read_from_a_report_where_no_annotation_lists_all() -> None:
    harness = started(npu_node("n", annotations={}))
    harness.show_all("Pod", npu_pod("p", 2, kind=""))
    harness.cycle()
    assert placed(harness) == {}
    assert message(harness, "p") == (
        "0/1 nodes are unavailable: 1 node(s) had no 2 free chips of huawei.com/Ascend910 that a "
        "job of 910 module x8 can use."
    )
    harness.see(ObjectSeen(report("n", chips(0, 1, 4, 5, 6))))
    harness.cycle()
    assert placed(harness) == {"p": ("n", "Ascend910-0", "Ascend910-1")}


def with_report(available: str, **lists: str) -> EngineHarness:
    """A node without the annotation, and its report."""
    harness = started(npu_node("n", annotations={}))
    harness.see(ObjectSeen(report("n", available, lists=lists)))
    return harness


def show(harness: EngineHarness, *pods: bytes, members: int = 1) -> None:
    """Show pods, which are a gang if there are several."""
    if members > 1:
        harness.show_all("PodGroup", raw("PodGroup", "g", spec={"minMember": members}))
    harness.show_all("Pod", *pods)
    harness.cycle()


def test_the_worked_example_of_a_report() -> None:
    lists = {"Unhealthy": chips(5), "NetworkUnhealthy": chips(6), "Recovering": chips(7)}
    harness = with_report(chips(2, 3, 4, 6), **lists)
    show(harness, npu_pod("four", 4))
    assert placed(harness) == {}
    harness.see(gone(npu_pod("four", 4)))
    show(harness, npu_pod("two", 2))
    assert placed_numbers(harness, "two") == (2, 3)


def test_a_report_that_lists_chips_just_handed_out_does_not_bring_them_back() -> None:
    harness = with_report(chips(0, 1, 2, 3, 4, 5))
    show(harness, npu_pod("first", 2, kind=""))
    assert placed_numbers(harness, "first") == (4, 5)
    harness.see(ObjectSeen(report("n", chips(0, 1, 2, 3, 4, 5), at=2)))
    show(harness, npu_pod("first", 2, on="n"), npu_pod("four", 4), npu_pod("more", 1))
    assert placed_numbers(harness, "four") == (0, 1, 2, 3)
    assert "more" not in placed(harness)


def test_chips_of_a_distributed_job_reach_other_nodes() -> None:
    harness = started(npu_node("n"), npu_node("m"))
    harness.see(ObjectSeen(report("n", chips(*range(8)), lists={"NetworkUnhealthy": chips(2)})))
    harness.see(ObjectSeen(report("m", chips(*range(8)), lists={"NetworkUnhealthy": ""})))
    show(harness, *(npu_pod(f"p{one}", 8, group="g") for one in range(2)), members=2)
    assert placed(harness) == {}
    harness.see(*(gone(npu_pod(f"p{one}", 8, group="g")) for one in range(2)))
    show(harness, *(npu_pod(f"q{one}", 4, group="g") for one in range(3)), members=3)
    assert sorted(placed(harness).values()) == [
        ("m", *(f"Ascend910-{number}" for number in range(4))),
        ("m", *(f"Ascend910-{number}" for number in range(4, 8))),
        ("n", *(f"Ascend910-{number}" for number in range(4, 8))),
    ]
    show(harness, npu_pod("alone", 4))
    assert placed_numbers(harness, "alone") == (0, 1, 2, 3)


def test_a_report_that_does_not_say_which_chips_reach_other_nodes_serves_jobs_of_one_pod() -> None:
    harness = with_report(chips(*range(8)))
    show(harness, *(npu_pod(f"p{one}", 2, group="g") for one in range(2)), members=2)
    assert placed(harness) == {}
    show(harness, npu_pod("alone", 2))
    assert "alone" in placed(harness)


@pytest.mark.parametrize(
    ("kind", "wanted", "text"),
    [
        (
            "module-910b-8",
            "",
            "node label accelerator-type is module-910b-8, and the job needs module",
        ),
        ("half", "", "node label accelerator-type is half, and the job needs module"),
        ("modul", "", "node label accelerator-type is modul, and the job needs module"),
    ],
)
def test_a_node_of_another_product_serves_no_job(kind: str, wanted: str, text: str) -> None:
    harness = started(npu_node("n", kind=kind))
    show(harness, npu_pod("p", 1, kind=wanted))
    assert placed(harness) == {}
    assert obstacle(harness, "p").startswith(text)


DUO = {"infer-card-type": "card-300i-duo"}
A310P = "huawei.com/Ascend310P"


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (DUO, ""),
        ({}, "judgeNodeLabel node card label not right, is "),
        ({**DUO, "infer-card-type": "x"}, "judgeNodeLabel node card label not right, is x"),
    ],
)
@pytest.mark.parametrize("distributed", ["true", "false"])
def test_chips_of_a_duo_server_need_its_label(
    labels: dict[str, str], says: str, distributed: str
) -> None:
    harness = started(npu_node("n", 8, resource=A310P, labels=labels))
    asked = {"duo": "true", "distributed": distributed}
    show(harness, npu_pod("p", 2, resource=A310P, labels=asked))
    assert list(placed(harness)) == ([] if says else ["p"])
    if says:
        assert obstacle(harness, "p") == says


@pytest.mark.parametrize(("super_pod", "is_placed"), [("0", True), (None, False), ("-2", False)])
def test_a_job_in_a_super_pod_needs_a_node_of_one(super_pod: str | None, is_placed: bool) -> None:
    kind = "module-a3-16-super-pod"
    notes = {"baseDeviceInfos": base(T, 16), **({"superPodID": super_pod} if super_pod else {})}
    harness = started(npu_node("n", 16, kind=kind, annotations=notes))
    show(harness, npu_pod("p", 16, kind=kind))
    assert list(placed(harness)) == (["p"] if is_placed else [])
    if not is_placed:
        assert obstacle(harness, "p") == "node is not super-pod node or superPodID is not set"


def obstacle(harness: EngineHarness, name: str) -> str:
    """Why node n does not serve a pod."""
    from scheduling.node_ranking import NodeRankings

    cluster = harness.state.cluster
    cluster.nodes.lay_out()
    pod = cluster.pods[f"uid-{name}"]
    rankings = NodeRankings(cluster)
    job = rankings.job_of(cluster.groups[pod.group_key])
    return rankings.devices(pod.pod_class, None, job).obstacle(cluster.nodes.nodes["n"])


@pytest.mark.parametrize("status", ["UnHealthy", "PreSeparate"])
def test_a_node_with_faults_gets_no_pod_until_they_are_gone(status: str) -> None:
    harness = started(npu_node("n"))
    harness.see(ObjectSeen(report("n", chips(*range(8)))), ObjectSeen(node_state("n", status)))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {}
    says = {"UnHealthy": "node is unhealthy", "PreSeparate": "node health status is PreSeparate"}
    assert obstacle(harness, "p") == says[status]
    harness.see(gone(node_state("n", status)))
    harness.cycle()
    assert placed_numbers(harness, "p") == (0,)


def test_a_node_whose_chips_are_not_known_says_so() -> None:
    harness = started(npu_node("n", annotations={}))
    show(harness, npu_pod("p", 1))
    assert obstacle(harness, "p") == (
        "the chips of huawei.com/Ascend910 are not known: the node has no annotation "
        "baseDeviceInfos, and no report of its device plugin names them"
    )


def test_a_node_with_more_free_chips_than_kubernetes_counts_is_not_stable() -> None:
    harness = started(npu_node("n", allocatable=7))
    show(harness, npu_pod("p", 1))
    assert obstacle(harness, "p") == (
        "huawei.com/Ascend910 not stable:device-info is 8 but k8s is 7"
    )
    harness.see(ObjectSeen(report("n", chips(*range(7)), lists={"Unhealthy": chips(7)})))
    harness.cycle()
    assert placed_numbers(harness, "p") == (4,)


def test_a_pod_of_which_the_chips_are_not_known_makes_its_node_not_stable() -> None:
    harness = started(npu_node("n"))
    show(harness, npu_pod("foreign", 2, on="n", phase="Running"), npu_pod("p", 1))
    assert placed(harness) == {"foreign": ("n",)}
    assert obstacle(harness, "p") == (
        "huawei.com/Ascend910 not stable:device-info is 8 but k8s is 6"
    )
    harness.see(gone(npu_pod("foreign", 2)))
    harness.cycle()
    assert placed_numbers(harness, "p") == (0,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "annotation baseDeviceInfos: "),
        ('{"Ascend910 0":{}}', "annotation baseDeviceInfos: 'Ascend910 0' is not the name"),
        ('{"Ascend910-0":{},"Ascend910-00":{}}', "two chips have the same number"),
        ('{"Ascend910-64":{}}', "Ascend910-64: chips have numbers from 0 to 63"),
        ('{"Ascend910-2c-100-0":{}}', "the chips of huawei.com/Ascend910 are not known"),
        ('{"Ascend310-0":{}}', "the chips of huawei.com/Ascend910 are not known"),
        ("[]", "annotation baseDeviceInfos: "),
        ('{"a":' * 5000, "annotation baseDeviceInfos: "),
    ],
)
def test_an_annotation_that_cannot_be_used_gives_no_chips(text: str, says: str) -> None:
    harness = started(npu_node("n", annotations={"baseDeviceInfos": text}), npu_node("m"))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {"p": ("m", "Ascend910-0")}
    assert obstacle(harness, "p").startswith(says)


def test_a_node_of_two_resources_or_with_the_label_of_another_family_gives_none() -> None:
    labels = {"accelerator": "huawei-Ascend310P"}
    harness = started(npu_node("n", labels=labels))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {}
    assert obstacle(harness, "p") == (
        "label accelerator is huawei-Ascend310P, but the node has huawei.com/Ascend910"
    )
    harness = started(npu_node("n", labels={"accelerator": "gpu"}))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {}
    assert obstacle(harness, "p") == "node has no devices of the family ascend"


def test_the_list_of_the_device_plugin_counts_if_the_policy_says_so() -> None:
    given = policy(init={"self-maintain-available-card": "false"})
    harness = started(npu_node("n"), given=given)
    harness.see(ObjectSeen(report("n", chips(5, 6))))
    show(harness, npu_pod("p", 2))
    assert placed_numbers(harness, "p") == (5, 6)
    harness = started(npu_node("n"))
    harness.see(ObjectSeen(report("n", chips(5, 6))))
    show(harness, npu_pod("p", 2))
    assert placed_numbers(harness, "p") == (0, 1)


def test_chips_with_two_digits_are_sorted_as_numbers() -> None:
    notes = {"baseDeviceInfos": base(T, 16)}
    harness = started(npu_node("n", 16, kind="module-910b-16", annotations=notes))
    show(harness, npu_pod("p", 16, kind="module-910b-16"))
    assert placed(harness)["p"] == ("n", *(f"Ascend910-{number}" for number in range(16)))


@pytest.mark.parametrize(
    ("pods", "code", "text"),
    [
        (
            [npu_pod("p", 3)],
            "InvalidResourceRequest",
            "checkSingleTrainMode job<default/podgroup-uid-p> req npu num <3> not in [1,2,4,8]",
        ),
        (
            [npu_pod("p", 9, kind="module-910b-8")],
            "InvalidResourceRequest",
            "expected: job<default/podgroup-uid-p> req npu num should small than 8, and not in map[], "
            "actual: task<p> req npu: 9, ",
        ),
        (
            [npu_pod("p", 1, kind="modul")],
            "NotSupportPolicy",
            "node selector accelerator-type: modul is no product, one of module, half, card, "
            "module-910b-8, module-910b-16, card-910b-2, card-910b-infer, module-a3-16, "
            "module-a3-16-super-pod, module-a3-8-super-pod",
        ),
        (
            [npu_pod("p", requests={T: "1", "huawei.com/Ascend310": "1"})],
            "InvalidResourceRequest",
            "the pod requests huawei.com/Ascend310 and huawei.com/Ascend910: chips of one resource "
            "can be given",
        ),
        (
            [npu_pod("p", 1, group="g"), npu_pod("q", 1, group="g", kind="half")],
            "InvalidArgument",
            "tasks of the job name different products: accelerator-type: none and half",
        ),
        (
            [
                npu_pod("p", 1, group="g", kind="module-910b-8"),
                npu_pod("q", 9, group="g", kind="module-910b-8"),
            ],
            "InvalidResourceRequest",
            "expected: job<default/g> req npu num should small than 8, and not in map[], "
            "actual: task<q> req npu: 9, ",
        ),
    ],
)
def test_a_job_that_no_node_can_serve_is_refused_with_code_and_message(
    pods: list[bytes], code: str, text: str
) -> None:
    harness = started(npu_node("n", kind="module"))
    show(harness, *pods, members=len(pods))
    refusals = [
        one.decided.refusals.get("allocate") for one in harness.state.cluster.groups.values()
    ]
    found = [(one.code, one.message) for one in refusals if one is not None]
    assert found == [(code, text)]
    show(harness, npu_pod("other", 2))
    assert "other" in placed(harness)
