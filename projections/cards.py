"""Annotations of card quotas: what a queue may use, and what a pod group requests, by card."""

from typing import Final

import msgspec
from msgspec import Raw

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
