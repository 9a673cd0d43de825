"""Bad input about Ascend chips, from the watch event to the answer: the node that it is about gives no chip that is in
doubt, other nodes and jobs go on, and each error is recorded once until it changes."""

from collections.abc import Sequence

import msgspec
import pytest

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.messages import ObjectSeen
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
from tests.scheduling.builders import EngineHarness, gone, raw

REPORT = "ConfigMap.device-info/kube-system/mindx-dl-deviceinfo-n"
CORES = "huawei.com/npu-core"


def written(cfg: object) -> bytes:
    """The ConfigMap of the device plugin of node n with this text."""
    text = cfg if isinstance(cfg, str) else msgspec.json.encode(cfg).decode()
    return raw(
        "ConfigMap",
        "mindx-dl-deviceinfo-n",
        metadata={"namespace": "kube-system", "labels": {"mx-consumer-cim": "true"}},
        data={"DeviceInfoCfg": text},
    )


def info(at: int, **beside: object) -> bytes:
    """A report of eight available chips, with other keys beside it."""
    listed = {T: chips(*range(8))}
    return written({"DeviceInfo": {"DeviceList": listed, "UpdateTime": at}, **beside})


def errors(harness: EngineHarness) -> list[tuple[str, str, str]]:
    """Subject, code and message of the errors of configuration recorded since this was last asked."""
    records, harness.records = harness.records, []
    found = [event_of(one) for one in records]
    return [(one.subject, one.code, one.message) for one in found if isinstance(one, ConfigInvalid)]


def refusals(harness: EngineHarness) -> list[str]:
    """The codes of refusals recorded since this was last asked."""
    records, harness.records = harness.records, []
    found = [event_of(one) for one in records]
    return [one.code for one in found if isinstance(one, PodGroupUnschedulable)]


UNKNOWN = "the chips of huawei.com/Ascend910 are not known"
CLASHES = {"Unhealthy": chips(0)}


@pytest.mark.parametrize(
    ("first", "again", "code", "message", "says"),
    [
        (
            info(1, CheckCode="0" * 64),
            info(2, CheckCode="1" * 64),
            "CheckCodeDiffers",
            "DeviceInfoCfg: CheckCode is not that of DeviceInfo: the previous report stands",
            UNKNOWN,
        ),
        (
            written("{"),
            written("also not JSON"),
            "InvalidReport",
            "DeviceInfoCfg is not a JSON object",
            UNKNOWN,
        ),
        *(
            (
                report("n", text, at=1),
                report("n", text, at=2),
                "InvalidDeviceList",
                f"DeviceList {T}: {why}",
                f"DeviceList {T}: {why}",
            )
            for text, why in (
                (
                    "Ascend910-0, Ascend910-1",
                    "' Ascend910-1': devices are separated by a comma without a blank",
                ),
                ("Ascend310P-0,Ascend310P-1", "'Ascend310P-0' is not a device of Ascend910"),
                ("Ascend910-0,Ascend910-1,Ascend910-0", "Ascend910-0 is listed twice"),
            )
        ),
        (
            report("n", chips(0, 1), at=1, lists=CLASHES),
            report("n", chips(0, 1), at=2, lists=CLASHES),
            "InvalidDeviceList",
            f"DeviceList {T}: Ascend910-0 is available, and unhealthy or being reset",
            f"DeviceList {T}: Ascend910-0 is available, and unhealthy or being reset",
        ),
    ],
    ids=["hash", "json", "blank", "prefix", "doubled", "available-and-unhealthy"],
)
def test_a_first_report_that_cannot_be_used_gives_no_chips_and_disturbs_no_other_node(
    first: bytes, again: bytes, code: str, message: str, says: str
) -> None:
    harness = started(npu_node("n", annotations={}), npu_node("m"))
    harness.see(ObjectSeen(first))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {"p": ("m", "Ascend910-0")}
    assert obstacle(harness, "p").startswith(says)
    assert errors(harness) == [(REPORT, code, message)]
    harness.see(ObjectSeen(again))
    harness.cycle()
    assert errors(harness) == []
    harness.see(ObjectSeen(info(3)))
    harness.cycle()
    harness.see(ObjectSeen(first))
    harness.cycle()
    assert [(one, text) for one, text, _ in errors(harness) if text] == [(REPORT, code)]


@pytest.mark.parametrize("cfg", [info(2, CheckCode="0" * 64), written("{")], ids=["hash", "json"])
def test_the_last_report_that_could_be_used_stands(cfg: bytes) -> None:
    harness = started(npu_node("n", annotations={}))
    harness.see(ObjectSeen(report("n", chips(4, 5), lists={"Unhealthy": chips(0, 1, 2, 3, 6, 7)})))
    harness.see(ObjectSeen(cfg))
    show(harness, npu_pod("p", 2), npu_pod("q", 1))
    assert placed(harness) == {"p": ("n", "Ascend910-4", "Ascend910-5")}


