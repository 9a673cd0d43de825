"""`--watch` of every command that has it, as text and as documents."""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from daemon.cli.app import COMMANDS, cli
from tests.daemon.cli.builders import Json, documents, muster, scenario

TEXT = """
until: 5s
policy: {pools: [{name: default, decider: priority, slots: [cpu]}]}
cluster:
  - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q1}, spec: {weight: 1}}
  - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {requests: {cpu: 9}}}]}}
"""
WORDS = {
    "group list": ("--log", "LOG"),
    "group show": ("GROUP", "--log", "LOG"),
    "incident": ("LOG", "--node", "n1"),
    "queue list": ("--log", "LOG"),
    "queue show": ("default", "--log", "LOG"),
    "state": ("LOG",),
    "topology": ("LOG",),
    "usage": ("--log", "LOG"),
    "why": ("default/a", "--log", "LOG"),
}


def watching() -> Iterator[str]:
    """The commands with `--watch`, by name."""
    context = click.Context(cli)
    for name in sorted(COMMANDS):
        command = cli.get_command(context, name)
        inner = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for sub, one in inner:
            assert one is not None
            if any("--watch" in parameter.opts for parameter in one.params):
                yield f"{name} {sub}".strip()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a pod that waits."""
    path = tmp_path / "a.db"
    assert muster("simulate", scenario(tmp_path, TEXT), "--log", path).exit_code == 0
    return path


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between two looks; the third one is interrupted."""
    pauses: list[float] = []

    class Pause:
        """An event that is never set."""

        def wait(self, seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr("daemon.cli.watching.Event", Pause)
    return pauses


def test_every_command_with_watch_is_tested_here() -> None:
    assert list(watching()) == sorted(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_documents_and_text_are_shown_once_as_long_as_nothing_changes(
    name: str, log: Path, looks: list[float]
) -> None:
    (waiting,) = documents(muster("state", log, "-o", "json"))
    group = str(waiting["pod_groups"][0]["pod_group"])  # type: ignore[index]
    replaced = {"LOG": str(log), "GROUP": group}
    words = (*name.split(), *(replaced.get(one, one) for one in WORDS[name]))
    for form in ("json", "yaml", "text", "wide"):
        looks.clear()
        once = muster(*words, "-o", form)
        watched = muster(*words, "-o", form, "--watch")
        assert len(looks) == 3, watched.output
        assert (watched.exit_code, watched.stdout) == (once.exit_code, once.stdout), form


def test_each_change_is_a_document_of_its_own(
    log: Path, looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[Json] = iter([{"a": "é"}, {"a": "é"}, {"a": 2}])
    monkeypatch.setattr("daemon.cli.state.ask_log", lambda *given: ("p", None, 0))
    monkeypatch.setattr("daemon.cli.state.state_document", lambda found: next(answers))
    result = muster("state", log, "-w", "-o", "json")
    assert result.stdout.splitlines() == ['{"log":"p","a":"é"}', '{"log":"p","a":2}'], result.output


@pytest.mark.parametrize(
    "words",
    [
        ("why", "BAD", "--log", "LOG"),
        ("history", "BAD", "--log", "LOG"),
        ("object", "BAD", "--log", "LOG"),
        ("group", "show", "BAD", "--log", "LOG"),
        ("queue", "show", "BAD", "--log", "LOG"),
        ("queue", "list", "--log", "BAD"),
        ("tell", "LOG", "--subject", "BAD"),
        ("incident", "LOG", "--node", "BAD"),
        ("simulate", "BAD"),
        ("log", "export", "LOG", "--file", "BAD"),
        ("BAD",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("form", [(), ("-o", "json")], ids=["text", "json"])
def test_an_argument_that_is_not_utf8_is_named(
    words: tuple[str, ...], form: tuple[str, ...], log: Path
) -> None:
    bad = os.fsdecode(b"default/caf\xe9")
    result = muster(*({"BAD": bad, "LOG": str(log)}.get(one, one) for one in words), *form)
    assert result.exit_code == 2
    assert r"argument 'default/caf\\xe9' is not UTF-8" in result.stderr
    assert result.stdout == ""


def test_a_log_that_the_environment_names_is_named_too() -> None:
    result = muster("queue", "list", env={"MUSTER_LOG": os.fsdecode(b"caf\xe9.db")})
    assert result.exit_code == 2
    assert r"MUSTER_LOG 'caf\\xe9.db' is not UTF-8" in result.stderr
