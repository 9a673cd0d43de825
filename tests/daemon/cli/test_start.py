"""What a shell waits for imports only what it needs."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.control_plane.kubectl import KUBECTL, needs_kubectl

HEAVY = (
    "aiohttp",
    "alembic",
    "asyncio",
    "kubernetes_asyncio",
    "numpy",
    "prometheus_client",
    "rich",
    "sqlalchemy",
    "structlog",
    "yaml",
    "scheduling",
    "simulator",
)
"""Modules that take longer to import than everything that `muster --version` needs."""

COMPLETING = {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": "muster w", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("arguments", "environment", "shown"),
    [
        (["--version"], {}, "muster "),
        (["completion", "bash"], {}, "_MUSTER_COMPLETE"),
        ([], COMPLETING, "plain,what-if\nplain,why\n"),
    ],
    ids=["--version", "completion bash", "muster w<TAB>"],
)
def test_version_and_completion_import_nothing_heavy(
    arguments: list[str], environment: dict[str, str], shown: str
) -> None:
    ended = subprocess.run(  # noqa: S603
        [
            sys.executable,
            "-X",
            "importtime",
            "-c",
            "from daemon.__main__ import main; main()",
            *arguments,
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-500:]
    assert shown in ended.stdout
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "click.core" in imported
    assert sorted(imported & set(HEAVY)) == []


@needs_kubectl
def test_kubectl_finds_the_plugin(tmp_path: Path) -> None:
    """The script that an installation makes of the entry point `kubectl-muster`, by the name that kubectl looks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, function = project["scripts"]["kubectl-muster"].split(":")
    script = tmp_path / "kubectl-muster"
    script.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    script.chmod(0o755)
    assert KUBECTL is not None
    ended = subprocess.run(  # noqa: S603
        [KUBECTL, "muster", "why", "team-a/p", "--server", "http://example.com"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "MUSTER_LOG": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "a token is sent by https only" in ended.stderr
