"""Which system calls a daemon was seen to make, and which ones its unit lets through."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.checkout import ROOT

UNIT = ROOT / "deploy/systemd/muster.service"
FILTER = "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n"
END = re.compile(r"\+\+\+ (exited|killed) [^\n]*\+\+\+\n$")


def has_ended(trace: Path) -> bool:
    """Whether everything of the process is in its trace; so it is where nothing is traced."""
    return not trace.exists() or END.search(trace.read_text(encoding="utf-8")) is not None


def called(trace: Path) -> set[str]:
    """The system calls of a process and of its threads, as strace wrote them; none without a trace."""
    if not trace.exists():
        return set()
    found = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(encoding="utf-8"), re.MULTILINE))
    assert "connect" in found, "this is no trace of a daemon"
    # Without systemd the contents of its groups are unknown.
    return found if shutil.which("systemd-analyze") else set()


def allowed() -> set[str]:
    """The system calls of the unit's filter, as this release of systemd counts them."""
    assert FILTER in UNIT.read_text(encoding="utf-8")
    if shutil.which("systemd-analyze") is None:
        return set()
    groups = _groups()
    return (
        _calls(groups, "@system-service")
        - _calls(groups, "@privileged")
        - _calls(groups, "@resources")
    )


def _groups() -> dict[str, list[str]]:
    told = subprocess.run(
        ["systemd-analyze", "syscall-filter"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    groups: dict[str, list[str]] = {}
    name = ""
    for line in told.splitlines():
        if line.startswith("@"):
            name = line
            groups[name] = []
        elif name and line.startswith("    ") and not line.strip().startswith("#"):
            groups[name].append(line.strip())
    return groups


def _calls(groups: dict[str, list[str]], name: str) -> set[str]:
    """The calls of a group, those of the groups in it among them."""
    found: set[str] = set()
    for one in groups[name]:
        found |= _calls(groups, one) if one.startswith("@") else {one}
    return found
