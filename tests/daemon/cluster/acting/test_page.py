"""The manual's page of effects lists what the code can answer and write, and nothing else."""

import re

from daemon.cluster.acting.correlation import BURST, REFILL_NS, SERIES_NS
from daemon.cluster.acting.error_classification import REFUSALS
from daemon.cluster.acting.k8s_events import PODS_REPORTED_MAX, REASONS
from daemon.cluster.acting.request_budget import EFFECT_SECONDS
from tests.checkout import ROOT

MINUTE_NS = 60_000_000_000

PAGE = (ROOT / "docs/effects.md").read_text(encoding="utf-8")


def test_the_page_lists_every_code_and_every_reason_as_the_code_has_them() -> None:
    codes = [f"| `{code}` | {meaning} |" for code, meaning in REFUSALS.items()]
    reasons = [
        f"| `{name}` | {', '.join(one.types)} | {', '.join(one.regarding)} | {one.meaning} |"
        for name, one in REASONS.items()
    ]
    assert re.findall(r"^\| `[A-Z].*$", PAGE, re.MULTILINE) == [*codes, *reasons]


def test_the_page_says_the_bounds_that_hold() -> None:
    text = " ".join(PAGE.split())
    assert f"for up to {EFFECT_SECONDS:g} seconds" in text
    assert f"at most {PODS_REPORTED_MAX} pods" in text
    assert f"at most {BURST} at once" in text
    assert (SERIES_NS // MINUTE_NS, REFILL_NS // MINUTE_NS) == (6, 5)
    assert "within six minutes" in text
    assert "one every five minutes" in text
