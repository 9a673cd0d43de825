"""What is wrong with a job, product by product, and which product serves which job."""

from collections.abc import Mapping

import pytest

from features.ascend.base_product import BaseProduct
from features.ascend.box16_910b import Box16
from features.ascend.card_310 import Card310
from features.ascend.card_910 import Card910
from features.ascend.card_910b import Card910B
from features.ascend.chip_310 import Chip310
from features.ascend.chips import (
    AscendOptions,
    Chips,
    JobChips,
    Problem,
    Product,
    TaskChips,
    thousandths,
)
from features.ascend.duo_card_310p import DuoCard310P
from features.ascend.duo_chip_310p import DuoChip310P
from features.ascend.half_910 import Half910
from features.ascend.inference_card_910b import InferenceCard910B
from features.ascend.mesh import Mesh
from features.ascend.module_910 import Module910
from features.ascend.module_910b import Module910B
from features.ascend.module_a3 import ModuleA3
from features.ascend.product_choice import (
    ASCEND_310,
    ASCEND_310P,
    ASCEND_910,
    NPU,
    Demand,
    group_of,
    product_of,
)
from features.ascend.super_pod_a3 import SuperPodA3


def job(*counts: int, tasks: int = 1) -> JobChips:
    """A job with so many tasks of each request."""
    each = tuple(TaskChips(count, name=f"t{index}") for index, count in enumerate(counts))
    return JobChips(each, tasks * len(counts), tasks * sum(counts), name="ns/j")


VALID: dict[Product, set[int]] = {
    BaseProduct(8): {*range(1, 9)},
    BaseProduct(64): {*range(1, 65)},
    Module910(): {1, 2, 4, 8},
    Half910(): {1, 2, 4},
    Card910(): {1, 2},
    Module910B(): {*range(1, 9)},
    Box16(): {*range(1, 9), 10, 12, 14, 16},
    Card910B(): {1, 2},
    InferenceCard910B(): {1, 2},
    ModuleA3(): {1, *range(2, 17, 2)},
    SuperPodA3(16): {1, *range(2, 17, 2)},
    SuperPodA3(8): {1, 2, 4, 6, 8},
    Card310(): {1, 2, 3, 4},
    Chip310(): {*range(1, 65)},
    DuoCard310P(): {1, 2},
    DuoCard310P(is_across_cards=True): {1, 2},
    DuoChip310P(): {*range(1, 17)},
    DuoChip310P(is_across_cards=True): {*range(1, 17)},
    Mesh(8): {*range(1, 9)},
    Mesh(16): {*range(1, 17)},
}
"""Product to the requests of a single task that are valid."""


@pytest.mark.parametrize("product", VALID, ids=repr)
def test_a_single_task_can_ask_for_exactly_these_numbers(product: Product) -> None:
    found = {count for count in range(70) if not product.problem(job(count)).message}
    assert found == VALID[product]


DISTRIBUTED = {
    **{product: counts for product, counts in VALID.items() if "A3" not in product.title},
    InferenceCard910B(): set(),
    Module910(strict_8n=True): {8},
    ModuleA3(): {*range(2, 17, 2)},
    SuperPodA3(16, block=16): {16},
    SuperPodA3(8, block=8): {8},
    SuperPodA3(16): {16},
    DuoCard310P(is_across_cards=True): set(),
    DuoChip310P(is_across_cards=True): set(),
}
"""Product to the requests of each of two tasks that are valid."""


@pytest.mark.parametrize("product", DISTRIBUTED, ids=repr)
def test_each_task_of_a_distributed_job_can_ask_for_exactly_these_numbers(
    product: Product,
) -> None:
    found = {count for count in range(70) if not product.problem(job(count, tasks=2)).message}
    assert found == DISTRIBUTED[product]


REQUEST = "InvalidResourceRequest"
ARGUMENT = "InvalidArgument"
PAIRS = (
    "only standalone job can request single npu, npu num required by task in a3x16 job must be "
    "2n, and <= 16"
)


