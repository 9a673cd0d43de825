"""Builds programs of others from their pinned Go modules, once, into a cache outside the checkout: helm and promtool judge what is
deployed; the controllers of LeaderWorkerSet, JobSet and Kueue write the pods and pod groups that muster schedules.

python -m tests.programs.build

Prints where they are. The cache is `$MUSTER_CACHE`, else `~/.cache/muster`; a program is filed under the digest of its
`go.mod` and `go.sum`. Tests take a program from the PATH first. Without Go, and without the programs, their tests are
skipped with that reason.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from tests.control_plane.build import BuildError

SOURCES: Final = Path(__file__).parent
BUILD_SECONDS: Final = 1_800
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "helm": ("helm.sh/helm/v3/cmd/helm",),
    "jobset": ("sigs.k8s.io/jobset",),
    "kueue": ("sigs.k8s.io/kueue/cmd/kueue",),
    "lws": ("sigs.k8s.io/lws/cmd",),
    # Without the clients of all clouds, which rules do not need.
    "promtool": ("-tags=remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool"),
}
"""The arguments of `go build` for each program."""


def module_folder(package: str, name: str) -> Path:
    """Return where Go keeps the sources of the module `package` that program `name` is built from, with its manifests."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"there is no Go to find the module {package} with")
    command = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", package]
    found = subprocess.run(  # noqa: S603 - the Go tool, with our own arguments
        command,
        cwd=SOURCES / name,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip())


def location(name: str) -> Path:
    """Where a program is, or would be."""
    whole = sha256()
    for file in ("go.mod", "go.sum"):
        whole.update((SOURCES / name / file).read_bytes())
    cache = Path(os.environ.get("MUSTER_CACHE") or Path.home() / ".cache" / "muster")
    return cache / "programs" / whole.hexdigest()[:16] / name


def program(name: str) -> str:
    """The program of the PATH, or the one that was built; a skip with its reason where there is neither."""
    built = location(name)
    found = shutil.which(name) or (str(built) if built.exists() else None)
    if found is None:
        reason = f"{name} is neither on the PATH nor built (python -m tests.programs.build)"
        if shutil.which("go") is not None and os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def build(name: str) -> Path:
    """The program, built if it is not there yet."""
    binary = location(name)
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"{name} is not built, and there is no Go to build it with")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with (binary.parent / "building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # One build at a time; the others wait for its program.
        if not binary.exists():
            _build(go, name, binary)
    return binary


def _build(go: str, name: str, binary: Path) -> None:
    sys.stderr.write(f"Building {name} (a first build takes 2 to 5 minutes on two cores)\n")
    sys.stderr.flush()
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        made = Path(folder) / name
        flags = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w", "-o", str(made))
        done = subprocess.run(  # noqa: S603 - the Go tool, with our own arguments
            [go, "build", *flags, *PACKAGES[name]],
            cwd=SOURCES / name,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            check=False,
            timeout=BUILD_SECONDS,
        )
        if done.returncode != 0:
            raise BuildError(f"go build failed for {name}; what it said is above")
        made.replace(binary)  # Whole or not at all: another run may be looking.


def main() -> int:
    """Build all, and say where they are."""
    try:
        for name in PACKAGES:
            sys.stdout.write(f"{build(name)}\n")
    except (BuildError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
