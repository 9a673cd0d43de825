"""Virtual NPUs: templates by kind of chip and request, the chip that is cut, and pods that get parts by name."""

from itertools import product as pairs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.ascend.vnpu import (
    CutNode,
    CutPlacing,
    NoPlacing,
    can_take,
    cut_chip,
    place_cores,
)
from features.ascend.vnpu_templates import (
    KINDS,
    NPU_CORE,
    ChipKind,
    CoreRequest,
    Segment,
    kind_of,
    reported_part,
    template_named,
)
from tests.features.ascend.builders import npu_node, npu_pod, placed, policy, started
from tests.features.ascend.test_chips_of_nodes import obstacle, show
from tests.scheduling.builders import EngineHarness, gone, raw

P8 = KINDS["310P-8"]

TABLE = {
    "310P-8": {
        "vir01": (1, 1, "null"),
        "vir02": (2, 2, "null"),
        "vir02_1c": (2, 1, "null"),
        "vir04": (4, 4, "null"),
        "vir04_3c": (4, 3, "null"),
        "vir04_3c_ndvpp": (4, 3, "no"),
        "vir04_4c_dvpp": (4, 4, "yes"),
    },
    **{
        key: {
            "vir03_1c_8g": (3, 1, "null"),
            "vir06_1c_16g": (6, 1, "null"),
            "vir12_3c_32g": (12, 3, "null"),
        }
        for key in ("910B1", "910B2", "910B2C")
    },
    **{
        key: {"vir05_1c_16g": (5, 1, "null"), "vir10_3c_32g": (10, 3, "null")}
        for key in ("910B3", "910B4-1", "A3-20")
    },
    "910B4": {
        "vir05_1c_8g": (5, 1, "null"),
        "vir10_3c_16g": (10, 3, "null"),
        "vir10_3c_16g_nm": (10, 3, "no"),
        "vir10_4c_16g_m": (10, 4, "yes"),
    },
    "A3-24": {"vir06_1c_16g": (6, 1, "null"), "vir12_3c_32g": (12, 3, "null")},
}
TABLE["310P-10"] = TABLE["310P-8"]


@pytest.mark.parametrize("name", KINDS)
def test_every_row_of_the_table_of_templates(name: str) -> None:
    found = {one.name: (one.cores, one.cpus, one.dvpp) for one in KINDS[name].templates}
    assert found == TABLE[name]


SIZES = {
    "310P-8": (8, 7),
    "310P-10": (10, 7),
    "910B1": (25, 6),
    "910B2": (24, 6),
    "910B2C": (24, 6),
    "910B3": (20, 6),
    "910B4": (20, 6),
    "910B4-1": (20, 6),
    "A3-20": (20, 6),
    "A3-24": (24, 6),
}
VALID = {
    "310P-8": {1, 2, 4},
    "310P-10": {1, 2, 4},
    "910B1": {6, 12},
    "910B2": {6, 12},
    "910B2C": {6, 12},
    "910B3": {5, 10},
    "910B4": {5, 10},
    "910B4-1": {5, 10},
    "A3-20": {5, 10},
    "A3-24": {6, 12},
}


@pytest.mark.parametrize("name", KINDS)
def test_every_row_of_the_tables_of_chips_and_of_valid_requests(name: str) -> None:
    kind = KINDS[name]
    assert (kind.cores, kind.cpus) == SIZES[name]
    found = {cores for cores in range(101) if not kind.problem(CoreRequest(cores))}
    whole = set(range(kind.cores, 101, kind.cores))
    assert found == VALID[name] | whole