@pytest.mark.parametrize(
    ("product", "given", "problem"),
    [
        (
            BaseProduct(64),
            job(65),
            (
                REQUEST,
                "expected: job<ns/j> req npu num should small than 64, and not in map[], "
                "actual: task<t0> req npu: 65, ",
            ),
        ),
        (
            Box16(),
            job(9, 8, 17),
            (
                REQUEST,
                "expected: job<ns/j> req npu num should small than 16, and not in "
                "map[9:{} 11:{} 13:{} 15:{}], actual: task<t0> req npu: 9, task<t2> req npu: 17, ",
            ),
        ),
        (
            Module910(),
            job(1, 3),
            (REQUEST, "checkSingleTrainMode job<ns/j> req npu num <3> not in [1,2,4,8]"),
        ),
        (
            Half910(),
            job(3),
            (REQUEST, "checkSingleTrainMode job<ns/j> req npu num <3> not in [1,2,4]"),
        ),
        (
            Card910(),
            job(3),
            (
                REQUEST,
                "expected: job<ns/j> req npu num should small than 2, and not in map[], "
                "actual: task<t0> req npu: 3, ",
            ),
        ),
        (InferenceCard910B(), job(1, tasks=2), (REQUEST, "task num is invalid")),
        (ModuleA3(), job(1, tasks=2), (REQUEST, "only single task job can request single npu")),
        (ModuleA3(), job(1, 2), (REQUEST, "only single task job can request single npu")),
        (ModuleA3(), job(3), (REQUEST, PAIRS)),
        (ModuleA3(), job(18), (REQUEST, PAIRS)),
        (Card310(), job(5), (REQUEST, "task<t0> req npu num<5> is invalid")),
        (
            DuoChip310P(is_across_cards=True),
            job(2, tasks=2),
            (REQUEST, "job with label of distributed=true should have only 1 npu pod"),
        ),
        (SuperPodA3(16, block=0), job(16), (ARGUMENT, "sp-block(0) is invalid")),
        (
            SuperPodA3(16, block=24),
            job(16, tasks=2),
            (ARGUMENT, "sp-block(24) is not mutiple of node npu (16)"),
        ),
        (
            SuperPodA3(16, block=8),
            job(16, tasks=2),
            (ARGUMENT, "sp-block(8) is not mutiple of node npu (16)"),
        ),
        (
            SuperPodA3(16, block=64, super_pod_size=2),
            job(16, tasks=8),
            (REQUEST, "sp-block(64/16=4) is bigger than size of super-pod(2)"),
        ),
        (
            SuperPodA3(16),
            job(3),
            (REQUEST, "standalone super-pod job require npu [1, 2*n], instead of 3"),
        ),
        (
            SuperPodA3(16, block=16),
            job(8),
            (
                REQUEST,
                "the sp-block<16> in annotations of standalone super-pod job should equal to "
                "required npu num<8>",
            ),
        ),
        (
            SuperPodA3(16, block=32),
            job(16, tasks=3),
            (REQUEST, "distributed super-pod job require npu(48) should be multiple of sp-block"),
        ),
        (
            SuperPodA3(16, block=16),
            job(8, tasks=4),
            (REQUEST, "distributed super-pod job require npu(32) should be equal to node npu(16)"),
        ),
    ],
)
def test_an_invalid_job_gets_the_message_of_its_product(
    product: Product, given: JobChips, problem: tuple[str, str]
) -> None:
    assert product.problem(given) == Problem(*problem)


def test_a_block_of_a_whole_super_pod_is_valid() -> None:
    assert SuperPodA3(16, block=32, super_pod_size=2).problem(job(16, tasks=2)).code == ""


@pytest.mark.parametrize(
    ("resource", "labels", "group"),
    [
        ("huawei.com/Ascend910", {}, ("ring", 4)),
        ("huawei.com/Ascend910", {"accelerator-type": "module-910b-16"}, ("ring", 8)),
        ("huawei.com/Ascend910", {"accelerator-type": "module-910b-8"}, None),
        ("huawei.com/Ascend910", {"accelerator-type": "module-a3-16"}, ("card", 2)),
        ("huawei.com/Ascend910", {"accelerator-type": "of no product"}, None),
        ("huawei.com/Ascend310", {}, ("card", 4)),
        ("huawei.com/Ascend310", {"accelerator-type": "module-a3-16"}, ("card", 4)),
        ("huawei.com/Ascend310P", {}, None),
        ("huawei.com/Ascend310P", {"accelerator-type": "module-a3-16"}, None),
        ("huawei.com/Ascend310P", {"infer-card-type": "card-300i-duo"}, ("card", 2)),
        ("huawei.com/npu", {"accelerator-type": "module-a3-16"}, None),
    ],
)
def test_what_the_chips_of_a_node_are_linked_in(
    resource: str, labels: dict[str, str], group: tuple[str, int] | None
) -> None:
    assert group_of(resource, labels) == group


def test_every_task_of_a_job_is_validated_not_the_first_or_the_average() -> None:
    assert Module910().problem(job(1, 3)).code == REQUEST
    assert Module910().problem(job(8, 4, 2)).code == ""


def chosen(
    resource: str,
    options: Mapping[str, str] | None = None,
    wanted: str | None = None,
    given: AscendOptions | None = None,
) -> Product | str:
    """The product of a job, or why it has none."""
    choice = product_of(Demand(resource, options or {}, wanted), given or AscendOptions())
    assert (choice.product is None) == bool(choice.problem.message)
    return choice.problem.message if choice.product is None else choice.product


TYPES = {
    None: Module910(),
    "module": Module910(),
    "half": Half910(),
    "card": Card910(),
    "card-300t-pro": Card910(),
    "module-910b-8": Module910B(),
    "module-910b-16": Box16(),
    "card-910b-2": Card910B(),
    "card-910b-infer": InferenceCard910B(),
    "module-a3-16": ModuleA3(),
    "module-a3-16-super-pod": SuperPodA3(16),
    "module-a3-8-super-pod": SuperPodA3(8),
}


