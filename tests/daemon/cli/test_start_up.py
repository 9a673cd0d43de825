"""`muster --version` and shell completion import little, so that they answer at once."""

import os
import subprocess
import sys

import pytest

from daemon.cli.app import COMMANDS, cli
from daemon.cli.completion_table import TABLE, command_of_table, table_text
from tests.checkout import ROOT

HEAVY = (
    *(
        "aiohttp",
        "alembic",
        "asyncio",
        "asyncpg",
        "kubernetes_asyncio",
        "numpy",
        "prometheus_client",
    ),
    *("rich", "sqlalchemy", "structlog", "yaml", "zstandard"),
    *(
        "projections",
        "scheduling",
        "features",
        "engine",
        "replay",
        "simulator",
        "daemon.log",
        "daemon.cluster",
    ),
)
"""Modules that take long to import, or bring in one that does."""


def imported(*words: str, **environment: str) -> tuple[str, set[str]]:
    """What the command prints, and the modules that it imports."""
    result = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-X", "importtime", "-m", "daemon", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = result.stderr.splitlines()
    return result.stdout, {line.rpartition("|")[2].strip() for line in lines}


def test_the_version_is_printed_without_heavy_modules() -> None:
    text, modules = imported("--version")
    assert text.startswith("muster ")
    assert "click" in modules
    assert sorted(modules & set(HEAVY)) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("muster wh", ["plain,what-if", "plain,why"]),
        ("muster log ver", ["plain,verify"]),
        ("muster why --for", ["plain,--for-tenant"]),
    ],
)
def test_completion_imports_no_command(words: str, found: list[str]) -> None:
    number = str(len(words.split()) - 1)
    text, modules = imported(_MUSTER_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=number)
    assert text.split() == found
    assert sorted(modules & {*HEAVY, *COMMANDS.values()}) == []


def test_the_table_of_completion_is_fresh_and_has_every_command() -> None:
    assert TABLE.read_text() == table_text(cli), "stale, run `make docs`"
    table = command_of_table()
    assert sorted(getattr(table, "commands", {})) == sorted(COMMANDS)
