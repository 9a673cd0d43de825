"""The programs of others are pinned, and their absence is seen."""

import re
from pathlib import Path

import pytest

from tests.control_plane.build import BuildError
from tests.programs.build import PACKAGES, SOURCES, build, location, program


@pytest.mark.parametrize("name", PACKAGES)
def test_a_program_is_the_pinned_tool_of_its_module(name: str) -> None:
    text = (SOURCES / name / "go.mod").read_text(encoding="utf-8")
    (tool,) = re.findall(r"^tool (\S+)$", text, re.MULTILINE)
    assert PACKAGES[name][-1] == tool
    module = tool.partition("/cmd")[0]
    assert re.search(rf"^\t{re.escape(module)} v\d+\.\d+\.\d+\b", text, re.MULTILINE)
    sums = (SOURCES / name / "go.sum").read_text(encoding="utf-8")
    assert f"{module} v" in sums


def test_programs_of_different_pins_lie_in_different_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    places = {location(name).parent for name in PACKAGES}
    assert len(places) == len(PACKAGES)
    assert all(place.is_relative_to(tmp_path) for place in places)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_program_is_a_visible_skip_and_a_failure_where_it_cannot_be_built(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=f"{name} is neither on the PATH nor built"):
        program(name)
    with pytest.raises(BuildError, match="no Go to build it with"):
        build(name)


def test_a_missing_program_fails_in_ci_where_it_could_have_been_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\n")
    go.chmod(0o755)
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="helm is neither on the PATH nor built"):
        program("helm")
