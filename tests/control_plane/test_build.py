"""Where the control plane is kept, and what tests say where there is none."""

import shutil
from pathlib import Path

import pytest

from tests.control_plane import build
from tests.control_plane.cluster import KUBECONFIG, prepared


def test_another_source_is_another_binary(tmp_path: Path) -> None:
    for path in (build.SOURCES / "go.mod", build.SOURCES / "go.sum", build.SOURCES / "main.go"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = build.location(tmp_path)
    (tmp_path / "main.go").write_bytes(b"package main\n")
    assert build.location(tmp_path) != before
    assert build.kubernetes_version(tmp_path) == build.kubernetes_version()


def test_what_is_built_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(build.BuildError, match="no Go to build it with"):
        build.build()
    assert not list(tmp_path.iterdir())
    binary = build.location()
    assert tmp_path in binary.parents
    binary.parent.mkdir(parents=True)
    binary.touch()
    assert build.build() == binary


@pytest.mark.parametrize(
    ("go", "is_ci", "outcome"),
    [
        (None, True, pytest.skip.Exception),
        ("/usr/bin/go", False, pytest.skip.Exception),
        ("/usr/bin/go", True, pytest.fail.Exception),
    ],
)
def test_tests_without_a_server_are_skipped_but_not_where_one_could_be_built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    go: str | None,
    is_ci: bool,
    outcome: type[BaseException],
) -> None:
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    monkeypatch.delenv(KUBECONFIG, raising=False)
    monkeypatch.setenv("CI", "true" if is_ci else "")
    monkeypatch.setattr(shutil, "which", lambda _: go)
    with pytest.raises(outcome, match="no control plane to test with"), prepared():
        raise AssertionError("there is no cluster")


def test_a_build_that_fails_leaves_nothing_to_be_taken_for_a_binary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (sources / name).write_bytes((build.SOURCES / name).read_bytes())
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(go))
    with pytest.raises(build.BuildError, match="go build failed"):
        build.build(sources)
    assert not build.location(sources).exists()
