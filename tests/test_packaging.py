"""The wheel, installed where no checkout is in reach."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.checkout import PACKAGES, ROOT, short, tracked

pytestmark = pytest.mark.packaging


def run(command: Sequence[str | Path], folder: Path) -> str:
    """What a command says; fails with all of it if the command does."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_"))}
    # Every command is one of this file.
    result = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv = shutil.which("uv")
    if uv:
        run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], folder)
    else:
        pip = [sys.executable, "-m", "pip"]
        run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("installed")
    uv = shutil.which("uv")
    if uv:
        run([uv, "venv", "--quiet", "--python", sys.executable, "venv"], folder)
        python = folder / "venv/bin/python"
        run([uv, "pip", "install", "--quiet", "--python", python, wheel], folder)
    else:
        run([sys.executable, "-m", "venv", "venv"], folder)
        run([folder / "venv/bin/pip", "install", "--quiet", wheel], folder)
    return folder / "venv/bin"


def test_the_wheel_holds_our_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_holds_every_file_of_our_packages(wheel: Path) -> None:
    ours = {path for path in map(short, tracked()) if path.split("/")[0] in PACKAGES}
    assert ours - set(ZipFile(wheel).namelist()) == set()


def test_the_wheel_carries_its_licence(wheel: Path) -> None:
    assert [name for name in ZipFile(wheel).namelist() if name.endswith("/licenses/LICENSE")]


def test_the_installed_packages_are_the_wheel_s_own(installed: Path, tmp_path: Path) -> None:
    where = run([installed / "python", "-c", "import events; print(events.__file__)"], tmp_path)
    assert not Path(where).is_relative_to(ROOT)


def test_the_installed_command_helps(installed: Path, tmp_path: Path) -> None:
    assert "Usage: muster" in run([installed / "muster", "--help"], tmp_path)


def test_the_installed_command_makes_a_log_by_its_migrations(
    installed: Path, tmp_path: Path
) -> None:
    run([installed / "muster", "migrate", "--log", "new.db"], tmp_path)
    assert run([installed / "muster", "log", "verify", "new.db"], tmp_path)
