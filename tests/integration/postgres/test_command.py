"""The command on PostgreSQL: the same digest, the same answers."""

from pathlib import Path

import pytest

from daemon.cli import demo, simulate
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


def test_a_command_that_was_stopped_starts_over(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database cannot be renamed: an unfinished log is marked, refused by readers, and made again by the same command."""

    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    path = scenario(tmp_path, SMALL)
    with monkeypatch.context() as patched:
        patched.setattr(simulate, "_read_back", interrupted)
        assert muster("simulate", path, "--log", url).exit_code == 130
    refused = muster("log", "verify", url)
    assert refused.exit_code == 2
    assert "the command that writes this log has not finished it" in refused.stderr
    assert muster("simulate", path, "--log", url).exit_code == 0
    assert muster("log", "verify", url).exit_code == 0
    assert muster("replay", url).exit_code == 0
    again = muster("simulate", path, "--log", url)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr
