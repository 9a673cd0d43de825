"""The chips of a node: which there are, by what they are known, and why none of them can be given."""

import msgspec
import pytest

from features.ascend.inventory import (
    Inventory,
    card_model,
    inventory,
    read_base,
    super_pod_of,
)
from projections.device_family import DeviceSources
from projections.device_report import DeviceFault, DeviceList, DeviceReport
from tests.features.ascend.builders import T


def sources(report: DeviceReport | None = None, chips: int = 8, **labels: str) -> DeviceSources:
    """A node with the label of 910 chips."""
    return DeviceSources(
        name="n",
        labels={"accelerator": "huawei-Ascend910", **labels},
        capacity={T: chips},
        allocatable={T: chips},
        report=report,
    )


def read(*names: str, report: DeviceReport | None = None, chips: int = 8) -> Inventory:
    """The inventory of a node whose annotation has these names."""
    text = msgspec.json.encode({one: {} for one in names}).decode() if names else ""
    return inventory(T, sources(report, chips), read_base(text))


def numbers(found: Inventory) -> list[int]:
    return [one.number for one in found.devices]


@pytest.mark.parametrize(
    ("resource", "accelerator", "chip", "card"),
    [
        (T, "huawei-Ascend910", "", "Ascend910"),
        (T, "huawei-Ascend910", "910B3", "Ascend910B3"),
        (T, "huawei-Ascend910", "Ascend910B3", "Ascend910B3"),
        (T, "huawei-Ascend910", "not a name\n", "Ascend910"),
        ("huawei.com/Ascend310P", "huawei-Ascend310P", "", "Ascend310P"),
        ("huawei.com/npu", "huawei-npu", "", "npu"),
        ("huawei.com/npu", "huawei-Ascend910", "", "Ascend910"),
    ],
)
def test_the_model_of_chips_for_quotas(
    resource: str, accelerator: str, chip: str, card: str
) -> None:
    labels = {"accelerator": accelerator}
    if chip:
        labels["node.kubernetes.io/npu.chip.name"] = chip
    assert card_model(resource, labels) == card


@pytest.mark.parametrize(
    ("reported", "stated", "super_pod"),
    [
        (0, "7", 0),
        (3, "7", 3),
        (-1, "7", 7),
        (-2, "", -1),
        (-1, "-3", -1),
        (-1, "123456789", 123456789),
        (-1, "1234567890", -1),
        (-1, "\u00b2", -1),
    ],
)
def test_the_super_pod_is_that_of_the_report_else_of_the_annotation(
    reported: int, stated: str, super_pod: int
) -> None:
    found = msgspec.structs.replace(
        sources(DeviceReport(super_pod_id=reported)), annotations={"superPodID": stated}
    )
    assert super_pod_of(found) == super_pod


def test_a_name_of_253_characters_in_the_annotation_is_a_name_and_a_longer_one_is_not() -> None:
    assert read_base(msgspec.json.encode({"a" * 251 + "-1": {}}).decode()).problem == ""
    assert (
        "is not the name" in read_base(msgspec.json.encode({"a" * 252 + "-1": {}}).decode()).problem
    )


def test_the_first_problem_of_the_chips_is_named() -> None:
    assert read("Ascend910-0", "Ascend910-64").problem.startswith("Ascend910-64: chips have")
    assert read("Ascend910-1", "Ascend910-01").problem == "two chips have the same number"
    report = DeviceReport(lists=(DeviceList(T, available=("Ascend910B-1",)),))
    assert read("Ascend910-0", report=report).problem.startswith(
        "chips of several types: Ascend910-0"
    )
    report = DeviceReport(lists=(DeviceList(T, available=("Ascend910B-0",)),))
    assert read("Ascend910-0", report=report).problem == "two chips have the same number"


def test_a_list_that_cannot_be_used_gives_no_chips_where_the_annotation_names_them() -> None:
    report = DeviceReport(lists=(DeviceList(T, problem="a blank"),))
    assert read("Ascend910-0", report=report).problem == "a blank"
    assert read("Ascend910-0", report=DeviceReport(lists=(DeviceList(T),))).problem == ""


def test_a_report_that_cannot_be_used_counts_unless_the_annotation_names_the_chips() -> None:
    assert read("Ascend910-0", report=DeviceReport(problem="no JSON")).problem == ""
    assert read(report=DeviceReport(problem="no JSON")).problem == "no JSON"
    other = (DeviceList("huawei.com/Ascend310"),)
    assert read("Ascend910-0", report=DeviceReport(problem="no", lists=other)).problem == "no"


def test_faults_are_those_of_the_chip() -> None:
    faults = (DeviceFault("CardUnhealthy", "Ascend910-1", "RestartNPU", "80C9"),)
    lists = (DeviceList(T, available=("Ascend910-0",), unhealthy=("Ascend910-1",)),)
    found = read("Ascend910-0", "Ascend910-1", report=DeviceReport(lists=lists, faults=faults))
    assert [one.faults for one in found.devices] == [(), ("RestartNPU 80C9",)]


@pytest.mark.parametrize("filled", ["available", "unhealthy", "recovering"])
def test_chips_in_no_list_of_a_report_are_in_use(filled: str) -> None:
    """Without the annotation they are as many as the node has, once any list names one."""
    lists = (msgspec.structs.replace(DeviceList(T), **{filled: ("Ascend910-2",)}),)
    assert numbers(read(report=DeviceReport(lists=lists), chips=4)) == [0, 1, 2, 3]
    assert numbers(read(report=DeviceReport(lists=(DeviceList(T),)), chips=4)) == []
