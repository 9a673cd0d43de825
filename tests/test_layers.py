"""The layers that the page of the architecture draws are those that import-linter holds."""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.checkout import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def drawn() -> Iterator[list[tuple[str, ...]]]:
    """Yield each drawing of layers, line by line from the top, the names of each."""
    section = PAGE.split("## Which package imports which", 1)[1].split("\n## ", 1)[0]
    for block in re.findall(r"```\n(.*?)```", section, re.DOTALL):
        lines = [re.split(r" {2,}", line.strip())[0] for line in block.splitlines()]
        yield [tuple(line.split(" | ")) for line in lines if line not in ("", "│")]


def held(contract: str) -> list[tuple[str, ...]]:
    """Return the layers of a contract, the names of each without the brackets of those that may be missing."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    [found] = [one for one in tool["importlinter"]["contracts"] if one["id"] == contract]
    return [tuple(re.sub(r"[()]", "", layer).split(" | ")) for layer in found["layers"]]


@pytest.mark.parametrize(("index", "contract"), [(0, "layers"), (1, "scheduling")])
def test_the_layers_on_the_page_are_those_that_are_checked(index: int, contract: str) -> None:
    drawings = list(drawn())
    assert len(drawings) == 2
    assert drawings[index] == held(contract)


def test_every_folder_of_scheduling_with_rules_of_its_own_is_in_a_layer() -> None:
    folders = {one.parent.name for one in (ROOT / "scheduling").glob("*/__init__.py")}
    named = {name for layer in held("scheduling") for name in layer}
    # Only the table of families imports these.
    assert folders - named == {"device_families"}
