"""How much of an input is read: bounds that can be set, and errors that name them."""

import re

import pytest
from msgspec import structs

from daemon.limits import Limits, limits_of
from events.errors import SettingsError
from tests.checkout import ROOT


def test_limits_are_set_by_the_environment() -> None:
    assert limits_of({}) == Limits()
    set_limits = limits_of({"MUSTER_LIMITS": "bundle-bytes=1TiB, yaml-nodes=5,text_bytes=2KiB,"})
    assert set_limits == Limits(bundle_bytes=1 << 40, yaml_nodes=5, text_bytes=2048)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bundle=1", "there is no limit 'bundle'; there are text-bytes, yaml-nodes, "),
        ("yaml-nodes", "yaml-nodes: '' is no amount such as 500000 or 2GiB"),
        ("yaml-nodes=0", "yaml-nodes: '0' is no amount"),
        ("yaml-nodes=-1", "yaml-nodes: '-1' is no amount"),
        ("yaml-nodes=9999999999999999999", "is no amount"),
        ("yaml-nodes=2GB", "'2GB' is no amount"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        limits_of({"MUSTER_LIMITS": text})


def test_every_limit_stands_in_the_manual_with_its_value() -> None:
    page = (ROOT / "docs" / "limits.md").read_text()
    for name, value in structs.asdict(Limits()).items():
        assert re.search(
            rf"^\| `{name.replace('_', '-')}` \| {_shown(name, value)} \|", page, re.MULTILINE
        )


def _shown(name: str, value: int) -> str:
    if not name.endswith("bytes"):
        return f"{value:,}"
    return f"{value >> 30} GiB" if value >= 1 << 30 else f"{value >> 20} MiB"
