"""Builds the control plane out of its Go sources, once, into a cache outside the checkout.

python tests/control_plane/build.py

Prints where the binary is. The cache is `$MUSTER_CACHE`, else `~/.cache/muster`; a binary is filed
under the digest of all that it is made of, so a changed source or version is another binary, and what
is there need not be built. Needs the Go tool chain, and nothing of Python but its standard library.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent
BUILD_SECONDS: Final = 1_800
TELL_SECONDS: Final = 30
VERSION: Final = "k8s.io/component-base/version"


class BuildError(Exception):
    """The control plane cannot be built here."""


def digest(sources: Path = SOURCES) -> str:
    """The digest of everything that the binary is made of."""
    whole = sha256()
    for path in (sources / "go.mod", sources / "go.sum", *sorted(sources.glob("*.go"))):
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def location(sources: Path = SOURCES) -> Path:
    """Where the binary is, or would be."""
    cache = Path(os.environ.get("MUSTER_CACHE") or Path.home() / ".cache" / "muster")
    return cache / "control-plane" / digest(sources)[:16] / "control-plane"


def kubernetes_version(sources: Path = SOURCES) -> str:
    """The version of Kubernetes that `go.mod` asks for, such as `v1.34.4`."""
    found = re.search(
        r"^\s*k8s\.io/kubernetes (v\S+)$", (sources / "go.mod").read_text(), re.MULTILINE
    )
    if found is None:
        raise BuildError(f"{sources / 'go.mod'} names no version of k8s.io/kubernetes")
    return found[1]


def build(sources: Path = SOURCES) -> Path:
    """The binary, built if it is not there yet."""
    binary = location(sources)
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        raise BuildError("the control plane is not built, and there is no Go to build it with")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with _alone(binary.parent):
        if not binary.exists():
            _build(go, sources, binary)
    return binary


def _build(go: str, sources: Path, binary: Path) -> None:
    version = kubernetes_version(sources)
    major, minor, *_ = version.removeprefix("v").split(".")
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s", "-w", *(f"-X {VERSION}.{name}={fact}" for name, fact in facts.items())])
    _tell(f"Building Kubernetes {version} (a first build takes about 4 to 9 minutes on two cores)")
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        made = Path(folder) / binary.name
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", flags]
        process = subprocess.Popen(  # noqa: S603 - the Go tool, with our own arguments
            [*command, "-o", str(made), "."],
            cwd=sources,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        if _wait(process) != 0:
            raise BuildError(f"go build failed in {sources}; what it said is above")
        made.replace(binary)  # Whole or not at all: another run may be looking.


def _wait(process: subprocess.Popen[bytes]) -> int:
    for told in range(TELL_SECONDS, BUILD_SECONDS, TELL_SECONDS):
        try:
            return process.wait(TELL_SECONDS)
        except subprocess.TimeoutExpired:
            _tell(f"still building, for {told} seconds now")
    process.kill()
    process.wait()
    raise BuildError(f"go build was not done within {BUILD_SECONDS} seconds")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One build at a time; the others wait for its binary."""
    with (folder / "building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """Build, and say where."""
    try:
        sys.stdout.write(f"{build()}\n")
    except BuildError as error:
        _tell(f"error: {error}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
