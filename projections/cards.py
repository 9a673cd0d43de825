"""Find the cards of a node from its labels and allocatable resources.

The rules are those of the card-quota design: a label `<domain>/<type>.product` names the model P, and

    <domain>/<type>, or the first resource of the domain   -> the whole card   P
    nvidia.com/gpu.shared                                  -> a share (MPS)    P/mps-<G>g*1/<r>
    nvidia.com/mig-<profile>                               -> a slice (MIG)    P/mig-<profile>-mixed

where G is the memory of the card in GiB and r the number of its shares. Whole cards and each kind of share are
different cards, each with its own quota. On one node a resource counts one card.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from events.limits import (
    CHOICE_BYTES_MAX,
    DIGITS_MAX,
    RESOURCES_MAX,
    check_length,
    decode_text,
    name_problem,
    quoted,
    whole_number,
)
from projections.pod_class import AMOUNT_MAX

QUOTA_ANNOTATION = "volcano.sh/card.quota"
REQUEST_ANNOTATION = "volcano.sh/card.request"

SHARED: Final = "nvidia.com/gpu.shared"
SLICE: Final = "nvidia.com/mig-"
REPLICAS: Final = "nvidia.com/gpu.replicas"
_PRODUCT: Final = ".product"


class Discovered(Struct, frozen=True):
    """The cards of a node, and the errors of its labels."""

    cards: dict[str, str] = {}
    """Resource name to card name, sorted by resource."""
    faults: tuple[tuple[str, str], ...] = ()
    """Code and message."""


def discover(labels: Mapping[str, str], amounts: Mapping[str, int]) -> Discovered:
    """Return the cards of a node. Of several product labels the smallest key counts; the others are errors."""
    products = [key for key in sorted(labels) if labels[key] and _is_product(key)]
    wrong = [text for key in products if (text := name_problem(labels[key]))]
    products = [key for key in products if not name_problem(labels[key])]
    if not products:
        return Discovered(faults=tuple(("InvalidProductLabel", text) for text in wrong))
    key, faults = products[0], [("InvalidProductLabel", text) for text in wrong]
    if len(products) > 1:
        text = f"labels {', '.join(products)} each name a card model: {key} counts"
        faults.append(("SeveralProductLabels", text))
    domain, _, kind = key.removesuffix(_PRODUCT).partition("/")
    cards: dict[str, str] = {}
    for resource in sorted(amounts):
        if amounts[resource] <= 0 or not resource.startswith(f"{domain}/"):
            continue
        if resource.startswith(SLICE):
            cards[resource] = f"{labels[key]}/mig-{resource.removeprefix(SLICE)}-mixed"
        elif resource == SHARED:
            shared, fault = _shared_name(labels, key)
            if shared:
                cards[resource] = shared
            faults += fault
    whole = [one for one in sorted(amounts) if _is_whole(domain, one) and amounts[one] > 0]
    exact = f"{domain}/{kind}"
    if whole:
        chosen = exact if exact in whole else whole[0]
        cards[chosen] = labels[key]
        if chosen != exact and len(whole) > 1:
            text = f"resources {', '.join(whole)} could each count {labels[key]}: {chosen} does"
            faults.append(("SeveralCardResources", text))
    return Discovered(cards=dict(sorted(cards.items())), faults=tuple(faults))


def gib(mebibytes: int) -> int:
    """Return the memory in the name of a share: GiB, rounded to the nearest (97871 MiB are 96)."""
    return (mebibytes + 512) // 1024


_COUNTS: Final = msgspec.json.Decoder(dict[str, Raw])


def parse_quota(text: str) -> dict[str, int] | str:
    """Return card name to whole cards, or the reason why the annotation cannot be used.

    Counts above AMOUNT_MAX count as AMOUNT_MAX.
    """
    try:
        quota = decode_text(text, _COUNTS.decode)
        check_length(quota, RESOURCES_MAX)
    except msgspec.ValidationError:
        return "not a JSON object of card names and counts"
    except msgspec.DecodeError as error:
        return f"not JSON: {error}"
    except ValueError as error:
        return str(error)
    counts: dict[str, int] = {}
    for name, raw in quota.items():
        if problem := name_problem(name, CHOICE_BYTES_MAX):
            return f"a card name: {problem}"
        stated = bytes(raw).decode()
        count = whole_number(stated, AMOUNT_MAX)
        if count is None:
            return f"{name}: {_shown(stated)} is not a whole number"
        if count < 0:
            return f"{name}: {_shown(stated)} is negative"
        counts[name] = count
    return counts


def _shown(stated: str) -> str:
    return stated if len(stated) <= DIGITS_MAX else quoted(stated)


def _is_product(key: str) -> bool:
    domain, slash, kind = key.removesuffix(_PRODUCT).partition("/")
    return bool(key.endswith(_PRODUCT) and slash and domain and kind and SLICE not in key)


def _is_whole(domain: str, resource: str) -> bool:
    return (
        resource.startswith(f"{domain}/") and not resource.startswith(SLICE) and resource != SHARED
    )


def _shared_name(labels: Mapping[str, str], key: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of a share of the node's card, or "" and the errors."""
    stated = labels.get(REPLICAS, "")
    replicas = _number(stated)
    if not replicas:
        text = f"label {REPLICAS}: {stated!r} is not a number of shares: {SHARED} is no card"
        return "", [("InvalidReplicas", text)]
    size = f"{key.removesuffix(_PRODUCT)}.memory"
    memory = labels.get(size, "")
    if not memory:
        text = f"label {size} is missing, which names the shares: {SHARED} is no card"
        return "", [("MissingMemory", text)]
    fault = []
    if _number(memory) is None:
        fault = [("InvalidMemory", f"label {size}: {memory!r} is not a number: it counts as 0")]
    return f"{labels[key]}/mps-{gib(_number(memory) or 0)}g*1/{replicas}", fault


def _number(text: str) -> int | None:
    """Return a non-negative whole number, or None."""
    return whole_number(text) if text.isdigit() else None