@pytest.mark.parametrize(
    ("cores", "level", "dvpp", "name"),
    [
        (1, "low", "null", "vir01"),
        (1, "high", "null", "vir01"),
        (2, "high", "null", "vir02"),
        (2, "low", "null", "vir02_1c"),
        (4, "low", "yes", "vir04_4c_dvpp"),
        (4, "high", "yes", "vir04_4c_dvpp"),
        (4, "low", "no", "vir04_3c_ndvpp"),
        (4, "high", "no", "vir04_3c_ndvpp"),
        (4, "high", "null", "vir04"),
        (4, "low", "null", "vir04_3c"),
    ],
)
def test_the_template_of_a_request_on_310p(cores: int, level: str, dvpp: str, name: str) -> None:
    found = P8.template_of(CoreRequest(cores, level, dvpp))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("dvpp", "name"),
    [("yes", "vir10_4c_16g_m"), ("no", "vir10_3c_16g_nm"), ("null", "vir10_3c_16g")],
)
def test_the_template_of_a_request_on_910b4(dvpp: str, name: str) -> None:
    found = KINDS["910B4"].template_of(CoreRequest(10, dvpp=dvpp))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("kind", "asked", "says"),
    [
        (P8, CoreRequest(3), "err require number:3"),
        (P8, CoreRequest(1, dvpp="yes"), "task req 1 ai-core, but dvpp label is:yes"),
        (P8, CoreRequest(2, dvpp="no"), "task req 2 ai-core, but dvpp label is:no"),
        (KINDS["910B4"], CoreRequest(5, dvpp="yes"), "task req 5 ai-core, but dvpp label is:yes"),
        (KINDS["910B1"], CoreRequest(3), "err require number:3"),
        (KINDS["910B2"], CoreRequest(6, dvpp="yes"), "task req 6 ai-core, but dvpp label is:yes"),
        (P8, CoreRequest(0), "err require number:0"),
    ],
)
def test_a_request_that_a_kind_never_serves(kind: ChipKind, asked: CoreRequest, says: str) -> None:
    assert kind.problem(asked) == says
    assert place_cores(asked, CutNode(kind, (cut_chip(0, kind, ()),))) == NoPlacing(says)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (("huawei-Ascend310P", "Ascend310P-8", "310P3"), "310P-8"),
        (("huawei-Ascend310P", "Ascend310P-10-dual", ""), "310P-10"),
        (("huawei-Ascend910", "Ascend910A3-20", ""), "A3-20"),
        (("huawei-Ascend910", "Ascend910A3-24", ""), "A3-24"),
        (("huawei-Ascend910", "", "910B4-1"), "910B4-1"),
        (("huawei-Ascend910", "Ascend910-20", "910B3"), "910B3"),
        (("huawei-Ascend910", "Ascend910-32", ""), ""),
        (("huawei-Ascend910", "Ascend910-20", "910B1"), ""),
        (("huawei-Ascend310P", "Ascend310P-9", ""), ""),
        (("huawei-Ascend310P", "", ""), ""),
        (("", "", ""), ""),
    ],
)
def test_the_kind_of_the_chips_of_a_node(labels: tuple[str, str, str], name: str) -> None:
    found = kind_of(*labels)
    assert ("" if found is None else found.name) == name


def segment(name: str, kind: ChipKind = P8, group: int | None = None) -> Segment:
    """A part that the device plugin has confirmed."""
    return Segment(kind.template(name), group, is_reported=True)


def test_the_worked_example_of_dynamic_virtual_npus() -> None:
    # Chip 0 has 4 cores and 3 AICPUs left.
    first = cut_chip(0, P8, [segment("vir04")])
    assert (first.cores, first.cpus) == (4, 3)
    both = CutNode(P8, (first, cut_chip(1, P8, ())))
    asked = CoreRequest(4, "high")
    found = place_cores(asked, both)
    assert isinstance(found, CutPlacing)
    assert (found.chips, found.template, found.is_downgraded) == ((1,), "vir04", False)
    downgraded = place_cores(asked, CutNode(P8, (first,)))
    assert isinstance(downgraded, CutPlacing)
    assert (downgraded.chips, downgraded.template) == ((0,), "vir04_3c")
    assert downgraded.is_downgraded
    assert found.score > downgraded.score
    low = place_cores(CoreRequest(2), both)
    assert isinstance(low, CutPlacing)
    assert (low.chips, low.template) == ((0,), "vir02_1c")


