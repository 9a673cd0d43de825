"""The image: pinned, without privileges, and built the way its file says.

There is no container engine in the tests: what the file runs is run here, in folders of its own.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

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
    default = dict(steps())["ARG"]
    assert re.fullmatch(r"PYTHON=3\.\d+\.\d+", default)
    images = [stage[0][1].removesuffix(" AS build") for stage in stages()]
    assert len(images) == 2
    assert len(set(images)) == 1
    assert images[0].split(":")[1].startswith("${PYTHON}-slim-")


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


@pytest.mark.parametrize("name", ["requirements.txt", "build.txt"])
def test_every_pin_has_its_digests(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    assert blocks
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


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
