"""Plugins that are installed beside muster: found by their entry points, recorded, explained, and missed."""

import json
import shutil
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import muster_apart

EXAMPLE = ROOT / "docs" / "examples" / "plugin"
SCENARIO = EXAMPLE / "teams.yaml"


def install(
    folder: Path, *entries: str, package: str = "muster-teams", version: str = "1.0"
) -> Path:
    """Lay a package out as pip does; return the folder to put on the path."""
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8"
    )
    listed = "\n".join(("[muster.plugins]", *entries))
    (info / "entry_points.txt").write_text(listed, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of the manual, installed."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(EXAMPLE / "muster_teams.py", folder)
    return install(folder, "newer = muster_teams:Newer", "teams = muster_teams:Teams")


@pytest.fixture(scope="module")
def log(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of its scenario, with both plugins."""
    path = tmp_path_factory.mktemp("log") / "teams.db"
    done = muster_apart("simulate", SCENARIO, "--log", path, env={"PYTHONPATH": str(installed)})
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def test_the_example_is_short() -> None:
    text = (EXAMPLE / "muster_teams.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60


def test_plugins_of_a_package_change_decisions(installed: Path) -> None:
    done = muster_apart(
        "simulate", SCENARIO, "--output", "json", env={"PYTHONPATH": str(installed)}
    )
    pods = json.loads(done.stdout)["pods"]
    assert {name.partition("/")[2]: one["node"] for name, one in pods.items()} == {
        "red-1": "young",
        "red-2": "young",
        "red-3": "old",
        "red-4": "old",
        "red-5": None,
        "blue": "young",
        "free": "young",
    }
    done = muster_apart("simulate", SCENARIO, "--output", "json")
    assert {one["node"] for one in json.loads(done.stdout)["pods"].values()} == {"old"}
    assert "plugin teams is not known to this release: skipped" in done.stderr


def test_plugins_of_a_package_decide_and_are_explained(installed: Path, log: Path) -> None:
    env = {"PYTHONPATH": str(installed)}
    refused = muster_apart("why", "default/red-5", "--log", log, env=env)
    assert "0/2 nodes are unavailable: 2 node(s) had 2 pods of team red." in refused.stdout
    assert "young: had 2 pods of team red" in refused.stdout
    placed = muster_apart("why", "default/red-1", "--log", log, env=env)
    (chosen,) = [one.split() for one in placed.stdout.splitlines() if one.startswith("  * ")]
    assert chosen[:4] == ["*", "young", "100.000", "100.000"]


def test_a_replay_with_the_same_plugins_is_equal(installed: Path, log: Path) -> None:
    done = muster_apart("replay", log, env={"PYTHONPATH": str(installed)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equal: ")


def test_a_replay_names_the_plugin_that_is_missing(log: Path) -> None:
    done = muster_apart("replay", log)
    assert done.returncode == 2
    assert "names plugin teams, which was installed when the log was written" in done.stderr


def test_a_replay_with_another_version_calls_a_difference_a_change(
    log: Path, tmp_path: Path
) -> None:
    text = (EXAMPLE / "muster_teams.py").read_text(encoding="utf-8")
    (tmp_path / "muster_teams.py").write_text(
        text.replace(">= self.config.arguments.most", "> self.config.arguments.most"),
        encoding="utf-8",
    )
    entries = ("newer = muster_teams:Newer", "teams = muster_teams:Teams")
    env = {"PYTHONPATH": str(install(tmp_path, *entries, version="1.1"))}
    done = muster_apart("replay", log, env=env)
    assert done.returncode == 1
    assert "plugin teams 1.0, now 1.1" in done.stdout
    assert "a change of behaviour, not a bug" in done.stdout


@pytest.mark.parametrize(
    ("module", "entry", "text"),
    [
        ("raise RuntimeError('no such card')", "x = broken:X", "cannot be imported: no such card"),
        ("X = 3", "x = broken:X", "is not a subclass of projections.plugin.Plugin"),
        (
            "from scheduling.pod_topology.plugin_columns import NodeScore\nclass X(NodeScore):\n    name = 'y'",
            "x = broken:X",
            "its class has the name 'y', not that of the entry point",
        ),
        (
            "from scheduling.pod_topology.plugin_columns import NodeScore\nclass X(NodeScore):\n    name = 'gang'",
            "gang = broken:X",
            "a plugin of that name exists already",
        ),
        (
            "from scheduling.pod_topology.plugin_columns import NodeScore\nclass X(NodeScore):\n    name = 'x'",
            "x = broken:X",
            "its class does not define score",
        ),
    ],
)
def test_a_package_that_is_no_plugin_is_named(
    module: str, entry: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(module, encoding="utf-8")
    env = {"PYTHONPATH": str(install(tmp_path, entry, package="broken-plugin", version="2.0"))}
    done = muster_apart("simulate", SCENARIO, env=env)
    assert done.returncode == 2
    assert text in done.stderr
    assert "of package broken-plugin 2.0" in done.stderr
    assert len(done.stderr.splitlines()) == 1
