"""`muster history` and followers on PostgreSQL."""

from pathlib import Path

import pytest

from tests.daemon.cli.builders import muster
from tests.daemon.cli.growing_log import day_log, first_half, followed


@pytest.fixture
def log(url: str, tmp_path: Path) -> Path:
    """The log of a day in a file; its first half is on the server."""
    path = day_log(tmp_path)
    first_half(path, url, tmp_path)
    return path


async def test_a_tail_with_filters_follows_a_server(log: Path, url: str) -> None:
    words = ("log", "tail", url, "-n", "2", "--queue", "q1")
    assert await followed(log, url, words, 2, 3) == (
        [35, 36],
        [42, 43, 45],
        (130, "muster: interrupted"),
    )


def test_a_server_answers_as_a_file(log: Path, url: str) -> None:
    for subject in ("Node/n1", "Queue/q1", "Card/n1/H200", "ml/a1", "PodGroup/ml/train"):
        words = ("history", subject, "--to", "36", "-o", "json", "--log")
        on_server = muster(*words, url)
        assert on_server.exit_code == 0, on_server.output
        assert on_server.stdout == muster(*words, log).stdout