def test_a_part_with_all_of_the_dvpp_is_not_downgraded() -> None:
    first = cut_chip(0, P8, [segment("vir04")])
    found = place_cores(CoreRequest(4, dvpp="yes"), CutNode(P8, (first,)))
    assert found == NoPlacing("NPUResourceShortage: no chip of the node can take vir04_4c_dvpp")


@pytest.mark.parametrize(
    ("there", "asked", "fits"),
    [
        ([], "vir04_4c_dvpp", True),
        (["vir04_3c_ndvpp"], "vir04_4c_dvpp", True),
        (["vir04_4c_dvpp"], "vir04_3c_ndvpp", True),
        (["vir02_1c"], "vir04_4c_dvpp", False),
        (["vir04_3c_ndvpp"], "vir02_1c", False),
        (["vir04_4c_dvpp"], "vir02_1c", False),
        (["vir02_1c"], "vir02_1c", True),
        (["vir02_1c"], "vir04_3c_ndvpp", True),
    ],
)
def test_parts_of_a_chip_share_its_dvpp(there: list[str], asked: str, fits: bool) -> None:
    chip = cut_chip(0, P8, [segment(one) for one in there])
    assert can_take(chip, P8.template(asked), P8) == fits


@pytest.mark.parametrize(
    ("groups", "cores", "fits"),
    [(2, 4, True), (3, 4, False), (3, 2, True), (4, 2, False), (4, 1, True), (5, 1, False)],
)
def test_a_310p_chip_has_four_virtual_groups(groups: int, cores: int, fits: bool) -> None:
    chip = cut_chip(0, KINDS["310P-10"], ())._replace(groups=groups)
    name = {1: "vir01", 2: "vir02_1c", 4: "vir04_3c"}[cores]
    assert can_take(chip, P8.template(name), KINDS["310P-10"]) == fits


def test_parts_in_one_group_count_once() -> None:
    chip = cut_chip(0, P8, [segment("vir01", group=1), segment("vir01", group=1)])
    assert chip.groups == 1
    assert cut_chip(0, P8, [segment("vir01"), segment("vir01")]).groups == 2


def test_whole_chips_are_uncut_ones() -> None:
    node = CutNode(
        P8, (cut_chip(0, P8, [segment("vir01")]), cut_chip(1, P8, ()), cut_chip(3, P8, ()))
    )
    found = place_cores(CoreRequest(16), node)
    assert isinstance(found, CutPlacing)
    assert (found.chips, found.template) == ((1, 3), "")
    short = place_cores(CoreRequest(16), node._replace(chips=node.chips[:2]))
    assert short == NoPlacing(
        "NPUResourceShortage: node don't have enough resource, req<16>, idle<15>"
    )
    cut = [cut_chip(one, P8, [segment("vir01")]) for one in range(3)]
    assert isinstance(place_cores(CoreRequest(16), CutNode(P8, tuple(cut))), NoPlacing)


def test_nodes_with_fewer_free_cores_come_first_and_downgraded_ones_last() -> None:
    small, large = ([cut_chip(one, P8, ()) for one in range(count)] for count in (1, 8))
    cut = cut_chip(0, P8, [segment("vir04")])
    found = [
        place_cores(CoreRequest(4, "high"), CutNode(P8, tuple(chips)))
        for chips in (small, large, [cut])
    ]
    scores = [one.score for one in found if isinstance(one, CutPlacing)]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_a_template_that_is_not_confirmed_excludes_others_on_its_node() -> None:
    waiting = cut_chip(0, P8, [Segment(P8.template("vir01"))])
    assert waiting.is_unstable
    node = CutNode(P8, (waiting, cut_chip(1, P8, ())), ("vir01",))
    assert place_cores(CoreRequest(2), node) == NoPlacing("node is using vir01, and not rewrite")
    same = place_cores(CoreRequest(1), node)
    assert isinstance(same, CutPlacing)
    assert same.chips == (1,)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ascend310P-4c-105-0_3", ("Ascend310P-0", "vir04")),
        ("Ascend310P-4c.3cpu-100-2_1", ("Ascend310P-2", "vir04_3c")),
        ("Ascend310P-4c.3cpu.ndvpp-100-0", ("Ascend310P-0", "vir04_3c_ndvpp")),
        ("Ascend310P-4c.4cpu.dvpp-100-0_0", ("Ascend310P-0", "vir04_4c_dvpp")),
        ("Ascend310P-2c.1cpu-100-0_0", ("Ascend310P-0", "vir02_1c")),
        ("Ascend310P-1c-400-3_0", ("Ascend310P-3", "vir01")),
    ],
)
def test_what_a_device_plugin_reports(name: str, expected: tuple[str, str]) -> None:
    found = reported_part(name)
    assert found is not None
    chip, part = found
    assert (chip, template_named(part.partition("@")[0], P8).name) == expected
    assert reported_part("Ascend310P-0") is None


