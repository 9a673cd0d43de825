"""The tree these tests stand in."""

import subprocess
from pathlib import Path

from daemon.package_check import PACKAGES as PACKAGES

ROOT = Path(__file__).parent.parent


def tracked(*suffixes: str) -> list[Path]:
    """The files of the tree that git does not ignore, in order."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = (ROOT / name for name in sorted(listed.stdout.splitlines()))
    return [path for path in paths if path.is_file() and path.name.endswith(suffixes or ("",))]


def short(path: Path) -> str:
    """How a file of the tree is called in a report."""
    return str(path.relative_to(ROOT))
