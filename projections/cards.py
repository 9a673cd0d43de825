"""Cards of a node, found from its labels and what it can allocate (whole cards).

The rule is that of the card-quota design: a label `<domain>/<type>.product` names the model, and the
node's resource `<domain>/<type>`, or the first one of that domain, counts the cards.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

QUOTA_ANNOTATION = "volcano.sh/card.quota"
REQUEST_ANNOTATION = "volcano.sh/card.request"


class Card(Struct, frozen=True):
    """The cards of one model on one node."""

    name: str
    resource: str
    """The resource name under which pods ask for them."""


def discover(labels: Mapping[str, str], allocatable: Mapping[str, int]) -> Card | None:
    """The node's whole cards, or None. Of several product labels the smallest key counts."""
    for key in sorted(labels):
        domain, slash, rest = key.partition("/")
        kind, dot, last = rest.rpartition(".")
        if not (slash and dot and last == "product" and kind) or "nvidia.com/mig-" in key:
            continue
        if resource := _resource(domain, kind, allocatable):
            return Card(name=labels[key], resource=resource) if labels[key] else None
        return None
    return None


def parse_quota(text: str) -> dict[str, int] | str:
    """Card name to whole cards, or the reason why the annotation cannot be used."""
    try:
        quota = msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        return f"not JSON: {error}"
    if not isinstance(quota, dict):
        return "not a JSON object of card names and counts"
    for name, count in quota.items():
        if isinstance(count, bool) or not isinstance(count, int):
            return f"{name}: {msgspec.json.encode(count).decode()} is not a whole number"
        if count < 0:
            return f"{name}: {count} is negative"
    return quota


def _resource(domain: str, kind: str, allocatable: Mapping[str, int]) -> str:
    exact = f"{domain}/{kind}"
    if exact in allocatable:
        return exact
    others = (
        name
        for name in allocatable
        if name.startswith(f"{domain}/")
        and not name.startswith("nvidia.com/mig-")
        and name != "nvidia.com/gpu.shared"
    )
    return min(others, default="")
