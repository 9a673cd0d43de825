"""What the page on deploying, and the runbooks, tell people to do can be done."""

import re
import shlex
from pathlib import Path

import click
import pytest

from daemon.cli.app import cli
from tests.checkout import ROOT
from tests.deploy.kustomizing import one, rendered

PAGE = ROOT / "docs/deploying.md"
TEXT = PAGE.read_text(encoding="utf-8")
RUNBOOKS = (ROOT / "docs/runbooks/alerts.md").read_text(encoding="utf-8")


def typed() -> list[str]:
    """Every call of muster on the pages, in blocks and in the text."""
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    behind = [line.rpartition("-- ")[2] if " exec " in line else line for line in lines]
    inline = re.findall(r"`(muster [a-z][^`]*)`", TEXT + RUNBOOKS)
    calls = [re.search(r"(?:^|/)muster ((?!-)[a-z].*)", line) for line in (*behind, *inline)]
    return [found[1] for found in calls if found]


@pytest.mark.parametrize("line", typed())
def test_every_command_on_the_page_exists_with_its_options(line: str) -> None:
    words = shlex.split(line, comments=True)
    command: click.Command = cli
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(click.Context(command), name)
        assert found is not None, line
        command = found
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("-")} - known == set()


def test_the_page_names_commands() -> None:
    assert {line.split()[0] for line in typed()} >= {
        "why",
        "log",
        "replay",
        "rebuild",
        "incident",
        "queue",
    }


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"\bdeploy/[\w/.-]*\w", TEXT))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_folder_of_manifests_is_on_the_page() -> None:
    folders = {path.parent for path in (ROOT / "deploy/kustomize").rglob("kustomization.yaml")}
    names = {str(folder.relative_to(ROOT / "deploy/kustomize")) for folder in folders}
    assert [name for name in sorted(names) if f"| `{name}` |" not in TEXT] == []


def test_the_kustomization_on_the_page_does_what_it_is_for(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n# kustomization.yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "muster").symlink_to(ROOT)
    (tmp_path / "kustomization.yaml").write_text(example, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text("actions: allocate\n", encoding="utf-8")
    manifests = rendered(tmp_path)
    settings = one(manifests, "ConfigMap")
    assert settings["data"]["policy.yaml"] == "actions: allocate\n"
    assert "scheduler_names" in settings["data"]["muster.yaml"]
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.your.example/muster:")