def test_a_stale_report_makes_no_chip_free() -> None:
    harness = started(npu_node("n", annotations={}))
    harness.see(ObjectSeen(report("n", chips(0, 1))))
    show(harness, npu_pod("p", 2), npu_pod("q", 1))
    assert placed(harness) == {"p": ("n", "Ascend910-0", "Ascend910-1")}
    harness.cycle(seconds=100_000)
    harness.see(ObjectSeen(npu_node("m", 1)), gone(npu_node("m", 1)))
    harness.cycle()
    assert "q" not in placed(harness)
    (stale,) = harness.engine.stale_reports(harness.now_ns)
    assert stale.names == ("kube-system/mindx-dl-deviceinfo-n",)


def test_more_chips_than_are_allocatable_are_not_stable() -> None:
    harness = started(npu_node("n", annotations={}, allocatable=4), npu_node("m"))
    harness.see(ObjectSeen(report("n", chips(0, 1, 2, 3, 4, 5))))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {"p": ("m", "Ascend910-0")}
    assert obstacle(harness, "p") == f"{T} not stable:device-info is 6 but k8s is 4"


def test_of_fewer_chips_than_are_idle_those_that_are_listed_are_given() -> None:
    harness = started(npu_node("n", kind="module-910b-8", annotations={}))
    harness.see(ObjectSeen(report("n", chips(1, 3, 5, 6, 7, 2))))
    show(harness, npu_pod("p", 4, kind="module-910b-8"), npu_pod("q", 3, kind="module-910b-8"))
    assert placed_numbers(harness, "p") == (1, 2, 3, 5)
    assert "q" not in placed(harness)


@pytest.mark.parametrize(("value", "is_error"), [(-1, False), (-2, False), (-3, True)])
def test_a_node_with_a_negative_super_pod_is_in_none_and_its_chips_are_given(
    value: int, is_error: bool
) -> None:
    harness = started(npu_node("n", annotations={}))
    harness.see(ObjectSeen(info(1, SuperPodID=value)))
    show(harness, npu_pod("p", 1))
    (there,) = harness.state.cluster.nodes.nodes["n"].facts.devices_of("ascend")  # type: ignore[union-attr]
    assert there.super_pod_id == -1
    assert placed(harness)["p"][0] == "n"
    text = f"SuperPodID: '{value}' is not an index: it counts as absent"
    assert errors(harness) == ([(REPORT, "InvalidReport", text)] if is_error else [])


@pytest.mark.parametrize(
    ("labels", "kind", "code", "message"),
    [
        (
            {"accelerator": "huawei-Ascend310P"},
            "",
            "ContradictoryLabels",
            "label accelerator is huawei-Ascend310P, but the node has huawei.com/Ascend910",
        ),
        ({}, "modul", "UnknownAcceleratorType", "label accelerator-type: 'modul' is no product: "),
    ],
)
def test_labels_of_a_node_that_contradict_are_an_error_of_the_node(
    labels: dict[str, str], kind: str, code: str, message: str
) -> None:
    wrong = npu_node("n", labels=labels, kind=kind)
    harness = started(wrong, npu_node("m"))
    show(harness, npu_pod("p", 1))
    assert placed(harness) == {"p": ("m", "Ascend910-0")}
    ((subject, found, text),) = errors(harness)
    assert (subject, found) == ("Node//n", code)
    assert text.startswith(message)
    harness.see(ObjectSeen(wrong))
    harness.cycle()
    assert errors(harness) == []


@pytest.mark.parametrize(
    ("pods", "code", "message"),
    [
        *(
            (
                [npu_pod("p", count)],
                "InvalidResourceRequest",
                f"checkSingleTrainMode job<default/podgroup-uid-p> req npu num <{count}> not in [1,2,4,8]",
            )
            for count in (3, 5, 6, 7, 9)
        ),
        (
            [npu_pod("p", requests={T: "1", CORES: "1"})],
            "InvalidResourceRequest",
            "a pod requests devices of several families: ",
        ),
        (
            [npu_pod("p", 1, group="g"), npu_pod("q", 1, group="g", resource=CORES)],
            "InvalidResourceRequest",
            f"the job requests whole chips ({T}) and virtual NPUs ({CORES})",
        ),
        (
            [npu_pod("p", 1, group="g"), npu_pod("q", 1, group="g", kind="module-910b-8")],
            "InvalidArgument",
            "tasks of the job name different products: accelerator-type: none and module-910b-8",
        ),
        ([npu_pod("p", 3, resource=CORES)], "InvalidResourceRequest", "err require number:3"),
    ],
)
def test_an_invalid_job_is_refused_once_and_disturbs_no_other_job(
    pods: Sequence[bytes], code: str, message: str
) -> None:
    chip = {"servertype": "Ascend310P-8"}
    cut = npu_node("v", 4, resource="huawei.com/Ascend310P", labels=chip)
    harness = started(npu_node("n"), cut)
    show(harness, *pods, members=len(pods))
    texts = [
        one.decided.refusals["allocate"].message for one in harness.state.cluster.groups.values()
    ]
    assert len(texts) == 1
    assert texts[0].startswith(message)
    assert refusals(harness) == [code]
    harness.see(ObjectSeen(npu_pod("other", 2)))
    harness.cycle()
    assert placed(harness) == {"other": ("n", "Ascend910-0", "Ascend910-1")}
    assert refusals(harness) == []