SEGMENTS = [one.name for one in P8.templates]


@given(
    chips=st.lists(st.lists(st.sampled_from(SEGMENTS), max_size=4), min_size=1, max_size=4),
    cores=st.sampled_from([1, 2, 4, 8, 16]),
    level=st.sampled_from(["low", "high"]),
    dvpp=st.sampled_from(["yes", "no", "null"]),
)
@settings(max_examples=200, deadline=None)
def test_a_request_is_served_exactly_if_a_chip_takes_its_template(
    chips: list[list[str]], cores: int, level: str, dvpp: str
) -> None:
    asked = CoreRequest(cores, level, dvpp)
    there = tuple(
        cut_chip(index, P8, [segment(one) for one in parts]) for index, parts in enumerate(chips)
    )
    found = place_cores(asked, CutNode(P8, there))
    if P8.problem(asked):
        assert isinstance(found, NoPlacing)
        return
    if P8.is_whole(asked):
        free = [one.number for one in there if one.cores == 8]
        picked = found.chips if isinstance(found, CutPlacing) else ()
        assert picked == (tuple(free[: cores // 8]) if len(free) >= cores // 8 else ())
        return
    template = P8.template_of(asked)
    assert template is not None
    lesser = P8.downgraded(template)
    tried = [one for one in (template, lesser) if one is not None]
    options = [
        (order, chip.cores, chip.number)
        for (order, one), chip in pairs(enumerate(tried), there)
        if can_take(chip, one, P8)
    ]
    if isinstance(found, NoPlacing):
        assert options == []
        return
    order, _, number = min(options)
    assert (found.chips, found.template) == ((number,), tried[order].name)
    # What is taken is there, and nothing else changes.
    chip = there[number]
    parts = [*(segment(one) for one in chips[number]), segment(found.template)]
    after = cut_chip(number, P8, parts)
    assert after.cores == chip.cores - tried[order].cores >= 0
    assert after.cpus == chip.cpus - tried[order].cpus >= 0


def core_node(name: str, chips: int = 1, **labels: str) -> bytes:
    """A node with 310P chips of 8 cores that are cut for pods."""
    infos = "{" + ",".join(f'"Ascend310P-{one}":{{}}' for one in range(chips)) + "}"
    amounts = {"cpu": "64", "pods": "110", NPU_CORE: str(8 * chips)}
    there = {"accelerator": "huawei-Ascend310P", "servertype": "Ascend310P-8", **labels}
    return raw(
        "Node",
        name,
        metadata={"labels": there, "annotations": {"baseDeviceInfos": infos}},
        spec={},
        status={"capacity": amounts, "allocatable": amounts},
    )


def core_pod(name: str, cores: int, *, on: str = "", **labels: str) -> bytes:
    """A pod that asks for AI cores."""
    keys = {f"vnpu-{key}": value for key, value in labels.items()}
    return npu_pod(name, requests={NPU_CORE: str(cores)}, labels=keys, on=on)


def test_a_pod_gets_a_part_of_a_chip_by_name() -> None:
    harness = started(core_node("n", 2))
    show(harness, core_pod("a", 4, level="high"))
    assert placed(harness) == {"a": ("n", "Ascend310P-0:vir04")}
    show(harness, core_pod("a", 4, on="n", level="high"), core_pod("b", 8))
    assert placed(harness)["b"] == ("n", "Ascend310P-1")
    show(harness, core_pod("b", 8, on="n"), core_pod("c", 2))
    # Pod a is gone.
    assert placed(harness)["c"] == ("n", "Ascend310P-0:vir02_1c")


def refusal(harness: EngineHarness) -> tuple[str, str]:
    """Code and message of the only group that is not placed."""
    groups = harness.state.cluster.groups.values()
    [found] = [
        one.decided.refusals["allocate"] for one in groups if "allocate" in one.decided.refusals
    ]
    return found.code, found.message


def test_parts_that_are_not_confirmed_wait_for_each_other() -> None:
    harness = started(core_node("n", 2))
    show(harness, core_pod("a", 1), core_pod("b", 1))
    show(harness, core_pod("a", 1, on="n"), core_pod("b", 1, on="n"), core_pod("c", 2))
    assert sorted(placed(harness)) == ["a", "b"]
    assert obstacle(harness, "c") == "node is using vir01, and not rewrite"
    harness.see(gone(core_pod("a", 1)), gone(core_pod("b", 1)))
    harness.cycle()
    assert placed(harness) == {"c": ("n", "Ascend310P-0:vir02_1c")}


@pytest.mark.parametrize(
    ("pod", "is_static", "says"),
    [
        (core_pod("p", 3), False, "err require number:3"),
        (core_pod("p", 1, dvpp="yes"), False, "task req 1 ai-core, but dvpp label is:yes"),
        (core_pod("p", 4, dvpp="maybe"), False, "label vnpu-dvpp: maybe is not yes or no or null"),
        (core_pod("p", 4, level="mid"), False, "label vnpu-level: mid is not low or high"),
        (
            core_pod("p", 4),
            True,
            "volcano configuration presetVirtualDevice true, only support static vnpu",
        ),
        (
            npu_pod("p", requests={"huawei.com/Ascend310P-2c": "1"}),
            False,
            "volcano configuration presetVirtualDevice false, only support dynamic vnpu",
        ),
        (
            npu_pod("p", requests={"huawei.com/Ascend910-2c": "2"}),
            True,
            "huawei.com/Ascend910-2c: 2: a vNPU request may only be 1, of one template",
        ),
    ],
)
def test_an_invalid_request_of_virtual_npus_is_refused(
    pod: bytes, is_static: bool, says: str
) -> None:
    preset = "true" if is_static else "false"
    harness = started(core_node("n"), given=policy(init={"presetVirtualDevice": preset}))
    show(harness, pod)
    code, text = refusal(harness)
    assert text == says
    assert code in ("InvalidResourceRequest", "InvalidArgument")


@pytest.mark.parametrize(
    "resource",
    ["huawei.com/Ascend910-2c", "huawei.com/Ascend910-16c", "huawei.com/Ascend310P-4c.3cpu.ndvpp"],
)
def test_virtual_npus_that_are_cut_beforehand_are_counted(resource: str) -> None:
    label = "huawei-Ascend310P" if "310P" in resource else "huawei-Ascend910"
    node = npu_node("n", 2, resource=resource, labels={"accelerator": label}, annotations={})
    harness = started(node, given=policy(init={"presetVirtualDevice": "true"}))
    show(harness, *(npu_pod(f"p{one}", 1, resource=resource) for one in range(3)))
    assert list(placed(harness).values()) == [("n",), ("n",)]


def test_a_node_whose_labels_name_no_chip_to_cut_gives_none() -> None:
    harness = started(core_node("n", servertype="Ascend310P-9"))
    show(harness, core_pod("p", 1))
    assert placed(harness) == {}
    assert obstacle(harness, "p") == (
        "labels servertype and node.kubernetes.io/npu.chip.name name no chip that can be cut"
    )


def test_nodes_of_different_chips_have_each_their_own_templates() -> None:
    other = core_node("m", servertype="", accelerator="huawei-Ascend910")
    harness = started(core_node("n"), other)
    show(harness, core_pod("p", 2))
    assert placed(harness) == {"p": ("n", "Ascend310P-0:vir02_1c")}