@pytest.mark.parametrize("wanted", TYPES)
def test_a_job_of_910_gets_the_product_that_its_node_selector_names(wanted: str | None) -> None:
    assert chosen(ASCEND_910, wanted=wanted) == TYPES[wanted]


POLICIES = {
    "chip1-node2": Card910(),
    "chip4-node4": Half910(),
    "chip8-node8": Module910B(),
    "chip8-node16": Box16(),
    "chip2-node16": ModuleA3(),
    "chip2-node8": ModuleA3(),
    "module-a3-16": ModuleA3(),
    "chip2-node16-sp": SuperPodA3(16),
    "chip2-node8-sp": SuperPodA3(8),
    "chip4-node8": Mesh(8),
    "chip4-node16": Mesh(16),
    "chip1-node8": BaseProduct(8),
    "chip1-node16": BaseProduct(16),
}


@pytest.mark.parametrize("resource", [ASCEND_910, NPU])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_annotation_names_the_product_before_all_else(
    resource: str, policy: str
) -> None:
    options = {"huawei.com/schedule_policy": policy}
    assert chosen(resource, options, "module-910b-8") == POLICIES[policy]


def test_blocks_of_a_super_pod_make_a_super_pod_job() -> None:
    assert chosen(ASCEND_910, {"sp-block": "32"}) == SuperPodA3(16, block=32)
    half = chosen(ASCEND_910, {"sp-block": "8"}, "module-a3-8-super-pod")
    assert half == SuperPodA3(8, block=8)
    both = {"sp-block": "16", "huawei.com/schedule_policy": "chip2-node16-sp"}
    assert chosen(NPU, both) == SuperPodA3(16, block=16)
    for text in ("", "x", "-1", "9" * 5000, "³"):
        assert chosen(ASCEND_910, {"sp-block": text}) == f"sp-block({text:.64}) is invalid"


@pytest.mark.parametrize(
    ("resource", "options", "product"),
    [
        (ASCEND_310, {}, Chip310()),
        (ASCEND_310, {"npu-310-strategy": "chip"}, Chip310()),
        (ASCEND_310, {"npu-310-strategy": "card"}, Card310()),
        (ASCEND_310P, {}, BaseProduct(64)),
        (ASCEND_310P, {"npu-310-strategy": "card"}, BaseProduct(64)),
        (ASCEND_310P, {"duo": "true"}, DuoChip310P()),
        (ASCEND_310P, {"duo": "true", "npu-310-strategy": "card"}, DuoCard310P()),
        (
            ASCEND_310P,
            {"duo": "true", "distributed": "true"},
            DuoChip310P(is_across_cards=True),
        ),
        (
            ASCEND_310P,
            {"duo": "true", "distributed": "true", "npu-310-strategy": "card"},
            DuoCard310P(is_across_cards=True),
        ),
    ],
)
def test_jobs_of_310_and_310p_choose_by_their_labels(
    resource: str, options: dict[str, str], product: Product
) -> None:
    assert chosen(resource, options) == product


@pytest.mark.parametrize(
    ("resource", "options", "wanted", "part"),
    [
        (ASCEND_910, {}, "modul", "node selector accelerator-type: modul is no product, one of"),
        (NPU, {}, None, "a request of huawei.com/npu needs the annotation"),
        (ASCEND_910, {"huawei.com/schedule_policy": "chip3-node7"}, None, "is not known"),
        (NPU, {"huawei.com/schedule_policy": "multilevel"}, None, "is not built in this release"),
        (ASCEND_310, {"npu-310-strategy": "x"}, None, "label npu-310-strategy: x is not card"),
        (ASCEND_310P, {"duo": "true", "npu-310-strategy": ""}, None, "is not card or chip"),
    ],
)
def test_a_job_of_no_known_product_is_told_the_possible_values(
    resource: str, options: dict[str, str], wanted: str | None, part: str
) -> None:
    problem = product_of(Demand(resource, options, wanted), AscendOptions()).problem
    assert problem.code == "NotSupportPolicy"
    assert part in problem.message


def test_options_of_the_plugin_reach_the_products() -> None:
    options = AscendOptions(strict_8n=True, strict_pairs=True, linear=True)
    expected = {
        None: Module910(strict_8n=True),
        "module": Module910(strict_8n=True),
        "half": Half910(linear=True),
        "card": Card910(linear=True),
        "module-910b-8": Module910B(linear=True),
        "module-910b-16": Box16(strict_pairs=True),
        "card-910b-2": Card910B(linear=True),
        "card-910b-infer": InferenceCard910B(linear=True),
    }
    found = {wanted: chosen(ASCEND_910, wanted=wanted, given=options) for wanted in expected}
    assert found == expected


def test_equal_scores_prefer_the_node_with_fewer_free_chips_and_no_plugin_outweighs_a_step() -> (
    None
):
    fuller, emptier = Chips(0b1, 8), Chips(0b11, 8)
    assert thousandths(-1, fuller) == -1
    assert thousandths(64, fuller) > thousandths(64, emptier)
    assert thousandths(64, emptier) - thousandths(63, fuller) > 99_000
    assert thousandths(0, Chips((1 << 64) - 1, 64)) == 0
