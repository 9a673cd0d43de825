"""The image: pinned, without privileges, and built the way its file says.

There is no container engine in the tests: what the file runs is run here, in folders of its own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.checkout import PACKAGES, ROOT, short, tracked

FOLDER = ROOT / "deploy/container"
FILE = FOLDER / "Containerfile"
IGNORED = FOLDER / "Containerfile.dockerignore"
INSTALLED = "/opt/muster"
SECONDS = 300
LOCKS = ("requirements.txt", "build.txt", "sbom.txt", "audit.txt")


def steps() -> list[tuple[str, str]]:
    """The instructions of the file, each with the rest of its line, continued ones joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    found: list[list[tuple[str, str]]] = []
    for step in steps():
        if step[0] == "FROM":
            found.append([])
        if found:
            found[-1].append(step)
    return found


def pinned(name: str) -> Iterator[tuple[str, str]]:
    """The distributions of a requirements file with their versions."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    for one, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE):
        yield canonicalize_name(one), version


def test_the_image_runs_as_a_user_without_a_name_or_a_right() -> None:
    final = dict(stages()[-1])
    assert final["USER"] == "65532:65532"
    assert final["ENTRYPOINT"] == f'["{INSTALLED}/bin/muster"]'


def test_both_stages_have_the_same_python_of_a_stated_version() -> None:
    """The environment is copied from the one to the other, and holds a link to its interpreter."""
    defaults = [rest for word, rest in steps() if word == "ARG"]
    assert re.fullmatch(r"PYTHON=3\.\d+\.\d+", defaults[0])
    assert defaults[1:] == ["DIGEST="]
    images = [stage[0][1].removesuffix(" AS build") for stage in stages()]
    assert len(images) == 2
    assert len(set(images)) == 1
    assert re.fullmatch(r"[\w./]+:\$\{PYTHON\}-slim-\w+\$\{DIGEST\}", images[0])


def test_every_dependency_is_pinned_to_a_version_that_the_package_accepts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for text, name in (
        (project["project"]["dependencies"], "requirements.txt"),
        (project["build-system"]["requires"], "build.txt"),
    ):
        for requirement in map(Requirement, text):
            found = [v for one, v in pinned(name) if one == canonicalize_name(requirement.name)]
            assert found, f"{requirement.name} is not in {name}"
            assert all(requirement.specifier.contains(Version(v)) for v in found), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_its_digests(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    assert blocks
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_host(name: str) -> None:
    """Where packages come from is said where they are installed: an index, a mirror, a folder."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert re.findall(r"://|--(?:extra-)?index|--find-links|@ ", text) == []


