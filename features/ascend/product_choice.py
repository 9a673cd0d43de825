"""The product of a job: by its policy annotation, its labels and the `accelerator-type` that it selects."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from features.ascend.base_product import BaseProduct
from features.ascend.box16_910b import Box16
from features.ascend.card_310 import Card310
from features.ascend.card_910 import Card910
from features.ascend.card_910b import Card910B
from features.ascend.chip_310 import Chip310
from features.ascend.chips import (
    CHIPS_MAX,
    INVALID_ARGUMENT,
    NO_PROBLEM,
    NOT_SUPPORTED,
    AscendOptions,
    Group,
    Problem,
    Product,
)
from features.ascend.duo_card_310p import DuoCard310P
from features.ascend.duo_chip_310p import DuoChip310P
from features.ascend.half_910 import Half910
from features.ascend.inference_card_910b import InferenceCard910B
from features.ascend.mesh import Mesh
from features.ascend.module_910 import Module910
from features.ascend.module_910b import Module910B
from features.ascend.module_a3 import ModuleA3
from features.ascend.super_pod_a3 import SUPER_POD_NODES, SuperPodA3

ASCEND_910: Final = "huawei.com/Ascend910"
ASCEND_310: Final = "huawei.com/Ascend310"
ASCEND_310P: Final = "huawei.com/Ascend310P"
NPU: Final = "huawei.com/npu"
WHOLE_CHIPS: Final = (ASCEND_910, ASCEND_310, ASCEND_310P, NPU)
"""Resources of whole chips."""

POLICY: Final = "huawei.com/schedule_policy"
SP_BLOCK: Final = "sp-block"
SUPER_POD_AFFINITY: Final = "super-pod-affinity"
ACCELERATOR_TYPE: Final = "accelerator-type"
INFER_CARD: Final = "infer-card-type"
DUO_CARD: Final = "card-300i-duo"
STRATEGY_310: Final = "npu-310-strategy"
DUO: Final = "duo"
DISTRIBUTED: Final = "distributed"


class Demand(NamedTuple):
    """What of a pod decides its product."""

    resource: str
    options: Mapping[str, str]
    """Its annotations and labels."""
    accelerator_type: str | None = None
    """The value that its node selector requires of the label `accelerator-type`."""
    super_pod_size: int = SUPER_POD_NODES


class Choice(NamedTuple):
    """The product of a job, or why it has none."""

    product: Product | None
    problem: Problem = NO_PROBLEM


_Maker = Callable[[Demand, AscendOptions], Product]

_NOT_BUILT: Final = ("chip8-node8-sp", "chip8-node8-ra64-sp", "chip1-softShareDev", "multilevel")
"""Policies of newer releases of the vendor's plugin."""


def product_of(demand: Demand, options: AscendOptions) -> Choice:
    """Return the product of a job that asks for whole chips."""
    if demand.resource == ASCEND_310:
        return _of_310(demand)
    if demand.resource == ASCEND_310P:
        return _of_310p(demand)
    policy = demand.options.get(POLICY, "")
    if policy:
        maker = POLICIES.get(policy)
        if maker is None:
            known = "is not built in this release" if policy in _NOT_BUILT else "is not known"
            return _unsupported(
                f"annotation {POLICY}: {policy} {known}; one of {_listed(POLICIES)}"
            )
        return _made(maker, demand, options)
    if demand.resource == NPU:
        return _unsupported(
            f"a request of {NPU} needs the annotation {POLICY}, one of {_listed(POLICIES)}"
        )
    if SP_BLOCK in demand.options:
        maker = POLICIES["chip2-node8-sp" if is_half_super_pod(demand) else "chip2-node16-sp"]
        return _made(maker, demand, options)
    wanted = demand.accelerator_type
    if wanted is None:
        return Choice(Module910(strict_8n=options.strict_8n))
    maker = TYPES.get(wanted) or (TYPES["card"] if "card" in wanted else None)
    if maker is None:
        return _unsupported(
            f"node selector {ACCELERATOR_TYPE}: {wanted} is no product, one of {_listed(TYPES)}"
        )
    return _made(maker, demand, options)


