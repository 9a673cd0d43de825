"""What holds for the tree as a whole: names, signatures, documents."""

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from events.union import EVENTS
from tests.checkout import PACKAGES, ROOT, short, tracked

PURE = ("engine", "events", "features", "projections", "replay", "scheduling", "simulator")
TARGETS = ("help", "demo", "test", "check", "bench", "soak", "cluster", "docs", "clean")

NOWHERE = re.compile(r"/(work|farm|root)/|\.\.[/]shared|[.]library")
"""Paths that exist on no user's machine."""

PYTHON_FILES = tracked(".py")
SOURCES = [path for path in PYTHON_FILES if path.relative_to(ROOT).parts[0] in PACKAGES]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file, nested ones too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=short)
def test_a_package_holds_one_line_and_it_is_its_purpose(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assert len(body) == 1
    assert re.fullmatch(r'"""[A-Z].*\."""\n', path.read_text(encoding="utf-8"))


def test_no_module_is_named_after_one_of_the_standard_library() -> None:
    modules = [path for path in SOURCES if not path.stem.startswith("__")]
    assert [short(p) for p in modules if p.stem in sys.stdlib_module_names] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {"base", "common", "helpers", "manager", "utils"}
    assert [short(path) for path in PYTHON_FILES if path.stem in empty] == []


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_takes_its_fields_by_name_only(event: type) -> None:
    parameters = inspect.signature(event).parameters.values()
    assert {parameter.kind for parameter in parameters} <= {inspect.Parameter.KEYWORD_ONLY}


def test_every_kind_is_one_word_with_its_version_and_belongs_to_one_event() -> None:
    kinds = [event.kind for event in EVENTS]
    assert len(set(kinds)) == len(kinds)
    assert [kind for kind in kinds if not re.fullmatch(r"[a-z]+(_[a-z]+)*\.v[1-9]\d*", kind)] == []


def test_every_event_says_what_it_means() -> None:
    assert [event.__name__ for event in EVENTS if not event.__doc__] == []


@pytest.mark.parametrize("path", [p for p in SOURCES if short(p).split("/")[0] in PURE], ids=short)
def test_the_core_opens_and_prints_nothing(path: Path) -> None:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    assert called & {"open", "print", "input", "eval", "exec", "breakpoint"} == set()


def test_a_migration_imports_no_code_of_ours() -> None:
    ours = re.compile(rf"^\s*(from|import) ({'|'.join(PACKAGES)})\b", re.MULTILINE)
    steps = [path for path in SOURCES if short(path).startswith("migrations/versions/")]
    assert [short(path) for path in steps if ours.search(path.read_text())] == []


def test_every_test_is_named_in_a_sentence() -> None:
    sentence = re.compile(r"test(_[a-z0-9]+){3,}")
    tests = [path for path in PYTHON_FILES if path.name.startswith("test_")]
    named = [(short(p), f.name) for p in tests for f in functions(p) if f.name.startswith("test")]
    assert [f"{path}: {name}" for path, name in named if not sentence.fullmatch(name)] == []


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in PYTHON_FILES if short(path).startswith("tests/")}
    assert [short(path) for path in sorted(folders) if not (path / "__init__.py").exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_owns_one_of_our_names(package: str) -> None:
    assert set(packages_distributions().get(package, [])) <= {"muster"}


def test_no_file_names_a_path_that_no_user_has() -> None:
    exempt = {ROOT / ".gitignore", Path(__file__)}
    files = [path for path in tracked() if path not in exempt and ".ci" not in path.parts]
    found = [path for path in files if NOWHERE.search(path.read_text("utf-8", errors="ignore"))]
    assert [short(path) for path in found] == []


def test_no_merge_was_left_half_done() -> None:
    marks = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    files = [path for path in tracked() if marks.search(path.read_text("utf-8", errors="ignore"))]
    assert [short(path) for path in files] == []


@pytest.mark.parametrize("path", tracked(".md"), ids=short)
def test_every_local_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


def test_pages_made_from_the_code_are_fresh() -> None:
    result = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_every_page_of_the_manual_is_reached_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [short(path) for path in tracked(".md") if path.parent == ROOT / "docs"]
    assert [page for page in pages if f"({page})" not in text] == []


def test_every_event_kind_and_view_has_its_heading_in_the_manual() -> None:
    events = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    assert [e.kind for e in EVENTS if f"### `{e.kind}`\n" not in events] == []


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"


def test_the_makefile_and_its_help_have_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    described = re.findall(r"^([a-z]+):.*  ## \S", makefile, re.MULTILINE)
    assert sorted(described) == sorted(TARGETS)


def test_every_dependency_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    bounded = re.compile(r"[\w.-]+(\[\w+\])?>=[\d.]+,<[\d.]+")
    assert [one for one in needed if not bounded.fullmatch(one)] == []