def test_what_is_copied_is_what_the_wheel_is_made_of_and_is_let_through() -> None:
    copied = {
        source for word, rest in stages()[0] if word == "COPY" for source in rest.split()[:-1]
    }
    assert copied >= {*PACKAGES, "pyproject.toml", "README.md", "LICENSE"}
    let_through = re.findall(r"^!(.*)$", IGNORED.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(let_through) == copied
    assert [source for source in copied if not (ROOT / source).exists()] == []


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not on the PATH")
def test_hadolint_finds_nothing_wrong_with_the_file() -> None:
    # The program is that of the PATH, and the file ours.
    done = subprocess.run(  # noqa: S603
        ["hadolint", FILE],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.packaging
def test_what_the_file_runs_makes_a_command_that_runs_from_read_only_files(tmp_path: Path) -> None:
    installed, source = tmp_path / "opt", tmp_path / "src"
    source.mkdir()
    environment = interpreter(tmp_path / "image")
    for word, rest in stages()[0]:
        if word == "COPY":
            *names, target = rest.split()
            for name in names:
                copy(name, source / target if len(names) == 1 else source)
        elif word == "RUN":
            run(["sh", "-ec", rest.replace(INSTALLED, str(installed))], source, environment)
    shutil.rmtree(source)
    for folder, _, files in os.walk(installed):
        for name in files:
            os.chmod(Path(folder, name), Path(folder, name).stat().st_mode & ~0o222)
    command = installed / "bin/muster"
    assert "Usage: muster" in run([command, "--help"], tmp_path, {})
    run([command, "migrate", "--log", tmp_path / "new.db"], tmp_path, {})
    assert not list(installed.glob("lib/python*/site-packages/pip"))
    listed = json.loads((installed / "share/sbom.cdx.json").read_text(encoding="utf-8"))
    found = {canonicalize_name(one["name"]): one["version"] for one in listed["components"]}
    there = [path.name.removesuffix(".dist-info") for path in installed.rglob("*.dist-info")]
    assert {f"{canonicalize_name(name)}" for name in found} | {"muster"} == {
        canonicalize_name(name.rpartition("-")[0]) for name in there
    }
    assert found.items() <= {*pinned("requirements.txt"), ("muster", listed_version())}
    assert listed["metadata"]["component"]["name"] == "muster"


@pytest.mark.packaging
def test_no_pinned_dependency_has_a_known_vulnerability(tmp_path: Path) -> None:
    """Asks the index of packages, which knows them; what is not asked is not passed."""
    environment = interpreter(tmp_path / "audit")
    lock = ["--quiet", "--require-hashes", "--requirement", str(FOLDER / "audit.txt")]
    run(["python", "-m", "pip", "install", *lock], tmp_path, environment)
    report = tmp_path / "report.json"
    for name in LOCKS[:3]:
        done = subprocess.run(  # noqa: S603
            [
                *(str(tmp_path / "audit/bin/pip-audit"), "--disable-pip", "--require-hashes"),
                *("--requirement", str(FOLDER / name), "--format", "json"),
                *("--progress-spinner", "off", "--output", str(report), "--timeout", "20"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        if not report.exists():
            pytest.skip(f"the index of vulnerabilities did not answer: {last_line(done.stderr)}")
        found = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
        report.unlink()
        vulnerable, unknown = judged(found)
        assert vulnerable == {}, name
        if unknown:
            pytest.skip(
                f"the index has no vulnerability data on {len(unknown)} of {len(found)} packages"
            )


def judged(dependencies: list[dict[str, Any]]) -> tuple[dict[str, list[str]], list[str]]:
    """Of a report of pip-audit: the vulnerabilities by package, and the packages of which nothing is known."""
    vulnerable = {
        one["name"]: [found["id"] for found in one["vulns"]]
        for one in dependencies
        if one.get("vulns")
    }
    return vulnerable, [one["name"] for one in dependencies if "skip_reason" in one]


def test_a_report_of_vulnerabilities_is_read_for_what_it_found_and_what_it_left_out() -> None:
    """pip-audit ends with 0 where the index knows none of the packages."""
    report: list[dict[str, Any]] = [
        {"name": "safe", "version": "1", "vulns": []},
        {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]},
        {"name": "private", "skip_reason": "Dependency not found on PyPI"},
    ]
    assert judged(report) == ({"old": ["PYSEC-1"]}, ["private"])


def last_line(text: str) -> str:
    """What a program said last."""
    return (text.strip().splitlines() or ["it said nothing"])[-1][:200]


def listed_version() -> str:
    """The version of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def interpreter(folder: Path) -> dict[str, str]:
    """What stands for the image's own Python: one with pip, first on the PATH."""
    run([sys.executable, "-m", "venv", folder], ROOT, {})
    run([folder / "bin/python", "-m", "pip", "install", "--quiet", "pip>=25.1"], ROOT, {})
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def copy(name: str, target: Path) -> None:
    """A file or a folder as git knows it, so that nothing else that lies about gets in."""
    for path in tracked():
        place = Path(short(path))
        if place == Path(name):
            shutil.copy2(path, target / place.name if target.is_dir() else target)
        elif place.is_relative_to(name):
            (target / place.relative_to(name)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / place.relative_to(name))


def run(command: list[str | Path], folder: Path, added: Mapping[str, str]) -> str:
    """What a command says; fails with all of it if the command does."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_"))}
    # Every command is one of this file, or of the one that is tested.
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        cwd=folder,
        env={**kept, **added},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
