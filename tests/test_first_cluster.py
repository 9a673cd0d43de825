"""What the page on the first cluster tells people to apply and to ask does what the page shows."""

import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.daemon.cli.builders import muster
from tests.test_documents import commands

PAGE = "docs/first-cluster.md"
EXAMPLE = (ROOT / "docs/examples/first_cluster.yaml").read_text(encoding="utf-8")
RUNNING, WAITING = {"phase": "Running"}, {"phase": "Pending"}


def scenario() -> dict[str, Any]:
    """The page in virtual time: two nodes of eight cards, one gang, and another that has to wait."""
    quota = yaml.safe_load((ROOT / "docs/examples/quota.yaml").read_text(encoding="utf-8"))
    (nodes,) = (one for one in quota["cluster"] if one["kind"] == "Node")
    again = EXAMPLE.replace("train", "evaluate")
    (told,) = re.findall(r"sed '(.*?)'", page().split("## Why")[0])
    assert told == "s/train/evaluate/"
    expected = {f"default/train-{index}": RUNNING for index in range(4)}
    expected |= {f"default/evaluate-{index}": WAITING for index in range(4)}
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
    pod = re.compile(r"evaluate-\w{5}\b")
    asked = [pod.sub("evaluate-0", one) for one in commands(PAGE) if "muster run" not in one]
    # The log of a simulation is shorter than that of the cluster, which has more to observe.
    asked = [re.sub(r"--from \d+", "--from 1", one) for one in asked]
    found = {line: muster(*shlex.split(line, comments=True)[1:]).exit_code for line in asked}
    assert len(found) >= 5
    assert found == dict.fromkeys(asked, 0)


def test_why_of_the_second_gang_prints_what_the_page_shows(folder: Path) -> None:
    told = muster("why", "default/evaluate-0", "--log", folder / "first.db").stdout.splitlines()
    lines = shown("muster why")
    begins, ends = lines.index("checks of pod group default/evaluate:"), lines.index("...")
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
