"""`muster verify` and `muster demo`."""

import shutil
from pathlib import Path

import pytest

from daemon.cli import demo, simulate
from tests.checkout import ROOT
from tests.daemon.cli.builders import QUOTA, documents, error_of, logged, muster, scenario

SMALL = "scenario: small\nworkload: {name: openb, scale: 0.01}\nuntil: 120s\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two scenarios that expect something, one that does not, a policy, a log and a bundle."""
    (tmp_path / "good.yaml").write_text(QUOTA.read_text())
    scenario(tmp_path, "cluster: []", "silent.yaml")
    (tmp_path / "policy.yaml").write_text("actions: allocate\n")
    log = logged(tmp_path)
    assert muster("log", "export", log, "--file", tmp_path / "quota.muster").exit_code == 0
    return tmp_path


def test_scenarios_and_logs_of_a_folder_pass(folder: Path) -> None:
    result = muster("verify", folder)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"passed  {folder / 'good.yaml'}",
        f"passed  {folder / 'quota.db'}",
        f"passed  {folder / 'quota.muster'}",
        "3 files, 0 failed",
    ]


def test_what_fails_is_named_with_its_reason_and_the_rest_goes_on(folder: Path) -> None:
    text = QUOTA.read_text().replace("node: n1", "node: n2")
    (folder / "bad.yaml").write_text(text)
    (folder / "broken.yaml").write_text("scenario: broken\nperoid: 1s\nexpect: {}\n")
    (folder / "quota.db").write_bytes(b"SQLite format 3\0 and no more")
    result = muster("verify", folder, "-o", "json")
    assert result.exit_code == 1
    told = {Path(str(one["file"])).name: one for one in documents(result)}
    assert [name for name, one in told.items() if not one["passed"]] == [
        *("bad.yaml", "broken.yaml", "quota.db"),
    ]
    assert told["bad.yaml"]["problems"] == ['pods.default/p1.node: expected "n2", found "n1"']
    assert told["quota.muster"]["passed"] is True


OLD = ROOT / "tests" / "histories" / "attacked" / "names.muster"
"""A log that version 3 decided, and the present version decides otherwise."""

