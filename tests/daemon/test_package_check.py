"""A package of another distribution under one of muster's plain names is named before it does harm."""

import base64
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from daemon import package_check
from daemon.package_check import PACKAGES, foreign_package
from tests import checkout
from tests.checkout import ROOT

CHECK = (
    "from daemon.package_check import refuse_foreign_packages as check; check(); print('goes on')"
)


def installed(folder: Path, *, has_record: bool) -> Path:
    """A folder that is like site-packages with muster in it."""
    lines = []
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        text = f'"""What {name} is for."""\n'.encode()
        (folder / name / "__init__.py").write_bytes(text)
        digest = base64.urlsafe_b64encode(sha256(text).digest()).decode().rstrip("=")
        lines += [f"{name}/__init__.py,sha256={digest},{len(text)}"]
    source = Path(package_check.__file__).read_bytes()
    (folder / "daemon/package_check.py").write_bytes(source)
    info = folder / "muster-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: muster\nVersion: 0.1.0\n")
    if has_record:
        (info / "RECORD").write_text("\n".join([*lines, "muster-0.1.0.dist-info/RECORD,,", ""]))
    return folder


def started(*path: Path) -> subprocess.CompletedProcess[str]:
    """What a command that checks first says, with these folders first on the path."""
    program = f"import sys; sys.path[:0] = {[str(one) for one in path]!r}; {CHECK}"
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-I", "-S", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def distribution(folder: Path, name: str, *files: str) -> None:
    """Another distribution in a folder, as pip would unpack it over what is there."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("EVENTS = 1\n", encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


@pytest.mark.parametrize("has_record", [True, False], ids=["installed", "checkout"])
def test_an_environment_of_its_own_goes_on(has_record: bool, tmp_path: Path) -> None:
    done = started(installed(tmp_path / "site", has_record=has_record))
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")


def test_a_package_that_comes_first_on_the_path_is_named_with_its_distribution(
    tmp_path: Path,
) -> None:
    distribution(tmp_path / "first", "Events", "events/__init__.py")
    site = installed(tmp_path / "site", has_record=True)
    done = started(tmp_path / "first", site)
    assert (done.returncode, done.stdout) == (2, "")
    found = tmp_path / "first/events/__init__.py"
    assert done.stderr == (
        f"error: the Python package `events` is {found}, which is not that of muster but of Events: install muster "
        "in an environment of its own, from its wheel or its checkout (`pipx install PATH` or `uv tool install PATH`; "
        "without a path, the name is that of another project)\n"
    )


def test_a_distribution_that_was_unpacked_over_muster_is_named(tmp_path: Path) -> None:
    """pip installs two distributions with one file in common, and the later one wins."""
    site = installed(tmp_path / "site", has_record=True)
    distribution(site, "Events", "events/__init__.py", "events/events.py")
    done = started(site)
    assert done.returncode == 2
    assert "`events`" in done.stderr
    assert "but of Events:" in done.stderr


def test_a_module_in_the_working_directory_is_named(tmp_path: Path) -> None:
    """As under `python -m daemon` beside a file of the user's own."""
    (tmp_path / "replay.py").write_text("", encoding="utf-8")
    done = started(tmp_path, installed(tmp_path / "site", has_record=True))
    assert done.returncode == 2
    assert f"`replay` is {tmp_path / 'replay.py'}" in done.stderr


def test_a_package_that_another_distribution_took_along_when_it_went_is_missing(
    tmp_path: Path,
) -> None:
    site = installed(tmp_path / "site", has_record=True)
    (site / "events/__init__.py").unlink()
    (site / "events").rmdir()
    done = started(site)
    assert done.returncode == 2
    assert f"`events` is missing in {site}" in done.stderr


def test_the_packages_of_this_checkout_are_its_own() -> None:
    assert foreign_package() is None
    assert foreign_package(ROOT / "tests") is not None
    assert PACKAGES == checkout.PACKAGES
