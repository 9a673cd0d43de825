"""The page of questions of operators: each command is typed, and prints what the page shows."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon.cli.builders import muster

PAGE = (ROOT / "docs/operator-questions.md").read_text(encoding="utf-8")
EXAMPLES = "docs/examples/operator-questions"
LEFT_OUT = "..."
"""A line that stands for any number of lines."""

FOUND = ("Would this job fit now?", "How do two logs differ?", "What would have happened")
"""Beginnings of the questions whose last command exits with 1: it finds something."""

TYPED = re.compile(r"^    (muster .*)\n(?:\n```\n((?:.*\n)*?)```$)?", re.MULTILINE)
"""A command on a line of its own, and the block that shows its output, if any."""
MENTIONED = re.compile(r"`(muster [^`]*--log [^`]*)`")
"""A whole command within a sentence."""


def sections() -> dict[str, str]:
    """The text of each question."""
    parts = re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples and the log of the hour, made as the page says."""
    folder = tmp_path_factory.mktemp("operator")
    shutil.copytree(ROOT / EXAMPLES, folder / EXAMPLES)
    first = TYPED.search(PAGE)
    assert first is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert muster(*shlex.split(first[1])[1:]).exit_code == 0
    return folder


def shows(block: str, printed: str) -> bool:
    """Whether a block is what was printed, but for lines left out."""
    parts = [re.escape(line) for line in block.splitlines()]
    pattern = "".join(
        "(?:.*\n)*?" if part == re.escape(LEFT_OUT) else f"{part}\n" for part in parts
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def test_there_are_sixteen_questions() -> None:
    assert len(sections()) == 16
    unanswered = [title for title, text in sections().items() if not TYPED.search(text)]
    assert not unanswered


@pytest.mark.parametrize("title", sections())
def test_the_command_of_the_question_prints_what_the_page_shows(
    title: str, hour: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hour)
    text = sections()[title]
    typed = [(found[1], found[2]) for found in TYPED.finditer(text)]
    for index, (command, block) in enumerate(typed):
        result = muster(*shlex.split(command)[1:])
        is_last = index == len(typed) - 1
        assert result.exit_code == int(title.startswith(FOUND) and is_last), result.output
        assert shows(block, result.stdout), f"{command} prints:\n{result.stdout}"
    for command in MENTIONED.findall(text):
        assert muster(*shlex.split(command)[1:]).exit_code == 0, command


@pytest.mark.parametrize(
    ("block", "printed", "is_shown"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("...\nd\n", "d\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nb\n", "a\nc\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_only_lines_that_are_marked_may_be_left_out(
    block: str, printed: str, is_shown: bool
) -> None:
    assert shows(block, printed) is is_shown
