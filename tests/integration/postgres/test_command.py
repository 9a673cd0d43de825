"""The command on PostgreSQL: the same digest, the same answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.checkout import ROOT

SMALL = "scenario: small\nworkload: {name: openb, scale: 0.02}\nuntil: 130s\n"


def muster(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-m", "daemon", *words],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MUSTER_LOG"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_scenario_has_the_same_digest_as_in_memory_and_replays(url: str, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    here = muster("simulate", str(path), "--log", url, "-o", "json")
    assert here.returncode == 0, here.stderr
    assert json.loads(here.stdout) == json.loads(muster("simulate", str(path), "-o", "json").stdout)
    for words in (["replay", url], ["log", "verify", url], ["rebuild", "--log", url]):
        assert muster(*words).returncode == 0


def test_a_bundle_travels_from_one_database_to_the_other(url: str, tmp_path: Path) -> None:
    path, bundle, copy = tmp_path / "small.yaml", tmp_path / "a.muster", tmp_path / "copy.db"
    path.write_text(SMALL)
    assert muster("simulate", str(path), "--log", url).returncode == 0
    assert muster("log", "export", url, "--file", str(bundle)).returncode == 0
    assert muster("log", "import", str(bundle), "--log", str(copy)).returncode == 0
    assert muster("replay", str(copy)).stdout == muster("replay", url).stdout
