"""What the page on the first cluster tells people to apply and to ask does what the page shows."""

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep  # noqa: TID251 - a daemon in a process of its own keeps real time
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.control_plane.kubectl import needs_kubectl
from tests.daemon.cli.builders import muster
from tests.test_documents import commands

PAGE = "docs/first-cluster.md"
EXAMPLE = (ROOT / "docs/examples/first_cluster.yaml").read_text(encoding="utf-8")
RUNNING, WAITING = {"phase": "Running"}, {"phase": "Pending"}


def scenario() -> dict[str, Any]:
    """The page in virtual time: two nodes of eight cards, one gang, and another that has to wait."""
    quota = yaml.safe_load((ROOT / "docs/examples/quota.yaml").read_text(encoding="utf-8"))
    (nodes,) = (one for one in quota["cluster"] if one["kind"] == "Node")
    again = EXAMPLE.replace("train", "validate")
    (told,) = re.findall(r"sed '(.*?)'", page().split("## Why")[0])
    assert told == "s/train/validate/"
    expected = {f"default/train-{index}": RUNNING for index in range(4)}
    expected |= {f"default/validate-{index}": WAITING for index in range(4)}
    return {
        "scenario": "the first cluster",
        "until": "20s",
        "cluster": [nodes],
        "steps": [
            {"at": "1s", "apply": list(yaml.safe_load_all(EXAMPLE))},
            {"at": "5s", "apply": list(yaml.safe_load_all(again))},
        ],
        "expect": {"pods": expected, "queues": {"research": {"allocated": {"NVIDIA-H200": 8}}}},
    }


def page() -> str:
    """All of it."""
    return (ROOT / PAGE).read_text(encoding="utf-8")


def shown(command: str) -> list[str]:
    """The lines that the page shows below a command."""
    (block,) = re.findall(
        rf"^{re.escape(command)}.*?```\n\n```\n(.*?)```", page(), re.MULTILINE | re.DOTALL
    )
    return [line.strip() for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first gang runs and the second waits."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "first.yaml").write_text(yaml.safe_dump(scenario()), encoding="utf-8")
    done = muster("simulate", folder / "first.yaml", "--log", folder / "first.db")
    assert done.exit_code == 0, done.stdout
    return folder


def test_what_the_page_asks_of_the_log_is_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    pod = re.compile(r"validate-\w{5}\b")
    asked = [pod.sub("validate-0", one) for one in commands(PAGE) if "muster run" not in one]
    # The log of a simulation is shorter than that of the cluster, which has more to observe.
    asked = [re.sub(r"--from \d+", "--from 1", one) for one in asked]
    asked = [re.sub(r"--to (\d+)", lambda to: f"--to {int(to[1]) // 5}", one) for one in asked]
    found = {line: muster(*shlex.split(line, comments=True)[1:]).exit_code for line in asked}
    assert len(found) >= 5
    assert found == dict.fromkeys(asked, 0)


def test_why_of_the_second_gang_prints_what_the_page_shows(folder: Path) -> None:
    told = muster("why", "default/validate-0", "--log", folder / "first.db").stdout.splitlines()
    lines = shown("muster why")
    begins, ends = lines.index("checks of pod group default/validate:"), lines.index("...")
    varies = ("refused at position", "nodes for", "1  Insufficient", "nearest nodes:", "node-1:")
    meant = [one for one in lines[begins:ends] if not one.startswith(varies)]
    assert len(meant) > 10
    assert [one for one in meant if one not in [line.strip() for line in told]] == []


def test_the_quota_is_in_the_view_as_the_page_shows(folder: Path) -> None:
    (query,) = re.findall(r"^sqlite3 .* '(.*)'$", page(), re.MULTILINE)
    connection = sqlite3.connect(f"file:{folder / 'first.db'}?mode=ro", uri=True)
    rows = connection.execute(query).fetchall()
    connection.close()
    table = [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown("sqlite3") if "│" in line]
    assert [list(map(str, row)) for row in rows] == table[1:]


PATIENCE_SECONDS = 60.0


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[Path]:
    """The daemon of the last part of the page runs in this folder, which looks like a checkout."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (line,) = (one for one in commands(PAGE) if "--simulate" in one)
    arguments = line.replace("127.0.0.1:8001", "127.0.0.1:0").split()[1:]
    daemon = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "daemon", *arguments, "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield tmp_path
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE_SECONDS)


def typed(folder: Path, command: str) -> list[str]:
    """Type a command of the page; return its lines without ages and nodes."""
    environment = {"KUBECONFIG": "first.db.kubeconfig", "KUBECACHEDIR": str(folder / "cache")}
    done = subprocess.run(  # noqa: S603 - what the page says
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return [plain(line) for line in done.stdout.splitlines()]


def plain(line: str) -> str:
    """A line of kubectl without what differs from run to run."""
    return " ".join(re.sub(r"\b(\d+s|n[12])(?= )", "*", line).split())


def until_typed(folder: Path, command: str, wanted: list[str]) -> list[str]:
    """Type a command again until it prints what is wanted, or patience ends."""
    ends = monotonic() + PATIENCE_SECONDS
    while (told := typed(folder, command)) != wanted and monotonic() < ends:
        sleep(0.5)
    return told


@needs_kubectl
def test_without_a_cluster_kubectl_shows_what_the_page_shows(simulated: Path) -> None:
    applied = "kubectl apply --validate=false -f docs/examples/first_cluster.yaml"
    begin = next(one for one in page().split("```sh\n") if applied in one)
    commands_of_page = begin.split("```")[0]
    listed = "kubectl get pods --output=wide"
    before = [
        "p1 1/1 Running 0 * <none> * <none> <none>",
        "p2 0/1 Pending 0 * <none> <none> <none> <none>",
    ]
    assert until_typed(simulated, listed, [plain(shown(listed)[0]), *before])[1:] == before
    assert typed(simulated, commands_of_page) == shown(applied)
    for command in (listed, "kubectl events --for pod/validate-0"):
        wanted = [plain(line) for line in shown(command)]
        assert until_typed(simulated, command, wanted) == wanted
