"""The command on PostgreSQL: the same digest, the same answers."""

from pathlib import Path

import pytest

from daemon.cli import demo
from tests.daemon.cli.builders import documents, muster, scenario

SMALL = "workload: {name: openb, scale: 0.02}\nuntil: 120s\n"


def test_a_scenario_has_the_same_digest_as_in_memory_and_replays(url: str, tmp_path: Path) -> None:
    path = scenario(tmp_path, SMALL)
    here = muster("simulate", path, "--log", url, "-o", "json")
    assert documents(here) == documents(muster("simulate", path, "-o", "json"))
    for words in (["replay", url], ["log", "verify", url], ["rebuild", "--log", url]):
        assert muster(*words).exit_code == 0


def test_a_bundle_travels_from_one_database_to_the_other(url: str, tmp_path: Path) -> None:
    bundle, copy = tmp_path / "a.muster", tmp_path / "copy.db"
    assert muster("simulate", scenario(tmp_path, SMALL), "--log", url).exit_code == 0
    assert muster("log", "export", url, "--file", bundle).exit_code == 0
    assert muster("log", "import", bundle, "--log", copy).exit_code == 0
    assert muster("replay", copy).stdout == muster("replay", url).stdout


def test_the_demo_runs_on_a_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SCENARIO", f"scenario: small\n{SMALL}")
    (document,) = documents(muster("demo", "--log", url, "-o", "json"))
    assert document["replay"] == "equal"
    assert isinstance(document["sql"], dict)
    assert document["sql"]["rows"][0]["card"] == "G2"