KNOWN = "position: 20\nwhat: another decision\ndecider: 3\nreason: names are checked\n"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with the log, and nothing beside it."""
    shutil.copy(OLD, tmp_path / OLD.name)
    return tmp_path


def test_the_recorded_logs_of_the_project_pass() -> None:
    result = muster("verify", OLD.parent)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    at = lines.index(f"passed  {OLD}")
    assert lines[at + 1] == "        known to diverge at position 20: another decision"


def test_a_divergence_that_is_stated_beside_the_log_passes(old: Path) -> None:
    assert muster("verify", old).exit_code == 1
    (old / "names.muster.diverges.yaml").write_text(KNOWN)
    result = muster("verify", old, "-o", "json")
    assert result.exit_code == 0
    (document,) = documents(result)
    assert document["known_divergence"] == {
        "position": 20,
        "what": "another decision",
        "decider": 3,
        "reason": "names are checked",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (KNOWN.replace("20", "21"), "21: another decision; the first is at position 20"),
        (KNOWN.replace("another", "no"), "20: no decision; the first is at position 20: another"),
        (KNOWN.replace("3", "2"), "decided by version 2; it was decided by version 3"),
        (KNOWN.replace("3", "999"), ".yaml:3: decider must be an earlier version than "),
        (KNOWN.replace("position: 20\n", ""), ".yaml:1: a known divergence must have the key pos"),
        (KNOWN.replace("20", "soon"), ".yaml:1: position must be a whole number"),
        (KNOWN + "why: x\n", ".yaml:5: a known divergence has no key 'why'"),
        ("", ".yaml:1: the file is empty"),
        ("[", ".yaml:"),
    ],
)
def test_another_divergence_than_the_stated_one_fails(old: Path, text: str, problem: str) -> None:
    (old / "names.muster.diverges.yaml").write_text(text)
    result = muster("verify", old, "-o", "json")
    assert result.exit_code == 1
    (document,) = documents(result)
    problems = document["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_stated_divergence_that_is_gone_or_without_a_log_fails(folder: Path) -> None:
    (folder / "quota.db.diverges.yaml").write_text(KNOWN)
    (folder / "gone.db.diverges.yaml").write_text(KNOWN)
    result = muster("verify", folder)
    assert result.exit_code == 1
    assert "position 20: another decision; there is none" in result.stdout
    assert "there is no gone.db beside it" in result.stdout
    assert result.stdout.endswith("4 files, 2 failed\n")


def test_a_folder_without_anything_to_verify_is_refused(tmp_path: Path) -> None:
    assert "neither a scenario" in error_of(muster("verify", tmp_path))
    assert "not a folder" in error_of(muster("verify", tmp_path / "none"))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a demo of a twentieth of the cluster."""
    monkeypatch.setattr(demo, "SCENARIO", SMALL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_shows_it_all_and_leaves_its_log(small: Path) -> None:
    result = muster("demo")
    assert result.exit_code == 0, result.output
    for said in (
        " placed, ",
        " waiting\n",
        "  chain      sound: ",
        "  replay     equal: ",
        "why default/openb-pod-",
        "select resource as card",
        "what to try next",
    ):
        assert said in result.stdout
    assert muster("replay", small / "demo.db").exit_code == 0


def test_what_the_demo_says_to_try_next_works(small: Path) -> None:
    lines = muster("demo").stdout.partition("what to try next\n")[2].splitlines()
    commands = [line.split()[1:] for line in lines if not line.strip().startswith("sqlite3")]
    assert len(commands) >= 3
    for words in commands:
        words = words[words.index("daemon") + 1 :] if "daemon" in words else words
        assert muster(*words).exit_code == 0, words


def test_the_demo_replaces_its_own_log_where_forced_and_no_other(small: Path) -> None:
    (first,) = documents(muster("demo", "-o", "json"))
    log = small / "demo.db"
    written = log.read_bytes()
    result = muster("demo")
    assert (result.exit_code, "--force replaces it" in error_of(result)) == (2, True)
    assert log.read_bytes() == written
    (again,) = documents(muster("demo", "--force", "-o", "json"))
    assert first == again
    assert first["replay"] == "equal"
    assert "demo.db, the log of an earlier demo, is replaced\n" in muster("demo", "--force").stdout


def test_a_demo_that_was_stopped_starts_over(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(simulate, "_read_back", interrupted)
        assert muster("demo").exit_code == 130
    assert [one.name for one in small.iterdir()] == ["demo.db.lock"]
    (small / "demo.db").touch()
    assert muster("demo").exit_code == 0
    with monkeypatch.context() as patched:
        patched.setattr(simulate, "_read_back", interrupted)
        assert muster("demo", "--force").exit_code == 130
    assert muster("log", "verify", small / "demo.db").exit_code == 0, "the earlier one stays"


def test_the_demo_replaces_a_log_that_holds_no_object_yet(small: Path) -> None:
    """An earlier release could leave one."""
    path = small / "none.yaml"
    path.write_text("scenario: none\ncluster: []\n")
    assert muster("simulate", path, "--log", small / "demo.db").exit_code == 0
    assert muster("demo", "--force").exit_code == 0


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_the_demo_leaves_what_it_did_not_write(small: Path, force: tuple[str, ...]) -> None:
    log = small / "demo.db"
    log.write_text("notes")
    result = muster("demo", *force)
    assert (result.exit_code, "is not a muster log" in error_of(result)) == (2, True)
    assert log.read_text() == "notes"
    log.unlink()
    assert muster("simulate", QUOTA, "--log", log).exit_code == 0
    written = log.read_bytes()
    result = muster("demo", *force)
    assert (result.exit_code, "that no demo wrote" in error_of(result)) == (2, True)
    assert log.read_bytes() == written