def group_of(resource: str, labels: Mapping[str, str]) -> Group | None:
    """Return what the chips of a node with these labels are linked in; None if that is not known, or in nothing."""
    if resource == ASCEND_310:
        return Card310.group
    if resource == ASCEND_310P:
        return DuoCard310P.group if labels.get(INFER_CARD) == DUO_CARD else None
    maker = TYPES.get(labels.get(ACCELERATOR_TYPE) or "module")
    if maker is None or resource != ASCEND_910:
        return None
    return maker(Demand(resource, {}), AscendOptions()).group


def is_half_super_pod(demand: Demand) -> bool:
    """Return whether the job selects SuperPoD nodes of 8 chips."""
    return demand.accelerator_type == "module-a3-8-super-pod"


def _made(maker: _Maker, demand: Demand, options: AscendOptions) -> Choice:
    block = demand.options.get(SP_BLOCK, "")
    product = maker(demand, options)
    if isinstance(product, SuperPodA3) and SP_BLOCK in demand.options and _number(block) is None:
        return Choice(None, Problem(INVALID_ARGUMENT, f"sp-block({block:.64}) is invalid"))
    return Choice(product)


def _of_310(demand: Demand) -> Choice:
    strategy = demand.options.get(STRATEGY_310, "chip")
    if strategy == "chip":
        return Choice(Chip310())
    return Choice(Card310()) if strategy == "card" else _no_strategy(strategy)


def _of_310p(demand: Demand) -> Choice:
    strategy = demand.options.get(STRATEGY_310, "chip")
    is_across_cards = demand.options.get(DISTRIBUTED) == "true"
    if demand.options.get(DUO) != "true":
        return Choice(BaseProduct(CHIPS_MAX))
    if strategy == "chip":
        return Choice(DuoChip310P(is_across_cards=is_across_cards))
    if strategy == "card":
        return Choice(DuoCard310P(is_across_cards=is_across_cards))
    return _no_strategy(strategy)


def _no_strategy(strategy: str) -> Choice:
    return _unsupported(f"label {STRATEGY_310}: {strategy:.64} is not card or chip")


def _unsupported(text: str) -> Choice:
    return Choice(None, Problem(NOT_SUPPORTED, text))


def _listed(table: Mapping[str, object]) -> str:
    return ", ".join(table)


def _number(text: str) -> int | None:
    """Return a whole number of at most nine digits, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _super_pod(chips: int) -> _Maker:
    def made(demand: Demand, _options: AscendOptions) -> Product:
        block = _number(demand.options.get(SP_BLOCK, ""))
        return SuperPodA3(chips, block, demand.super_pod_size)

    return made


def _half(_demand: Demand, options: AscendOptions) -> Product:
    return Half910(linear=options.linear)


def _card(_demand: Demand, options: AscendOptions) -> Product:
    return Card910(linear=options.linear)


def _module_910b(_demand: Demand, options: AscendOptions) -> Product:
    return Module910B(linear=options.linear)


def _box16(_demand: Demand, options: AscendOptions) -> Product:
    return Box16(strict_pairs=options.strict_pairs)


POLICIES: Final[Mapping[str, _Maker]] = {
    "chip1-node2": _card,
    "chip4-node4": _half,
    "chip8-node8": _module_910b,
    "chip8-node16": _box16,
    "chip2-node16": lambda _demand, _options: ModuleA3(),
    "chip2-node8": lambda _demand, _options: ModuleA3(),
    "module-a3-16": lambda _demand, _options: ModuleA3(),
    "chip2-node16-sp": _super_pod(16),
    "chip2-node8-sp": _super_pod(8),
    "chip4-node8": lambda _demand, _options: Mesh(8),
    "chip4-node16": lambda _demand, _options: Mesh(16),
    "chip1-node8": lambda _demand, _options: BaseProduct(8),
    "chip1-node16": lambda _demand, _options: BaseProduct(16),
}
"""Value of the annotation `huawei.com/schedule_policy` to product."""

TYPES: Final[Mapping[str, _Maker]] = {
    "module": lambda _demand, options: Module910(strict_8n=options.strict_8n),
    "half": _half,
    "card": _card,
    "module-910b-8": _module_910b,
    "module-910b-16": _box16,
    "card-910b-2": lambda _demand, options: Card910B(linear=options.linear),
    "card-910b-infer": lambda _demand, options: InferenceCard910B(linear=options.linear),
    "module-a3-16": lambda _demand, _options: ModuleA3(),
    "module-a3-16-super-pod": _super_pod(16),
    "module-a3-8-super-pod": _super_pod(8),
}
"""Value of the label `accelerator-type` that a job selects to product."""
